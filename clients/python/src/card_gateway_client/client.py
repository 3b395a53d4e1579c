"""The client that needs the standard library alone."""

import http.client
import json as jsonlib
import secrets
import ssl
import time
from typing import Any, Dict, Mapping, NamedTuple, Optional, Tuple, Union
from urllib.parse import quote, urlencode, urlsplit

from .errors import ApiError, ConnectionFailed, RedirectRefused, UnsignableError
from .policy import IDENTITY, Exchange, Policy
from .version import __version__

Query = Union[Mapping[str, Any], "list[tuple[str, Any]]"]


class Answer(NamedTuple):
    """An answer with a status below 300."""

    status: int
    headers: Mapping[str, str]
    body: bytes

    def json(self) -> Any:
        """Returns the JSON of the body."""
        return jsonlib.loads(self.body)


class Client:
    """Calls the card API of one gateway with one key, from any number of threads.

    Each attempt has a connection of its own. ``timeout`` is for each wait on
    the network, in seconds. ``options`` are those of ``Policy``.
    """

    def __init__(
        self, base_url: str, key_id: str, secret: str, *, timeout: float = 30,
        tls: Optional[ssl.SSLContext] = None, **options: Any,
    ) -> None:
        self.policy = Policy(base_url, key_id, secret, **options)
        self._timeout, self._tls = timeout, tls

    def get(self, path: str, query: Optional[Query] = None) -> Answer:
        """Reads the path with the parameters of the query."""
        return self.request("GET", path, query=query)

    def post(self, path: str, json: Any = None) -> Answer:
        """Sends a value as JSON; without one, no body."""
        return self.request("POST", path, json=json)

    def patch(self, path: str, json: Any) -> Answer:
        """Sends a value as JSON."""
        return self.request("PATCH", path, json=json)

    def upload(self, path: str, fields: Mapping[str, str], files: Mapping[str, Tuple[str, bytes]]) -> Answer:
        """Sends a form; ``files`` maps a field to the name and content of its file."""
        content_type, body = multipart(fields, files)
        return self.request("POST", path, body=body, headers={"Content-Type": content_type})

    def request(
        self, method: str, path: str, *, query: Optional[Query] = None, json: Any = None, body: Any = None,
        headers: Optional[Mapping[str, str]] = None,
    ) -> Answer:
        """Sends a request; ``path`` is escaped, ``body`` bytes, text or an open file.

        Raises ``UnsignableError``, ``ConnectionFailed``, ``UnprovenAnswer``,
        ``RedirectRefused`` or ``ApiError``.
        """
        base = urlsplit(self.policy.base_url)
        target = with_query(base.path + path, query)
        content, sent_headers = prepare(json, body, headers, self.policy.verify_answers)
        method = method.upper()
        exchange = self.policy.begin(method)
        while True:
            signed = {**sent_headers, **exchange.sign(target, content or b"")}
            try:
                answer = self._attempt(method, target, content, signed)
                wait = exchange.after_answer(answer.status, answer.headers, answer.body)
            except _Failure as failure:
                wait = exchange.after_failure(failure.sent)
                if wait is None:
                    raise ConnectionFailed(failure.sent, exchange.attempts, failure.cause) from failure.cause
            else:
                if wait is None:
                    return judge(answer, exchange)
            time.sleep(wait)

    def _attempt(self, method: str, target: str, body: Optional[bytes], headers: Dict[str, str]) -> Answer:
        base = urlsplit(self.policy.base_url)
        if base.scheme == "https":
            connection: http.client.HTTPConnection = http.client.HTTPSConnection(
                base.hostname or "", base.port, timeout=self._timeout, context=self._tls)
        else:
            connection = http.client.HTTPConnection(base.hostname or "", base.port, timeout=self._timeout)
        connected = False
        try:
            connection.connect()
            connected = True
            connection.request(method, target, body, headers)
            answer = connection.getresponse()
            return Answer(answer.status, {name: ", ".join(answer.headers.get_all(name, [])) for name in answer.headers}, answer.read())
        except (OSError, http.client.HTTPException) as error:
            raise _Failure(connected, error) from error
        finally:
            connection.close()


class _Failure(Exception):
    def __init__(self, sent: bool, cause: Exception) -> None:
        self.sent, self.cause = sent, cause


def with_query(path: str, query: Optional[Query]) -> str:
    """Returns the path with the parameters, each escaped but for letters,
    digits and ``-._~``."""
    if not query:
        return path
    return path + "?" + urlencode(query, doseq=True, quote_via=quote, safe="")


def prepare(
    json: Any, body: Any, headers: Optional[Mapping[str, str]], identity: bool = False,
) -> Tuple[Optional[bytes], Dict[str, str]]:
    """Returns the bytes of the body and the headers. What is signed is what is
    sent, so a value is encoded here, once. ``identity``: no coding is asked for."""
    result = {"User-Agent": "card-gateway-python/" + __version__, **(headers or {})}
    if identity:
        result = {**{name: value for name, value in result.items() if name.lower() != "accept-encoding"}, **IDENTITY}
    if json is not None:
        body = jsonlib.dumps(json, ensure_ascii=False, separators=(",", ":"))
    if hasattr(body, "read"):
        body = body.read()
    if isinstance(body, str):
        body = body.encode()
    if body is not None and not isinstance(body, (bytes, bytearray)):
        raise UnsignableError(
            f"a {type(body).__name__} cannot be read twice, and its hash is sent before it; pass bytes: b''.join(chunks)")
    if body is not None and not any(name.lower() == "content-type" for name in result):
        result["Content-Type"] = "application/json"
    return None if body is None else bytes(body), result


def judge(answer: Answer, exchange: Exchange) -> Answer:
    """Returns the answer, or raises the error that it is."""
    if exchange.verifies:
        exchange.verify(*answer)
    if answer.status >= 400:
        raise ApiError(*answer)
    if answer.status >= 300:
        lower = {name.lower(): value for name, value in answer.headers.items()}
        raise RedirectRefused(answer.status, lower.get("location", ""))
    return answer


def multipart(fields: Mapping[str, str], files: Mapping[str, Tuple[str, bytes]]) -> Tuple[str, bytes]:
    """Returns the content type and the bytes of a form."""
    boundary = secrets.token_hex(16)
    parts = []
    for name, value in fields.items():
        parts.append(f'Content-Disposition: form-data; name="{_quoted(name)}"\r\n\r\n'.encode() + value.encode())
    for name, (filename, content) in files.items():
        head = f'Content-Disposition: form-data; name="{_quoted(name)}"; filename="{_quoted(filename)}"\r\n'
        parts.append(head.encode() + b"Content-Type: application/octet-stream\r\n\r\n" + content)
    body = b"".join(b"--" + boundary.encode() + b"\r\n" + part + b"\r\n" for part in parts)
    return "multipart/form-data; boundary=" + boundary, body + b"--" + boundary.encode() + b"--\r\n"


def _quoted(name: str) -> str:
    return name.replace('"', "%22").replace("\r", "%0D").replace("\n", "%0A")
