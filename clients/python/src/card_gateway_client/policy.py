"""When a request is tried again, and what the time is. It sends nothing."""

import ipaddress
import logging
import random
import secrets
import time
from email.utils import parsedate_to_datetime
from typing import Any, Callable, Dict, Mapping, Optional
from urllib.parse import SplitResult, urlsplit

from .errors import ApiError, Call, CallTaken, OutcomeUnknown, UnprovenAnswer, UnsignableError, error_fields, is_not_executed, retry_after
from .signer import Signer, is_unsigned

_log = logging.getLogger("card_gateway_client")


_REPLAY = "Replay detected (duplicate nonce)"
_WINDOW = "Request timestamp is outside the allowed window"
_REPEAT_WITHIN = 270  # seconds after the signature: the gateway's window is five minutes


class Policy:
    """What all requests of one key share: attempts, waits and the clock.

    ``attempts`` is the largest number of attempts, 1 for no repetition;
    ``max_wait`` the longest wait before another one, in seconds: if the server
    asks for more, there is none. ``now`` returns the time in Unix seconds.
    ``verify_answers``: only an answer that the gateway has signed for the request
    is believed, and the error for others is an ``UnprovenAnswer``; it needs a
    gateway with the option sign_responses. Without it somebody between can forge
    answers, and nothing is certain.
    """

    def __init__(
        self, base_url: str, key_id: str, secret: str, *, attempts: int = 3, max_wait: float = 30,
        now: Callable[[], float] = time.time, verify_answers: bool = False,
    ) -> None:
        if urlsplit(base_url).scheme not in ("http", "https") or not urlsplit(base_url).hostname:
            raise UnsignableError(f"the base URL {base_url!r} must begin with https:// and a host")
        self.base_url, self.signer = base_url.rstrip("/"), Signer(key_id, secret)
        self.attempts, self.max_wait, self.now = attempts, max_wait, now
        self.verify_answers = verify_answers
        self.offset = 0.0  # seconds by which the gateway's clock is ahead

    def begin(self, method: str, call: Optional[Call] = None) -> "Exchange":
        """Returns the state of a new request. ``call`` is what its caller has chosen."""
        return Exchange(self, method, call)

    def new_call(self) -> Call:
        """Returns a nonce and the time of the gateway's clock, as far as it is known."""
        return Call(secrets.token_hex(16), int(self.now() + self.offset))

    def passed(self, call: Call) -> bool:
        """Whether the gateway has forgotten the nonce of a call, and accepts it no more."""
        return int(self.now() + self.offset) > call.until

    def serves(self, url: str) -> bool:
        """Whether the URL is of the gateway, so that it may see a signature."""
        ours, theirs = urlsplit(self.base_url), urlsplit(url)
        return (ours.scheme, ours.hostname, _port(ours)) == (theirs.scheme, theirs.hostname, _port(theirs))

    def _correct_clock(self, headers: Mapping[str, str]) -> bool:
        try:
            if self.verify_answers:
                moment = float(headers.get("x-response-timestamp", ""))
            elif trusts_date(self.base_url):
                moment = parsedate_to_datetime(headers.get("date", "")).timestamp()
            else:
                return False
        except (TypeError, ValueError):
            return False
        offset = moment - self.now()
        if abs(offset) > 24 * 3600:
            return False
        self.offset = offset
        _log.warning("the clock of this machine differs from the gateway's by %.0f s; set it by NTP", offset)
        return True


class Exchange:
    """One request between its attempts, and what an answer to it means.

    A call that may change something is signed once, and each attempt sends the
    same bytes: the gateway accepts them once. It is signed anew only after an
    answer that says for certain that it was not executed.
    """

    def __init__(self, policy: Policy, method: str, call: Optional[Call] = None) -> None:
        self._policy, self._method, self._call = policy, method, call
        self.attempts = 0
        self._headers: Optional[Dict[str, str]] = None  # None: the next attempt is signed anew
        self._signed_at = 0.0
        self._corrected = False  # the clock was set for this request
        self._out = False  # the server has perhaps received what was signed last
        self._perhaps = False  # an attempt was perhaps accepted

    @property
    def verifies(self) -> bool:
        """Whether an answer must be verified before it is handed over."""
        return self._policy.verify_answers

    def sign(self, target: str, body: bytes) -> Dict[str, str]:
        """Returns the headers of the next attempt."""
        self.attempts += 1
        if self._headers is None or self._safe:
            policy = self._policy
            call = self._call if self._call and self._signed_at == 0 else policy.new_call()
            self._headers = policy.signer.headers(self._method, target, body, timestamp=call.timestamp, nonce=call.nonce)
            self._signed_at = time.monotonic()
            self.call = call
        return self._headers

    def verify(self, status: int, headers: Mapping[str, str], body: bytes) -> None:
        """Raises ``UnprovenAnswer`` for an answer that is not proven. ``body`` is
        as it was received."""
        policy, headers = self._policy, joined(headers)
        now = policy.now() + policy.offset
        if status == 401 and error_fields(body).get("message") == _WINDOW and headers.get("x-response-timestamp", "").isdigit():
            now = float(headers["x-response-timestamp"])  # our clock is what is wrong; the nonce shows that the answer is new
        policy.signer.verify_answer(self.call.nonce, status, headers, body, now)

    def reads(self, status: int, headers: Mapping[str, str]) -> bool:
        """Whether the body must be read before the answer is handed over. That of a
        stream of events, and of an answer that is not signed although it must be,
        may never end."""
        headers = joined(headers)
        if status >= 400:
            return True
        if self.verifies:
            return not is_unsigned(headers)
        return not self._safe and not headers.get("content-type", "").startswith("text/event-stream")

    def after_answer(self, status: int, headers: Mapping[str, str], body: bytes) -> Optional[float]:
        """Returns the seconds to wait before another attempt, or None if the
        answer is final. ``body`` is as it was received. Raises ``CallTaken`` or
        ``OutcomeUnknown``."""
        headers, fields = joined(headers), error_fields(body) if status >= 400 else {}
        if self._safe:
            return self._after_safe(status, headers, fields, body)
        self._out = True
        if self.verifies:
            try:
                self.verify(status, headers, body)
            except UnprovenAnswer as unproven:
                return self.after_unproven(unproven)
        asked = retry_after(headers) or 0
        if is_not_executed(fields):
            wait = self._wait(asked)
            if wait is not None:
                self._headers, self._out, self._perhaps = None, False, False
            return wait
        if fields.get("accepted") is True:
            return None
        message = fields.get("message") if status == 401 else None
        if message == _REPLAY:
            raise CallTaken(self.call, headers.get("x-request-id", ""), self._perhaps)
        if message == _WINDOW and self.attempts == 1 and not self._corrected and self._policy._correct_clock(headers):
            self._headers, self._corrected, self._out, self.attempts = None, True, False, 0  # it was refused before anything was done
            return 0.0
        gateways = "accepted" in fields or fields.get("code") in _GATEWAYS or status == 401 and fields.get("code") == "UNAUTHORIZED"
        refused = ApiError(status, headers, body) if status >= 400 else None
        if status in (429, 503) or status in (502, 504) and not self.verifies and not gateways:
            self._perhaps = self._perhaps or "accepted" not in fields
            wait = self._wait(asked)
            if wait is None:  # the same bytes may still be accepted, from whoever has them
                raise OutcomeUnknown(self.call, self.attempts, refused) from refused
            return wait
        if gateways and self._perhaps:
            raise OutcomeUnknown(self.call, self.attempts, refused) from refused
        return None

    def after_unproven(self, unproven: UnprovenAnswer) -> Optional[float]:
        """The same for an answer that is not believed: it says nothing."""
        if self._safe:
            raise unproven
        self._out = self._perhaps = True
        wait = self._wait(0)
        if wait is None:
            raise OutcomeUnknown(self.call, self.attempts, unproven) from unproven
        return wait

    def after_failure(self, sent: bool, cause: BaseException) -> Optional[float]:
        """The same for a connection that failed; ``sent`` is whether the server
        may have received the request. None: the caller raises its own error."""
        self._out, self._perhaps = self._out or sent, self._perhaps or sent
        wait = self._wait(0)
        if wait is None and self._out and not self._safe:
            raise OutcomeUnknown(self.call, self.attempts, cause) from cause
        return wait

    def _after_safe(self, status: int, headers: Mapping[str, str], fields: Mapping[str, Any], body: bytes) -> Optional[float]:
        if status == 401 and fields.get("message") == _WINDOW and not self._corrected:
            if self.verifies:
                self.verify(status, headers, body)
            if self._policy._correct_clock(headers):
                self._corrected = True
                self.attempts -= 1  # it was refused before anything was done
                return 0.0
        asked = retry_after(headers)
        unforwarded = headers.get("x-gateway-forwarded") == "no"
        if status == 429 or status == 503 and (unforwarded or asked is not None):
            return self._wait(asked or 0)
        return None

    @property
    def _safe(self) -> bool:
        return self._method in ("GET", "HEAD")

    def _wait(self, asked: float) -> Optional[float]:
        # Jitter, so that many clients do not come back together.
        wait = asked + random.uniform(0, min(8.0, 0.25 * 2**self.attempts))
        if self.attempts >= self._policy.attempts or asked > self._policy.max_wait:
            return None
        if not self._safe and time.monotonic() - self._signed_at + wait > _REPEAT_WITHIN:
            return None
        return wait


# Codes by which a gateway that does not say more is known.
_GATEWAYS = ("UPSTREAM_ERROR", "UPSTREAM_TIMEOUT")


def chosen(headers: Mapping[str, str]) -> Optional[Call]:
    """Returns the call that the headers of a request name already."""
    lower = joined(headers)
    nonce, stamp = lower.get("x-nonce", ""), lower.get("x-timestamp", "")
    if nonce and not stamp.isdigit():
        raise UnsignableError("the request has X-Nonce without X-Timestamp; set both, or neither")
    return Call(nonce, int(stamp)) if nonce else None


def joined(headers: Mapping[str, str]) -> Dict[str, str]:
    """Returns the headers by their names in lower case, several of one name with
    a comma between."""
    result: Dict[str, str] = {}
    for name, value in headers.items():
        name = name.lower()
        result[name] = f"{result[name]}, {value}" if name in result else value
    return result


# What a request asks for whose answer must be verified: no coding, which the
# libraries would remove.
IDENTITY = {"Accept-Encoding": "identity"}


def trusts_date(url: str) -> bool:
    """Whether the Date of an answer from the URL may set the clock: over TLS,
    and from this machine."""
    parts = urlsplit(url)
    try:
        local = ipaddress.ip_address(parts.hostname or "").is_loopback
    except ValueError:
        local = parts.hostname == "localhost"
    return parts.scheme == "https" or local


def _port(parts: SplitResult) -> int:
    return parts.port or (443 if parts.scheme == "https" else 80)
