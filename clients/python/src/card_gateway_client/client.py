"""The client that needs the standard library alone."""

import http.client
import json as jsonlib
import secrets
import select
import ssl
import threading
import time
from contextlib import contextmanager
from typing import Any, Callable, Dict, Iterator, Mapping, NamedTuple, Optional, Tuple, Union
from urllib.parse import quote, urlencode, urlsplit

from .errors import ApiError, Call, CallTaken, ConnectionFailed, OutcomeUnknown, RedirectRefused, UnsignableError
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

    Each thread keeps a connection; ``close`` ends that of the calling one. ``timeout`` is for each wait on
    the network, in seconds. ``options`` are those of ``Policy``.
    """

    def __init__(
        self, base_url: str, key_id: str, secret: str, *, timeout: float = 30,
        tls: Optional[ssl.SSLContext] = None, **options: Any,
    ) -> None:
        self.policy = Policy(base_url, key_id, secret, **options)
        self._timeout, self._tls = timeout, tls
        self._kept = threading.local()

    def new_call(self) -> Call:
        """Returns a nonce and a timestamp for a request, to be stored before it is sent."""
        return self.policy.new_call()

    def close_call(self, call: Call) -> None:
        """Makes sure that a call whose outcome is not known is never executed.
        Returns if it was not, and never will be. Raises ``CallTaken`` if it was taken
        before, and ``OutcomeUnknown`` if that cannot be found out any more; every
        other error decides nothing."""
        with closing_call(call, self.policy) as check:
            check(self.request("POST", CLOSE, call=call))

    def close(self) -> None:
        """Closes the connection of the calling thread."""
        kept, self._kept.connection = getattr(self._kept, "connection", None), None
        if kept:
            kept.close()

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
        headers: Optional[Mapping[str, str]] = None, call: Optional[Call] = None,
    ) -> Answer:
        """Sends a request; ``path`` is escaped, ``body`` bytes, text or an open file,
        ``call`` what ``new_call`` has returned, if it was stored.

        Raises ``UnsignableError``, ``ConnectionFailed``, ``UnprovenAnswer``,
        ``RedirectRefused``, ``ApiError``, ``CallTaken`` or ``OutcomeUnknown``.
        """
        base = urlsplit(self.policy.base_url)
        target = with_query(base.path + path, query)
        content, sent_headers = prepare(json, body, headers, self.policy.verify_answers)
        method = method.upper()
        exchange = self.policy.begin(method, call)
        while True:
            signed = {**sent_headers, **exchange.sign(target, content or b"")}
            try:
                answer = self._attempt(method, target, content, signed, exchange)
                wait = exchange.after_answer(answer.status, answer.headers, answer.body)
            except _Failure as failure:
                wait = exchange.after_failure(failure.sent, failure.cause)
                if wait is None:
                    raise ConnectionFailed(failure.sent, exchange.attempts, failure.cause) from failure.cause
            else:
                if wait is None:
                    return judge(answer, exchange)
            time.sleep(wait)

    def _attempt(self, method: str, target: str, body: Optional[bytes], headers: Dict[str, str], exchange: Exchange) -> Answer:
        connection = getattr(self._kept, "connection", None)
        self._kept.connection = None
        if connection is None or _has_ended(connection):
            connection = self._connect()
        try:
            connection.request(method, target, body, headers)
            answer = connection.getresponse()
            received = {name: ", ".join(answer.headers.get_all(name, [])) for name in answer.headers}
            content = b""
            if not exchange.verifies or exchange.reads(answer.status, received):
                content = answer.read()
        except (OSError, http.client.HTTPException) as error:
            connection.close()
            raise _Failure(True, error) from error
        if answer.isclosed() and connection.sock is not None:
            self._kept.connection = connection
        else:
            connection.close()
        return Answer(answer.status, received, content)

    def _connect(self) -> http.client.HTTPConnection:
        base = urlsplit(self.policy.base_url)
        if base.scheme == "https":
            connection: http.client.HTTPConnection = http.client.HTTPSConnection(
                base.hostname or "", base.port, timeout=self._timeout, context=self._tls)
        else:
            connection = http.client.HTTPConnection(base.hostname or "", base.port, timeout=self._timeout)
        try:
            connection.connect()
        except (OSError, http.client.HTTPException) as error:
            connection.close()
            raise _Failure(False, error) from error
        return connection


CLOSE = "/gateway/v1/nonce/close"


@contextmanager
def closing_call(call: Call, policy: Policy) -> Iterator[Callable[[Answer], None]]:
    """Says ``OutcomeUnknown`` of a call whose time has passed, and of a close that was
    perhaps taken for the call itself. It yields what checks the answer. A close has the
    timestamp of the call: a gateway that has lost its nonce refuses that."""
    passed = OutcomeUnknown(call, 0, "its time has passed, so that nothing can execute it any more, and the gateway has forgotten its nonce")

    def check(answer: Answer) -> None:
        if answer.json()["data"]["nonce"] != call.nonce:  # the timestamp was refused, and another nonce signed
            raise passed

    if policy.passed(call):
        raise passed
    try:
        yield check
    except CallTaken as taken:
        if taken.perhaps_by_us:
            raise OutcomeUnknown(call, 0, taken) from taken
        raise


def _has_ended(connection: http.client.HTTPConnection) -> bool:
    """Whether the server has closed the kept connection, or has sent what nobody asked for."""
    if select.select([connection.sock], [], [], 0)[0]:
        connection.close()
        return True
    return False


class _Failure(Exception):
    def __init__(self, sent: bool, cause: Exception) -> None:
        self.sent, self.cause = sent, cause


def with_query(path: str, query: Optional[Query]) -> str:
    """Returns the path with the parameters that are not None, each escaped but
    for letters, digits and ``-._~``."""
    pairs = [(name, value) for name, value in (query.items() if isinstance(query, Mapping) else query or []) if value is not None]
    if not pairs:
        return path
    return path + ("&" if "?" in path else "?") + urlencode(pairs, doseq=True, quote_via=quote, safe="")


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
