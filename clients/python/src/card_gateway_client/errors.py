"""What can go wrong with a request."""

import http.client
import json
import time
from typing import Any, Dict, List, Mapping, NamedTuple, Optional


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

    ``unsigned`` is whether the answer has no signature at all. ``status`` and ``request_id`` are as they were received.
    """

    def __init__(self, status: int, headers: Mapping[str, str], unsigned: bool, reason: str) -> None:
        self.status, self.unsigned = status, unsigned
        self.request_id: str = headers.get("x-request-id", "")
        super().__init__(f"the answer {status} is not proven to be the gateway's (request id {self.request_id}): {reason}")


class ApiError(CardError):
    """An answer with a status of 400 or more, from the gateway or the issuer.

    ``code`` and ``message`` are those of its body; ``details`` is a list of
    objects with ``field``, ``finding`` and ``message``; ``retry_after`` is in
    seconds, or None. ``not_executed`` is whether the gateway says that it has
    accepted the request, and no issuer has seen it, so that it never is executed.
    """

    def __init__(self, status: int, headers: Mapping[str, str], body: bytes) -> None:
        lower = {name.lower(): value for name, value in headers.items()}
        fields = error_fields(body)
        self.status, self.body = status, body
        self.code: str = _text(fields.get("code"))
        problem = ": ".join(filter(None, (_text(fields.get("title")), _text(fields.get("detail")))))  # RFC 9457
        self.message: str = _text(fields.get("message")) or problem or http.client.responses.get(status, "refused")
        details = fields.get("details", fields.get("errors"))
        self.details: List[Dict[str, Any]] = details if isinstance(details, list) else []
        self.not_executed: bool = is_not_executed(fields)
        self.request_id: str = lower.get("x-request-id", "")
        self.retry_after: Optional[int] = retry_after(lower)
        super().__init__(f"{status} {self.code}: {self.message} (request id {self.request_id})")


class Call(NamedTuple):
    """Names one call: what was signed once, and is accepted at most once.
    ``timestamp`` is in Unix seconds."""

    nonce: str
    timestamp: int

    @property
    def until(self) -> int:
        """When nothing can execute the call any more, in Unix seconds."""
        return self.timestamp + 360


class CallTaken(CardError):
    """The gateway had accepted the call before: an earlier attempt has arrived,
    and its answer was lost. The issuer has executed it at most once, perhaps not:
    read what it should have made. Do not send it as a new call."""

    def __init__(self, call: Call, request_id: str, perhaps_by_us: bool) -> None:
        super().__init__(
            f"the call {call.nonce} was taken before, and its answer is lost; read what it should have made (request id {request_id})")
        self.call, self.request_id, self.perhaps_by_us = call, request_id, perhaps_by_us


class OutcomeUnknown(CardError):
    """It is not known whether the call was executed, or will be before
    ``call.until``. ``Client.close_call`` settles it. ``__cause__`` is the error of
    the last attempt, of which ``attempts`` were made."""

    def __init__(self, call: Call, attempts: int, why: object) -> None:
        until = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(call.until))
        super().__init__(
            f"it is not known whether the call {call.nonce} was executed, and it may be until {until}; close it, or read what "
            f"it should have made: after {attempts} attempts: {why}")
        self.call, self.attempts = call, attempts


def is_not_executed(fields: Mapping[str, Any]) -> bool:
    """Whether the gateway says that the request is certainly not executed."""
    return fields.get("accepted") is True and fields.get("forwarded") is False


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
    if isinstance(inner, dict):
        return inner
    return {name: value for name, value in document.items() if name not in ("accepted", "forwarded")}  # the gateway's words alone


def retry_after(headers: Mapping[str, str]) -> Optional[int]:
    """Returns Retry-After in its form of seconds. The names are in lower case."""
    text = headers.get("retry-after", "")
    return int(text) if text.isascii() and text.isdigit() and len(text) < 10 else None


def _text(value: Any) -> str:
    return value if isinstance(value, str) else ""
