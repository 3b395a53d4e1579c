"""For programs that use httpx.

An ``auth=`` object would set headers that httpx sends to wherever a redirect
leads. A transport sees each attempt, and signs a copy of it.
"""

import asyncio
import time
from typing import Optional

import httpx

from .errors import UnsignableError
from .policy import IDENTITY, Exchange, Policy, chosen


class CardTransport(httpx.BaseTransport):
    """Signs each attempt, repeats what may be repeated, and corrects the clock:

        httpx.Client(base_url=url, transport=CardTransport(Policy(url, key_id, secret)))

    Answers of every status are returned, and failed connections are raised as
    httpx does it. It raises ``UnsignableError`` before it sends, ``CallTaken`` and
    ``OutcomeUnknown``, and with ``verify_answers`` an ``UnprovenAnswer``. A request
    that has X-Nonce and X-Timestamp already is signed with these. ``transport``
    sends; give it the options of TLS and proxies.
    """

    def __init__(self, policy: Policy, transport: Optional[httpx.BaseTransport] = None) -> None:
        self._policy, self._transport = policy, transport or httpx.HTTPTransport()

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        """Sends the request, several times if need be."""
        _check(self._policy, request)
        request.read()
        exchange = self._policy.begin(request.method, chosen(request.headers))
        while True:
            wait: Optional[float]
            raw = b""
            try:
                answer = self._transport.handle_request(_signed(request, exchange))
                if exchange.reads(answer.status_code, answer.headers):
                    try:
                        raw = b"".join(answer.iter_raw())
                    finally:
                        answer.close()
                    answer = _whole(answer, raw)
                wait = exchange.after_answer(answer.status_code, answer.headers, raw)
            except httpx.TransportError as error:
                wait = exchange.after_failure(not _refused(error), error)
                if wait is None:
                    raise
            else:
                if wait is None:
                    if exchange.verifies:
                        exchange.verify(answer.status_code, answer.headers, raw)
                    return answer
                answer.close()
            time.sleep(wait)

    def close(self) -> None:
        """Closes the connections."""
        self._transport.close()


class AsyncCardTransport(httpx.AsyncBaseTransport):
    """The same for ``httpx.AsyncClient``."""

    def __init__(self, policy: Policy, transport: Optional[httpx.AsyncBaseTransport] = None) -> None:
        self._policy, self._transport = policy, transport or httpx.AsyncHTTPTransport()

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        """Sends the request, several times if need be."""
        _check(self._policy, request)
        await request.aread()
        exchange = self._policy.begin(request.method, chosen(request.headers))
        while True:
            wait: Optional[float]
            raw = b""
            try:
                answer = await self._transport.handle_async_request(_signed(request, exchange))
                if exchange.reads(answer.status_code, answer.headers):
                    try:
                        raw = b"".join([part async for part in answer.aiter_raw()])
                    finally:
                        await answer.aclose()
                    answer = _whole(answer, raw)
                wait = exchange.after_answer(answer.status_code, answer.headers, raw)
            except httpx.TransportError as error:
                wait = exchange.after_failure(not _refused(error), error)
                if wait is None:
                    raise
            else:
                if wait is None:
                    if exchange.verifies:
                        exchange.verify(answer.status_code, answer.headers, raw)
                    return answer
                await answer.aclose()
            await asyncio.sleep(wait)

    async def aclose(self) -> None:
        """Closes the connections."""
        await self._transport.aclose()


def _check(policy: Policy, request: httpx.Request) -> None:
    if not policy.serves(str(request.url)):
        raise UnsignableError(f"{request.url} is not below {policy.base_url}")
    if "Transfer-Encoding" in request.headers:
        raise UnsignableError("a stream cannot be read twice, and its hash is sent before it; pass bytes: b''.join(chunks)")


def _signed(request: httpx.Request, exchange: Exchange) -> httpx.Request:
    headers = request.headers.copy()
    headers.update(exchange.sign(request.url.raw_path.decode("latin-1"), request.content))
    if exchange.verifies:
        headers.update(IDENTITY)
    return httpx.Request(
        request.method, request.url, headers=headers, stream=httpx.ByteStream(request.content), extensions=request.extensions)


def _whole(answer: httpx.Response, raw: bytes) -> httpx.Response:
    """Returns the answer with the body that was received, to be read again."""
    return httpx.Response(answer.status_code, headers=answer.headers, stream=httpx.ByteStream(raw), extensions=answer.extensions)


def _refused(error: httpx.TransportError) -> bool:
    """Whether the connection failed before a byte was sent."""
    return isinstance(error, (httpx.ConnectError, httpx.ConnectTimeout, httpx.PoolTimeout))
