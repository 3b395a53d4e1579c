"""The signature of one request."""

import base64
import hashlib
import hmac
import re
import secrets
import time
import unicodedata
from typing import Dict, Mapping, Optional

from .errors import UnprovenAnswer, UnsignableError, error_fields

METHODS = ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE")

# The headers of a signed answer.
_ANSWERED = ("x-response-timestamp", "x-response-body-hash", "x-response-signature")
_MAX_AGE = 300  # seconds by which the first may differ from the clock

_PATH = re.compile(r"/(?:[!$&-;=@-\[\]_a-z~]|%[0-9A-Fa-f]{2})*")
_QUERY = re.compile(r'(?:[!"$&-~]|%[0-9A-Fa-f]{2})*')
_ESCAPE = re.compile(rb"%([0-9A-Fa-f]{2})")
_CONTROL = re.compile(rb"[\x00-\x1f\x7f\\]")
_OVERLONG = re.compile(rb"[\xc0\xc1][\x80-\xbf]|\xe0[\x80-\x9f]|\xf0[\x80-\x8f]")


class Signer:
    """The credentials of one key."""

    def __init__(self, key_id: str, secret: str) -> None:
        if not key_id or not secret:
            raise UnsignableError("the key id or the secret is empty; set both")
        self.key_id, self._secret = key_id, secret.encode()

    def headers(
        self, method: str, target: str, body: bytes = b"",
        timestamp: Optional[int] = None, nonce: Optional[str] = None,
    ) -> Dict[str, str]:
        """Returns the five authentication headers of a request.

        ``target`` is the path and query as they are written on the wire. The
        headers are good for one attempt within five minutes. Raises
        ``UnsignableError`` for what the gateway would refuse.
        """
        if method not in METHODS:
            raise UnsignableError(f"the method {method!r} is not one of {', '.join(METHODS)}")
        check_target(target)
        stamp = str(int(time.time()) if timestamp is None else timestamp)
        nonce = nonce or secrets.token_hex(16)
        body_hash = _hash(body)
        return {
            "X-API-Key": self.key_id, "X-Timestamp": stamp, "X-Nonce": nonce,
            "X-Body-Hash": body_hash, "X-Signature": self._mac(method, target, stamp, nonce, body_hash),
        }

    def verify_answer(self, nonce: str, status: int, headers: Mapping[str, str], body: bytes, now: Optional[float] = None) -> None:
        """Raises ``UnprovenAnswer`` unless the gateway has signed the answer to
        the request that was sent with the nonce.

        The names of the headers are in lower case, several values of one have a
        comma between. ``body`` is as it was received, before a Content-Encoding
        is removed.
        """
        if is_unsigned(headers):
            says = error_fields(body).get("message")
            raise UnprovenAnswer(status, headers, True, "it is not signed" + (f"; it says {says!r}" if says else ""))
        request_id = headers.get("x-request-id", "")
        stamp, body_hash, signature = (headers.get(name, "") for name in _ANSWERED)
        want = self._mac("card-gateway-response-v1", str(status), request_id, stamp, nonce, body_hash)
        if not request_id or not hmac.compare_digest(signature.encode(), want.encode()):
            raise UnprovenAnswer(status, headers, False, "X-Response-Signature is not that of the status, the request id, the timestamp, "
                                 "the nonce and the hash")
        if not hmac.compare_digest(body_hash.encode(), _hash(body).encode()):
            raise UnprovenAnswer(status, headers, False, "X-Response-Body-Hash is not that of the body")
        age = int(time.time() if now is None else now) - int(stamp) if re.fullmatch("[0-9]{1,12}", stamp) else _MAX_AGE + 1
        if abs(age) > _MAX_AGE:
            raise UnprovenAnswer(status, headers, False, "X-Response-Timestamp is more than five minutes from the clock")

    def _mac(self, *parts: str) -> str:
        return base64.b64encode(hmac.new(self._secret, "\n".join(parts).encode(), hashlib.sha256).digest()).decode()


def _hash(body: bytes) -> str:
    return base64.b64encode(hashlib.sha256(body).digest()).decode()


def is_unsigned(headers: Mapping[str, str]) -> bool:
    """Whether an answer has no header of a signature."""
    return not any(name in headers for name in _ANSWERED)


def check_target(target: str) -> None:
    """Raises ``UnsignableError`` for a path and query that the gateway would
    refuse, because two servers could read them in two ways."""
    path, _, query = target.partition("?")
    if len(target) > 8192:
        raise UnsignableError("the path and query are longer than 8 KiB")
    if not path.startswith("/"):
        raise UnsignableError("the path must begin with a slash")
    for name, part, allowed in (("path", path, _PATH), ("query", query, _QUERY)):
        if not allowed.fullmatch(part):
            raise UnsignableError(
                f"the {name} holds a character that must be percent-encoded, or a % without two hexadecimal digits: "
                "write é as %C3%A9, a blank as %20 (urllib.parse.quote)"
            )
    decoded = path.encode()
    while _ESCAPE.search(decoded):
        decoded = _ESCAPE.sub(lambda found: bytes([int(found[1], 16)]), decoded)
    if decoded.count(b"/") != path.count("/") or _CONTROL.search(decoded):
        raise UnsignableError("the path holds an encoded slash, backslash or control character; no identifier has one")
    if _OVERLONG.search(decoded):
        raise UnsignableError("the path holds overlong UTF-8; encode the shortest form of the character")
    inner = decoded[1:-1] if decoded.endswith(b"/") else decoded[1:]
    if path != "/" and any(_vanishes(segment) for segment in inner.split(b"/")):
        raise UnsignableError("the path holds an empty segment, or one of dots and blanks; is an identifier empty?")


def _vanishes(segment: bytes) -> bool:
    """Whether some servers drop the segment."""
    name = segment.split(b";")[0].decode(errors="replace")
    before, dot, _ = name.partition(".")
    if dot and before and all(map(_is_blank, before)):
        return True
    return all(c == "." or _is_blank(c) for c in name)


def _is_blank(c: str) -> bool:
    return c in "+\ufffd" or c.isspace() or unicodedata.category(c) == "Cf"
