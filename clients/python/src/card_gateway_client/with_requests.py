"""For programs that use requests.

An ``auth=`` object would sign a request once: requests sends the headers that
it sets with each repetition, and to wherever a redirect leads. An adapter sees
each attempt, and signs a copy of it.
"""

import re
import time
from contextlib import closing
from io import BytesIO
from typing import Any, Optional

import requests
from requests.adapters import HTTPAdapter
from urllib3 import HTTPResponse
from urllib3.exceptions import ConnectTimeoutError, HTTPError, NewConnectionError

from .client import prepare
from .errors import UnsignableError
from .policy import IDENTITY, Policy, chosen


def session(base_url: str, key_id: str, secret: str, **options: Any) -> requests.Session:
    """Returns a session that signs the requests to ``base_url``, and only these. It
    follows no redirect. ``options`` are those of ``Policy``."""
    result = _Session()
    policy = Policy(base_url, key_id, secret, **options)
    result.mount(policy.base_url + "/", CardAdapter(policy))
    return result


class _Session(requests.Session):
    def get_redirect_target(self, resp: requests.Response) -> Optional[str]:
        """A signature is for one target of one host, and the body is for nobody else."""
        return None


class CardAdapter(HTTPAdapter):
    """Signs each attempt, repeats what may be repeated, and corrects the clock.

    Answers of every status are returned, and failed connections are raised as
    requests does it. ``send`` raises ``UnsignableError`` before it sends, ``CallTaken``
    and ``OutcomeUnknown``, and with ``verify_answers`` an ``UnprovenAnswer``. A
    request that has X-Nonce and X-Timestamp already is signed with these.
    """

    def __init__(self, policy: Policy, **kwargs: Any) -> None:
        self._policy = policy
        super().__init__(**kwargs)

    def send(self, request: requests.PreparedRequest, *args: Any, **kwargs: Any) -> requests.Response:
        """Sends the request, several times if need be."""
        target, body = request.path_url, self._body(request)
        if not self._policy.serves(request.url or ""):
            raise UnsignableError(f"{request.url} is not below {self._policy.base_url}")
        if re.search(r"%(?:[a-f]|.[a-f])", target):
            raise UnsignableError("urllib3 would rewrite the escapes with lower-case digits; write %2F, not %2f")
        exchange = self._policy.begin(request.method or "GET", chosen(request.headers))
        while True:
            signed = request.copy()
            signed.headers.update(exchange.sign(target, body or b""))
            if body is not None:
                signed.body = body
            if exchange.verifies:
                signed.headers.update(IDENTITY)
            raw = b""
            wait: Optional[float]
            try:
                answer = super().send(signed, *args, **kwargs)
                answer.raw.enforce_content_length = True  # else urllib3 1 takes an answer that was cut for whole
                if exchange.reads(answer.status_code, answer.headers):
                    raw = _read(answer)
                wait = exchange.after_answer(answer.status_code, answer.headers, raw)
            except (requests.ConnectionError, requests.Timeout) as error:
                wait = exchange.after_failure(not _refused(error), error)
                if wait is None:
                    raise
            else:
                if wait is None:
                    if exchange.verifies:
                        exchange.verify(answer.status_code, answer.headers, raw)
                    answer.request = request  # whose headers may be logged
                    return answer
            time.sleep(wait)

    @staticmethod
    def _body(request: requests.PreparedRequest) -> Optional[bytes]:
        if "Transfer-Encoding" in request.headers:
            raise UnsignableError("a stream cannot be read twice, and its hash is sent before it; pass bytes: b''.join(chunks)")
        return prepare(None, request.body, None)[0]


def _read(answer: requests.Response) -> bytes:
    """Returns the body as it was received, and leaves it to be read again."""
    with closing(answer):
        try:
            raw: bytes = answer.raw.read(decode_content=False)
        except HTTPError as error:
            raise requests.ConnectionError(error) from error
    answer.raw = HTTPResponse(
        body=BytesIO(raw), headers=answer.raw.headers, status=answer.status_code, reason=answer.raw.reason, preload_content=False)
    return raw


def _refused(error: requests.RequestException) -> bool:
    """Whether the connection failed before a byte was sent."""
    if isinstance(error, requests.exceptions.SSLError):
        return True
    reason = getattr(error.args[0] if error.args else None, "reason", None)
    return isinstance(error, requests.ConnectTimeout) or isinstance(reason, (NewConnectionError, ConnectTimeoutError))
