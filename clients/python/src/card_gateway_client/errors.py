"""What can go wrong with a request."""

import http.client
import json
from typing import Any, Dict, List, Mapping, Optional


class CardError(Exception):
    """Any failure of a request."""


class UnsignableError(CardError, ValueError):
    """The request cannot be signed; nothing was sent. The text says what to do."""


class RedirectRefused(CardError):
    """The answer leads elsewhere. It was not followed: a signature is for one
    target of one host."""

    def __init__(self, status: int, location: str) -> None:
        super().__init__(f"the server redirects to {location!r} ({status}), which is not followed; correct the base URL")
        self.status, self.location = status, location


class ConnectionFailed(CardError):
    """There was no whole answer.

    ``sent`` is whether the server may have received the request, ``attempts``
    how many were made. The error of the connection is ``__cause__``.
    """

    def __init__(self, sent: bool, attempts: int, cause: BaseException) -> None:
        state = "the server may have received it" if sent else "nothing was sent"
        super().__init__(f"no answer after {attempts} attempts, {state}: {cause}")
        self.sent, self.attempts = sent, attempts


class UnprovenAnswer(CardError):
    """The gateway has not signed the answer for this request, while
    ``verify_answers`` is set. The request may have been executed.

    ``unsigned`` is whether the answer has no signature at all, as refusals with
    400 and 401. ``status`` and ``request_id`` are as they were received.
    """

    def __init__(self, status: int, headers: Mapping[str, str], unsigned: bool, reason: str) -> None:
        self.status, self.unsigned = status, unsigned
        self.request_id: str = headers.get("x-request-id", "")
        super().__init__(f"the answer {status} is not proven to be the gateway's (request id {self.request_id}): {reason}")


class ApiError(CardError):
    """An answer with a status of 400 or more, from the gateway or the issuer.

    ``code`` and ``message`` are those of its body; ``details`` is a list of
    objects with ``field``, ``finding`` and ``message``; ``retry_after`` is in
    seconds, or None.
    """

    def __init__(self, status: int, headers: Mapping[str, str], body: bytes) -> None:
        lower = {name.lower(): value for name, value in headers.items()}
        fields = error_fields(body)
        self.status, self.body = status, body
        self.code: str = _text(fields.get("code"))
        self.message: str = _text(fields.get("message")) or http.client.responses.get(status, "refused")
        details = fields.get("details")
        self.details: List[Dict[str, Any]] = details if isinstance(details, list) else []
        self.request_id: str = lower.get("x-request-id", "")
        self.retry_after: Optional[int] = retry_after(lower)
        super().__init__(f"{status} {self.code}: {self.message} (request id {self.request_id})")


def error_fields(body: bytes) -> Dict[str, Any]:
    """Returns code, message and details of an error body: the gateway has them
    in ``error``, some issuers at the top level."""
    try:
        document = json.loads(body)
    except ValueError:
        return {}
    if not isinstance(document, dict):
        return {}
    inner = document.get("error")
    return inner if isinstance(inner, dict) else document


def retry_after(headers: Mapping[str, str]) -> Optional[int]:
    """Returns Retry-After in its form of seconds. The names are in lower case."""
    text = headers.get("retry-after", "")
    return int(text) if text.isascii() and text.isdigit() and len(text) < 10 else None


def _text(value: Any) -> str:
    return value if isinstance(value, str) else ""
