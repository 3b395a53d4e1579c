"""Calls the card API through Card Gateway.

``Client`` needs the standard library alone. The modules ``with_requests``,
``with_httpx`` and ``with_aiohttp`` do the same for programs that use these
libraries already.
"""

from .client import Answer, Client, multipart
from .errors import ApiError, Call, CallTaken, CardError, ConnectionFailed, OutcomeUnknown, RedirectRefused, UnprovenAnswer, UnsignableError
from .policy import Policy, trusts_date
from .signer import Signer
from .version import __version__

__all__ = [
    "Answer", "ApiError", "Call", "CallTaken", "CardError", "Client", "ConnectionFailed", "OutcomeUnknown", "Policy", "RedirectRefused",
    "Signer", "UnprovenAnswer", "UnsignableError", "__version__", "multipart", "trusts_date",
]
