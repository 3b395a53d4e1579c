"""For programs that use aiohttp."""

import asyncio
from typing import Any, Mapping, Optional, Tuple
from urllib.parse import urlsplit

import aiohttp
from yarl import URL

from .client import CLOSE, Answer, Query, closing_call, judge, multipart, prepare, with_query
from .errors import Call, ConnectionFailed, UnsignableError
from .policy import Policy


class AsyncClient:
    """``Client`` on a session of aiohttp, which stays the caller's to close."""

    def __init__(self, session: aiohttp.ClientSession, base_url: str, key_id: str, secret: str, **options: Any) -> None:
        self.policy = Policy(base_url, key_id, secret, **options)
        self._session = session

    async def get(self, path: str, query: Optional[Query] = None) -> Answer:
        """Reads the path with the parameters of the query."""
        return await self.request("GET", path, query=query)

    async def post(self, path: str, json: Any = None) -> Answer:
        """Sends a value as JSON; without one, no body."""
        return await self.request("POST", path, json=json)

    async def patch(self, path: str, json: Any) -> Answer:
        """Sends a value as JSON."""
        return await self.request("PATCH", path, json=json)

    async def upload(self, path: str, fields: Mapping[str, str], files: Mapping[str, Tuple[str, bytes]]) -> Answer:
        """Sends a form; ``files`` maps a field to the name and content of its file."""
        content_type, body = multipart(fields, files)
        return await self.request("POST", path, body=body, headers={"Content-Type": content_type})

    def new_call(self) -> Call:
        """Returns a nonce and a timestamp for a request, to be stored before it is sent."""
        return self.policy.new_call()

    async def close_call(self, call: Call) -> None:
        """Does what ``Client.close_call`` does."""
        with closing_call(call, self.policy) as check:
            check(await self.request("POST", CLOSE, call=call))

    async def request(
        self, method: str, path: str, *, query: Optional[Query] = None, json: Any = None, body: Any = None,
        headers: Optional[Mapping[str, str]] = None, call: Optional[Call] = None,
    ) -> Answer:
        """Sends a request, and raises as ``Client.request`` does."""
        base = urlsplit(self.policy.base_url)
        target = with_query(base.path + path, query)
        if target.endswith("?"):
            raise UnsignableError("aiohttp would drop the ? at the end; leave it out")
        content, sent_headers = prepare(json, body, headers, self.policy.verify_answers)
        method = method.upper()
        exchange = self.policy.begin(method, call)
        while True:
            signed = {**sent_headers, **exchange.sign(target, content or b"")}
            # encoded=True: yarl would decode %7E, and %2F in the query.
            url = URL(f"{base.scheme}://{base.netloc}{target}", encoded=True)
            try:
                async with self._session.request(method, url, data=content, headers=signed, allow_redirects=False) as got:
                    reads = not exchange.verifies or exchange.reads(got.status, got.headers)
                    answer = Answer(got.status, got.headers, await got.read() if reads else b"")
                wait = exchange.after_answer(answer.status, answer.headers, answer.body)
            except (aiohttp.ClientError, asyncio.TimeoutError) as error:
                sent = not isinstance(error, aiohttp.ClientConnectorError)
                wait = exchange.after_failure(sent, error)
                if wait is None:
                    raise ConnectionFailed(sent, exchange.attempts, error) from error
            else:
                if wait is None:
                    return judge(answer, exchange)
            await asyncio.sleep(wait)
