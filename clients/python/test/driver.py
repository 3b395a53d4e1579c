"""Runs the cases of tests/clients/matrix through this client: one JSON object a
line on standard input, one answer a line on standard output."""

import asyncio
import base64
import json
import sys
import time
import traceback
from concurrent.futures import ThreadPoolExecutor

import card_gateway_client as card
from card_gateway_client.client import with_query

FIELDS, FILE = {"type": "passport"}, "Zoë.pdf"


class Caller:
    """The arguments of a call, as each way to send needs them."""

    def __init__(self, c):
        self.c = c
        self.base, self.method, self.target = c.get("base", ""), c.get("method"), c.get("target")
        self.query = [tuple(pair) for pair in c.get("query") or []]
        self.url = self.base + (self.target or "")
        self.headers = dict(c.get("headers") or {})
        self.body = base64.b64decode(c["body"]) if c["has_body"] else None
        self.credentials = (c.get("key_id"), c.get("secret"))
        self.options = {"now": lambda: time.time() + c["clock"], "verify_answers": c["verify_answers"]}
        if c["attempts"]:
            self.options["attempts"] = c["attempts"]
        self.call = card.Call(c["nonce"], int(c["timestamp"])) if c.get("nonce") else None
        if self.call and c["adapter"] not in ("client", "aiohttp"):
            self.headers.update({"X-Nonce": self.call.nonce, "X-Timestamp": str(self.call.timestamp)})
        if c.get("kind") == "form":
            self.headers["Content-Type"], self.body = card.multipart(FIELDS, {"file": (FILE, self.body)})
        elif c.get("kind") == "stream":
            self.body = (chunk for chunk in [self.body])
        elif self.body is not None:
            self.headers["Content-Type"] = "application/json"

    def policy(self):
        return card.Policy(self.base, *self.credentials, **self.options)


def client(a):
    sender = card.Client(a.base, *a.credentials, **a.options)

    def send():
        if a.c["do"] == "close":
            return sender.close_call(a.call)
        got = sender.request(a.method, a.target, query=a.query, body=a.body, headers=a.headers, call=a.call)
        return got.status, got.body
    return send


def with_requests(a):
    import requests

    from card_gateway_client.with_requests import session

    sender = session(a.base, *a.credentials, **a.options)

    def send():
        try:
            got = sender.request(a.method, with_query(a.url, a.query), data=a.body, headers=a.headers)
        except requests.RequestException as error:
            raise Failed from error
        return got.status_code, got.content
    return send


def with_httpx(a):
    import httpx

    from card_gateway_client.with_httpx import CardTransport

    sender = httpx.Client(transport=CardTransport(a.policy()), follow_redirects=True)

    def send():
        try:
            url = with_query(a.url, a.query)
            got = sender.request(a.method, url, content=a.body, headers=a.headers)
        except httpx.InvalidURL as error:
            raise card.UnsignableError(str(error)) from error
        except httpx.TransportError as error:
            raise Failed from error
        return got.status_code, got.content
    return send


def with_httpx_async(a):
    import httpx

    from card_gateway_client.with_httpx import AsyncCardTransport

    async def chunks(content):
        for chunk in content:
            yield chunk

    if a.c.get("kind") == "stream":
        a.body = chunks(a.body)

    async def once(sender):
        try:
            url = with_query(a.url, a.query)
            got = await sender.request(a.method, url, content=a.body, headers=a.headers)
        except httpx.InvalidURL as error:
            raise card.UnsignableError(str(error)) from error
        except httpx.TransportError as error:
            raise Failed from error
        return got.status_code, got.content

    async def all_of(count):
        async with httpx.AsyncClient(transport=AsyncCardTransport(a.policy()), follow_redirects=True) as sender:
            return await asyncio.gather(*(once(sender) for _ in range(count)))
    return Async(all_of)


def with_aiohttp(a):
    import aiohttp

    from card_gateway_client.with_aiohttp import AsyncClient

    async def once(sender):
        if a.c["do"] == "close":
            return await sender.close_call(a.call)
        got = await sender.request(a.method, a.target, query=a.query, body=a.body, headers=a.headers, call=a.call)
        return got.status, got.body

    async def all_of(count):
        async with aiohttp.ClientSession() as session:
            sender = AsyncClient(session, a.base, *a.credentials, **a.options)
            return await asyncio.gather(*(once(sender) for _ in range(count)))
    return Async(all_of)


class Async:
    """Sends in an event loop."""

    def __init__(self, all_of):
        self.all_of = all_of

    def __call__(self):
        return asyncio.run(self.all_of(1))[0]


class Failed(Exception):
    """A connection failed, in the words of the library."""


WAYS = {"client": client, "aiohttp": with_aiohttp, "requests": with_requests, "httpx": with_httpx, "httpx async": with_httpx_async}


def run(c):
    if c["do"] == "hello":
        return {"adapters": {name: name in ("client", "aiohttp") for name in WAYS if installed(name)}, "version": card.__version__}
    if c["do"] == "trusts":
        return {"trusted": card.trusts_date(c["base"])}
    if c["do"] == "sign":
        signer = card.Signer(c["key_id"], c["secret"])
        headers = signer.headers(c["method"], c.get("target", ""), base64.b64decode(c["body"]), c.get("timestamp", 0), c.get("nonce"))
        return {"signature": headers["X-Signature"], "body_hash": headers["X-Body-Hash"]}
    if c["do"] == "verify":
        signer = card.Signer(c["key_id"], c["secret"])
        headers = {name.lower(): ", ".join(values) for name, values in c["answer"].items()}
        signer.verify_answer(c["nonce"], c["status"], headers, base64.b64decode(c["body"]), c["now"])
        return {"verified": True}
    send = WAYS[c["adapter"]](Caller(c))
    if c["do"] == "close":
        send()
        return {"closed": True}
    if c["do"] == "request":
        status, body = send()
        return {"status": status, "body": base64.b64encode(body).decode()}
    if isinstance(send, Async):
        return {"statuses": [status for status, _ in asyncio.run(send.all_of(c["count"]))]}
    with ThreadPoolExecutor(c["count"]) as pool:
        return {"statuses": [status for status, _ in pool.map(lambda _: send(), range(c["count"]))]}


def installed(name):
    try:
        __import__(name.split()[0] if name != "client" else "json")
    except ImportError:
        return False
    return True


def describe(error):
    if isinstance(error, card.UnsignableError):
        return {"type": "unsignable", "message": str(error)}
    if isinstance(error, card.ApiError):
        return {"type": "api", "status": error.status, "code": error.code, "message": error.message, "details": error.details,
                "request_id": error.request_id, "retry_after": error.retry_after or 0, "not_executed": error.not_executed}
    if isinstance(error, (card.CallTaken, card.OutcomeUnknown)):
        answer = {"nonce": error.call.nonce, "timestamp": error.call.timestamp, "until": error.call.until, "message": str(error)}
        if isinstance(error, card.CallTaken):
            return {"type": "taken", **answer}
        return {"type": "unknown", "attempts": error.attempts, **answer}
    if isinstance(error, card.UnprovenAnswer):
        return {"type": "unproven", "status": error.status, "unsigned": error.unsigned, "message": str(error)}
    if isinstance(error, card.RedirectRefused):
        return {"type": "redirect", "location": error.location}
    if isinstance(error, card.ConnectionFailed):
        return {"type": "connection", "sent": error.sent, "attempts": error.attempts}
    if isinstance(error, Failed):
        return {"type": "connection"}
    return {"type": "other", "message": "".join(traceback.format_exception(error))}


for line in sys.stdin:
    try:
        answer = run(json.loads(line))
    except Exception as error:  # noqa: BLE001 - the runner shall see it
        answer = {"error": describe(error)}
    print(json.dumps(answer), flush=True)
