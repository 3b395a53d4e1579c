"""When a request is tried again, and what the time is. It sends nothing."""

import ipaddress
import logging
import random
import time
from email.utils import parsedate_to_datetime
from typing import Callable, Dict, Mapping, Optional
from urllib.parse import SplitResult, urlsplit

from .errors import UnsignableError, error_fields, retry_after
from .signer import Signer

_log = logging.getLogger("card_gateway_client")


class Policy:
    """What all requests of one key share: attempts, waits and the clock.

    ``attempts`` is the largest number of attempts, ``max_wait`` the longest
    wait before another one, in seconds: if the server asks for more, its answer
    is final. ``now`` returns the time in Unix seconds.
    """

    def __init__(
        self, base_url: str, key_id: str, secret: str, *, attempts: int = 3, max_wait: float = 30,
        now: Callable[[], float] = time.time,
    ) -> None:
        if urlsplit(base_url).scheme not in ("http", "https") or not urlsplit(base_url).hostname:
            raise UnsignableError(f"the base URL {base_url!r} must begin with https:// and a host")
        self.base_url, self.signer = base_url.rstrip("/"), Signer(key_id, secret)
        self.attempts, self.max_wait, self.now = attempts, max_wait, now
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

    def sign(self, target: str, body: bytes) -> Dict[str, str]:
        """Returns the headers of the next attempt."""
        policy = self._policy
        headers = policy.signer.headers(self._method, target, body, timestamp=int(policy.now() + policy.offset))
        self.attempts += 1
        return headers

    def after_answer(self, status: int, headers: Mapping[str, str], body: bytes) -> Optional[float]:
        """Returns the seconds to wait before another attempt, or None if the
        answer is final."""
        headers = {name.lower(): value for name, value in headers.items()}
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
