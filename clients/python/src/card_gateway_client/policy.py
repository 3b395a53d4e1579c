"""When a request is tried again, and what the time is. It sends nothing."""

import ipaddress
import logging
import random
import time
from email.utils import parsedate_to_datetime
from typing import Callable, Dict, Mapping, Optional
from urllib.parse import SplitResult, urlsplit

from .errors import UnsignableError, error_fields, retry_after
from .signer import Signer, is_unsigned

_log = logging.getLogger("card_gateway_client")


class Policy:
    """What all requests of one key share: attempts, waits and the clock.

    ``attempts`` is the largest number of attempts, ``max_wait`` the longest
    wait before another one, in seconds: if the server asks for more, its answer
    is final. ``now`` returns the time in Unix seconds. ``verify_answers`` makes
    every answer that the gateway has not signed for the request an
    ``UnprovenAnswer``; it needs a gateway with the option sign_responses.
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

    def begin(self, method: str) -> "Exchange":
        """Returns the state of a new request."""
        return Exchange(self, method)

    def serves(self, url: str) -> bool:
        """Whether the URL is of the gateway, so that it may see a signature."""
        ours, theirs = urlsplit(self.base_url), urlsplit(url)
        return (ours.scheme, ours.hostname, _port(ours)) == (theirs.scheme, theirs.hostname, _port(theirs))

    def _correct_clock(self, headers: Mapping[str, str], body: bytes) -> bool:
        if error_fields(body).get("message") != "Request timestamp is outside the allowed window":
            return False
        if not trusts_date(self.base_url):
            return False
        try:
            offset = parsedate_to_datetime(headers.get("date", "")).timestamp() - self.now()
        except (TypeError, ValueError):
            return False
        if abs(offset) > 24 * 3600:
            return False
        self.offset = offset
        _log.warning("the clock of this machine differs from the gateway's by %.0f s; set it by NTP", offset)
        return True


class Exchange:
    """One request between its attempts."""

    def __init__(self, policy: Policy, method: str) -> None:
        self._policy, self._method = policy, method
        self.attempts = 0
        self._corrected = False
        self._nonce = ""

    @property
    def verifies(self) -> bool:
        """Whether an answer must be verified before it is handed over."""
        return self._policy.verify_answers

    def sign(self, target: str, body: bytes) -> Dict[str, str]:
        """Returns the headers of the next attempt."""
        policy = self._policy
        headers = policy.signer.headers(self._method, target, body, timestamp=int(policy.now() + policy.offset))
        self.attempts += 1
        self._nonce = headers["X-Nonce"]
        return headers

    def verify(self, status: int, headers: Mapping[str, str], body: bytes) -> None:
        """Raises ``UnprovenAnswer`` for an answer that is not proven. ``body`` is
        as it was received."""
        policy = self._policy
        policy.signer.verify_answer(self._nonce, status, joined(headers), body, policy.now() + policy.offset)

    def refuse_unread(self, status: int, headers: Mapping[str, str]) -> None:
        """Raises ``UnprovenAnswer`` for an answer that has no signature and may
        never end."""
        if status < 400 and is_unsigned(joined(headers)):
            self.verify(status, headers, b"")

    def after_answer(self, status: int, headers: Mapping[str, str], body: bytes) -> Optional[float]:
        """Returns the seconds to wait before another attempt, or None if the
        answer is final."""
        headers = joined(headers)
        if status == 401 and not self._corrected and self._policy._correct_clock(headers, body):
            self._corrected = True
            self.attempts -= 1  # it was refused before anything was done
            return 0.0
        asked = retry_after(headers)
        unforwarded = headers.get("x-gateway-forwarded") == "no"
        if status == 429 or status == 503 and (unforwarded or self._safe and asked is not None):
            return self._wait(asked or 0)
        return None

    def after_failure(self, sent: bool) -> Optional[float]:
        """The same for a connection that failed; ``sent`` is whether the server
        may have received the request."""
        return self._wait(0) if self._safe or not sent else None

    @property
    def _safe(self) -> bool:
        return self._method in ("GET", "HEAD")

    def _wait(self, asked: float) -> Optional[float]:
        if self.attempts >= self._policy.attempts or asked > self._policy.max_wait:
            return None
        # Jitter, so that many clients do not come back together.
        return asked + random.uniform(0, min(8.0, 0.25 * 2**self.attempts))


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
