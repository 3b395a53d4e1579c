#!/usr/bin/env python3
"""Writes the test vectors of this directory. Python's standard library only.

    python3 generate.py            writes the *.json files beside this script
    python3 generate.py --check    fails if they are not exactly what it would write

The signatures come from hashlib and hmac, not from the code under test. The
README says what the files mean.
"""

import base64
import datetime
import hashlib
import hmac
import json
import pathlib
import sys

KEY = "ak_test_1"
SECRET = "test_secret_0123456789abcdef"
NOW = 1750000000
NONCE = "n-0001"
CLIENT = "203.0.113.7"
ORDERS = "/api/v1/orders"
HOUR = 3600


def b64(data):
    return base64.b64encode(data).decode()


def body_hash(body):
    return b64(hashlib.sha256(body).digest())


def mac(data, secret=SECRET):
    return hmac.new(secret.encode(), data, hashlib.sha256).digest()


EMPTY = body_hash(b"")


def moment(seconds):
    """RFC 3339 of NOW plus some seconds."""
    t = datetime.datetime.fromtimestamp(NOW + seconds, datetime.timezone.utc)
    return t.strftime("%Y-%m-%dT%H:%M:%SZ")


def request(name, method="GET", target=ORDERS, body=b"", *, reason="accepted", counts=None, signed=None,
            headers=None, drop=(), secret=SECRET, separator="\n", ending="", text=None, signature=None,
            key=None, client=CLIENT, state=None, operation=None, upstream=None):
    """One request. It is signed as sent, unless `signed` replaces components
    (method, target, timestamp, nonce, hash) of what is signed; `headers`
    replaces what is sent, `text` the whole string to sign and `signature`
    makes X-Signature from the digest."""
    if isinstance(body, str):
        body = body.encode()
    sent = {
        "X-API-Key": KEY,
        "X-Timestamp": str(NOW),
        "X-Nonce": NONCE,
        "X-Body-Hash": body_hash(body),
    }
    for header, value in (headers or {}).items():
        if header in sent:
            sent[header] = value
    first = {h: v if isinstance(v, str) else v[0] for h, v in sent.items()}
    parts = {
        "method": method,
        "target": target,
        "timestamp": first["X-Timestamp"],
        "nonce": first["X-Nonce"],
        "hash": first["X-Body-Hash"],
    }
    parts.update(signed or {})
    # Targets are written here with one character a byte, all else is UTF-8.
    encoded = [v.encode("latin-1" if k == "target" else "utf-8") for k, v in parts.items()]
    string = separator.encode().join(encoded) + ending.encode() if text is None else text.encode()
    digest = mac(string, secret)
    sent["X-Signature"] = b64(digest) if signature is None else signature(digest)
    for header, value in (headers or {}).items():
        sent[header] = value
    for header in drop:
        del sent[header]

    r = {"name": name, "method": method}
    if target.isascii():
        r["target"] = target
    else:
        r["target_base64"] = b64(target.encode("latin-1"))
    r["headers"] = {h: [v] if isinstance(v, str) else v for h, v in sent.items()}
    if unsendable(target) or any("\x7f" in v for values in r["headers"].values() for v in values):
        r["unsendable"] = True
    if body:
        try:
            r["body"] = body.decode()
        except UnicodeDecodeError:
            r["body_base64"] = b64(body)
    if client != CLIENT:
        r["client_ip"] = client
    if key is not None:
        r["key"] = key
    if state is not None:
        r["state"] = state
    r["expect"] = {"reason": reason}
    if counts is None:
        counts = reason in ("body_hash_mismatch", "signature_mismatch")
    if counts:
        r["expect"]["counts"] = True
    if operation is not None:
        r["expect"]["operation"] = operation
    if upstream is not None:
        r["expect"]["upstream_target"] = upstream
    return r


def unsendable(target):
    """Whether HTTP/1.1 has no way to carry the target in its first line."""
    return target == "" or any(c <= " " or c == "\x7f" for c in target)


def mismatch(name, **kwargs):
    return request(name, reason="signature_mismatch", **kwargs)


def wrong(digest):
    """A signature of the right form that is not the right one."""
    return b64(bytes(31) + b"\x01")


# --- The string to sign -----------------------------------------------------

PUBLISHED = [
    ("V1", "GET", ORDERS, b"", "NNO/BBsHEctrd5Y0rWJfisaSYxUa3RYwHAvQusgaug0="),
    ("V2", "GET", ORDERS + "?b=2&a=1&a=0", b"", "zPg1nTPCm04zTD/agW/DI3kpuLLgtf0k/R/IZKCq3gA="),
    ("V3", "POST", ORDERS, b'{"amount":"10.00","currency":"USD"}', "RLH3p1GxzbY4yR1TglWzf+F9nSH2IjwyxzsgXLFN7e0="),
    ("V4", "POST", ORDERS, b'{"amount":"10.00","currency":"USD"}\n', "NTlax6dAfYTpnIsERXKtp4E1r/WDm2miw+Rdb8S1nH4="),
    ("V5", "GET", ORDERS + "?q=a%20b", b"", "6lrwN6ztCbYhgmh1Fqv4EqbMoCx3LOuXLYbpl4MRi3E="),
    ("V6", "GET", ORDERS + "?q=a+b", b"", "VVBwmhmaarLAY/+Wn/dleTF3GowRM9q2gNYVi7v6sjw="),
    ("V7", "GET", ORDERS + "?q=%2f", b"", "095sezGe/tsZVnWTs5Pm8h7Q/K5PMbmQfmNUeklmKLc="),
    ("V8", "GET", ORDERS + "?q=%2F", b"", "oZ3b0GUCYrBtFANHMh5vzGYNOsLC+IcnPUM/+9+d+z0="),
    ("V9", "GET", ORDERS + "?", b"", "4j02GKdTb1DEqhrFQjY3DPIrHz+v2mmJPVGtiT/PJiE="),
    ("V10", "POST", ORDERS, '{"name":"Zoë"}'.encode(), "+RTg+n4iwTG/8CepNXbLVJKnXQi43HicwbufEO3BiZw="),
    ("V11", "POST", ORDERS, '{"name":"Zoë"}'.encode("latin-1"), "7AR5/ABqhQHJJOnnr22zgBKbUGtrNqJ3niW20ccJia0="),
    ("V12", "POST", ORDERS, b'{"a":1,\r\n"b":2}', "SKUTtmmqtr4av1oOPsf9L0A89dsYBJ47DdFbYfZ7vEE="),
]


def string_to_sign():
    out = []
    for name, method, target, body, signature in PUBLISHED:
        r = request(f"{name}: {method} {target}", method, target, body)
        assert r["headers"]["X-Signature"] == [signature], name
        out.append(r)
    as_sent = [
        "?q=a%20b&r=a+b", "?phone=+14155550100", "?phone=%2B14155550100", "?next=%2fhome%3fa%3d1", "?t=%7Ex",
        "?t=~x", "?q=%26x%3D1", "?v", "?v=", "?=v", "?&a=1&&b=2&", "??", "?a?b", "?id=1&id=2", "?id=2&id=1",
        "?tag[]=1&tag[]=2", "?tag%5B%5D=1&tag%5B%5D=2", "?filter[a][b]=1", "?a=1;b=2", "?q={x}|\"<y>^`\\",
        "?next=../../x//y", "?q=%00%ff", "?q='(1)*!$,:@/",
    ]
    out += [request(f"signed as sent: {query}", target=ORDERS + query) for query in as_sent]
    out += [request(f"signed as sent: {target}", target=target, operation="other") for target in [
        "/api/v1/%6frders", "/api/v1/orders/", "/api/v1/folders/", "/api/v1/caf%C3%A9", "/api/v1/caf%c3%a9", "/api/v1/",
    ]]
    for name, wire, other in [
        ("plus on the wire, %20 signed", ORDERS + "?q=a+b", ORDERS + "?q=a%20b"),
        ("%20 on the wire, plus signed", ORDERS + "?q=a%20b", ORDERS + "?q=a+b"),
        ("space signed in clear", ORDERS + "?q=a%20b", ORDERS + "?q=a b"),
        ("lower-case hex on the wire, upper-case signed", ORDERS + "?next=%2fhome%3fa%3d1", ORDERS + "?next=%2Fhome%3Fa%3D1"),
        ("needless escape in the query, plain signed", ORDERS + "?t=~x", ORDERS + "?t=%7Ex"),
        ("needless escape in the path, plain signed", "/api/v1/%6frders", ORDERS),
        ("decoded query signed", ORDERS + "?q=%26x%3D1", ORDERS + "?q=&x=1"),
        ("the signature of an escaped query on the plain one", ORDERS + "?q=&x=1", ORDERS + "?q=%26x%3D1"),
        ("?v on the wire, ?v= signed", ORDERS + "?v", ORDERS + "?v="),
        ("?v= on the wire, ?v signed", ORDERS + "?v=", ORDERS + "?v"),
        ("empty parameters on the wire, dropped when signed", ORDERS + "?&a=1&&b=2&", ORDERS + "?a=1&b=2"),
        ("lone ? on the wire, not signed", ORDERS + "?", ORDERS),
        ("lone ? signed, not on the wire", ORDERS, ORDERS + "?"),
        ("parameters sorted when signed", ORDERS + "?b=2&a=1&a=0", ORDERS + "?a=0&a=1&b=2"),
        ("repeated parameter lost when signed", ORDERS + "?id=1&id=2", ORDERS + "?id=2"),
        ("brackets encoded when signed", ORDERS + "?tag[]=1", ORDERS + "?tag%5B%5D=1"),
        ("query left out when signed", ORDERS + "?a=1", ORDERS),
        ("slash at the end of the wire, not signed", ORDERS + "/", ORDERS),
        ("slash at the end signed, not on the wire", ORDERS, ORDERS + "/"),
        ("dot segments signed, resolved by the client", ORDERS, "/api/v1/a/../orders"),
        ("absolute URL signed", ORDERS, "http://gw.example/api/v1/orders"),
        ("path with a foreign prefix signed", ORDERS, "/gw/api/v1/orders"),
        ("path without its prefix signed", ORDERS, "/orders"),
        ("non-ASCII letter signed in clear", "/api/v1/caf%C3%A9", "/api/v1/café"),
    ]:
        out.append(mismatch(name, target=wire, signed={"target": other}))
    out += [
        mismatch("line feed at the end of the string", ending="\n"),
        mismatch("fields joined by CR LF", separator="\r\n"),
        mismatch("fields run together", separator=""),
        mismatch("method in lower case signed", signed={"method": "get"}),
        mismatch("another method signed", signed={"method": "POST"}),
        mismatch("another timestamp signed", signed={"timestamp": str(NOW + 1)}),
        mismatch("another nonce signed", signed={"nonce": "n-0002"}),
        mismatch("a nonce signed with its padding", signed={"nonce": "\tn-0001\t"}),
        mismatch("another body hash signed", signed={"hash": body_hash(b"{}")}),
        mismatch("the body signed in place of its hash", method="POST", body="{}", signed={"hash": "{}"}),
        mismatch("the body hash left out", text="\n".join(["GET", ORDERS, str(NOW), NONCE])),
        mismatch("timestamp and nonce swapped", text="\n".join(["GET", ORDERS, NONCE, str(NOW), EMPTY])),
        mismatch("the border between target and timestamp moved", target="/api/v1/x%0a1750000000%0an2",
                 text="\n".join(["GET", "/api/v1/x", str(NOW), "n2", EMPTY])) | {"expect": {"reason": "bad_target"}},
        mismatch("a nonce that holds an encoded line feed, signed decoded", headers={"X-Nonce": "n%0A1"}, signed={"nonce": "n\n1"}),
    ]
    return "What is signed: the published vectors, each spelling of a target as sent, and what clients sign by mistake.", out


# --- The request line ---------------------------------------------------------

REFUSED_TARGETS = [
    # not origin-form
    "http://gw.example/api/v1/orders", "https://gw.example/api/v1/orders", "*", "gw.example:443", "", "api/v1/orders", "?a=1",
    # dot segments
    "/api/v1/a/../orders", "/api/v1/./orders", "/api/v1/orders/.", "/api/v1/orders/..", "/api/v1/../../etc", "/..", "/.",
    "/api/v1/public/%2e%2e/admin", "/api/v1/public/%2E%2E/admin", "/api/v1/public/.%2e/admin", "/api/v1/public/%2e./admin",
    "/api/v1/%2e/orders", "/public/%2e%2e/api/v1/orders", "/api/v1/..;x/orders", "/api/v1/.;/orders", "/api/v1/..;/orders",
    "/api/v1/%2e%2e;x=1/orders", "/api/v1/..%3bx/orders", "/api/v1/orders/..;", "/api/v1/..?a=1",
    # empty segments
    "//api/v1/orders", "/api//v1/orders", "/api/v1//orders", "/api/v1/orders//", "/api/v1/....//admin", "//", "//gw.example/api/v1/orders",
    "/api/v1/;x/orders", "/api/v1/orders/;x", "/api/v1/;/orders", "/api/v1/%3bx/orders",
    # encoded slash, backslash, NUL, control bytes
    "/api/v1/public/..%2fadmin", "/api/v1/public/%2e%2e%2fadmin", "/api/v1/a%2Fb", "/api/v1/a%2fb", "/api%2fv1/orders",
    "/api/v1/a%5cb", "/api/v1/a%5Cb", "/api/v1/..%5cadmin", "/api/v1/a%00", "/api/v1/a%00.json", "/api/v1/a%0a", "/api/v1/a%0D%0Ab",
    "/api/v1/a%1f", "/api/v1/a%7f", "/api/v1/a%09b",
    # raw characters that libraries rewrite
    *["/api/v1/a" + c + "b" for c in '{}|"<>^`\\'], "/api/v1/..\\admin", "\\api\\v1\\orders",
    "/api/v1/a b", "/api/v1/a\tb", "/api/v1/a\nb", "/api/v1/a\x00b", "/api/v1/a\x7fb",
    "/api/v1/caf\xe9", "/api/v1/caf\xc3\xa9", "/api/v1/orders?q=caf\xe9", "/api/v1/orders?q=caf\xc3\xa9",
    "/api/v1/orders?q=a b", "/api/v1/orders?q=a\tb", "/api/v1/orders?q=a\rb",
    # escapes
    "/api/v1/100%", "/api/v1/100%2", "/api/v1/%zz", "/api/v1/%2", "/api/v1/%%32%66", "/api/v1/%u002f", "/api/v1/orders?q=100%",
    "/api/v1/orders?q=%", "/api/v1/orders?q=%f", "/api/v1/orders?q=%gg", "/api/v1/orders?q=% 1",
    # fragments
    "/api/v1/orders#", "/api/v1/orders#x", "/api/v1/orders?a=1#x", "#",
    # hidden behind one more decoding
    "/api/v1/%252e%252e/admin", "/api/v1/.%252e/admin", "/api/v1/%252e/admin", "/api/v1/%25252e%25252e/admin", "/api/v1/a%252fb",
    "/api/v1/a%252Fb", "/api/v1/a%255cb", "/api/v1/a%2500", "/api/v1/a%250ab", "/api/v1/%25%32%65%25%32%65/admin",
    "/api/v1/%c0%ae%c0%ae/admin", "/api/v1/a%c0%afb", "/api/v1/a%C1%9Cb", "/api/v1/a%e0%80%afb", "/api/v1/a%f0%80%80%afb",
    # segments of blanks and dots alone
    "/api/v1/...", "/api/v1/%20", "/api/v1/cards/%20/sensitive", "/api/v1/cards/+", "/api/v1/cards/.%20.;x", "/api/v1/cards/%2520",
    "/api/v1/cards/%c2%a0", "/api/v1/cards/%a0", "/api/v1/cards/%e2%80%8b",
    # an operation with something behind or before one of its segments
    *["/api/v1/cards/c1/sensitive" + tail for tail in [";", ";x", ";x/", ";x=1?a=1", "%3bx", ".", "..", ".json", ".tar.gz", "%20", "+",
      "%20.json", ".%20", "%c2%a0", "%a0", "%e2%80%8b", "%2520", "%253bx", "%2ejson"]],
    "/api/v1/cards;a/x/sensitive", "/api/v1/card;a/x/sensitive", "/api/v1/cards/c1/%20sensitive", "/api/v1/cards/c1/%2573ensitive",
    "/api/v1/cards/c1/balance.", "/api/v1/transactions.csv", "/api/v1/transactions;x", "/api/v1/transaction%C5%BF", "/api/v1/%20transactions",
    "/api/v1/customers/u1/transactions%20", "/api;x/v1/transactions", "/api/v1.0/transactions", "/api/v1;x/cards/c1",
    "/api/v1/" + "a" * (8193 - len("/api/v1/")),
    "/api/v1/orders?q=" + "a" * (8193 - len("/api/v1/orders?q=")),
]

ACCEPTED_TARGETS = [
    "/api/v1/.hidden/x", "/api/v1/a..b", "/api/v1/..a", "/api/v1/a..", "/api/v1/a.", "/api/v1/%2e%2ehidden",
    "/api/v1/a;x=1/b", "/api/v1/a;/b", "/api/v1/a%3bx", "/api/v1/a;..", "/api/v1/orders/", "/api/v1/orders/?a=1",
    "/api/v1/a%20b", "/api/v1/a+b", "/api/v1/a%2Bb", "/api/v1/a%7Bb%7D", "/api/v1/a%23b", "/api/v1/a%3Fb", "/api/v1/a%22b",
    "/api/v1/caf%C3%A9", "/api/v1/caf%E9", "/api/v1/%c3%80", "/api/v1/%C1lex", "/api/v1/%e0%a4%85", "/api/v1/%f0%9f%92%b3",
    "/api/v1/50%25", "/api/v1/50%25off", "/api/v1/100%25ff", "/api/v1/a%252eb", "/api/v1/a%2541", "/api/v1/%2525",
    "/api/v1/a:b@c,d!$&'()*+=~-_.", "/api/v1/a[1]", "/api/v1/orders?q=%2e%2e%2f", "/api/v1/orders?q=../x", "/api/v1/orders?q=//",
    "/api/v1/" + "a" * (8192 - len("/api/v1/")),
]


def targets():
    out = []
    for target in REFUSED_TARGETS:
        out.append(request(f"refused: {label(target)}", target=target, reason="bad_target"))
    for target in ["/api/v1/a/../orders", "/api/v1//orders", "/public/%2e%2e/api/v1/orders"]:
        out.append(request(f"refused before the headers are looked at: {target}", target=target, reason="bad_target",
                           drop=["X-API-Key", "X-Timestamp", "X-Nonce", "X-Body-Hash", "X-Signature"]))
    out.append(request("refused before the method is looked at", "BREW", "/api/v1//orders", reason="bad_target"))
    for target in ACCEPTED_TARGETS:
        out.append(request(f"accepted: {label(target)}", target=target, operation="other", upstream=target))
    return "Targets that can be read in two ways are refused, also when they are signed; targets that only look odd are not.", out


def label(target):
    return ascii(target)[1:-1] if len(target) < 80 else f"{target[:24]}… of {len(target)} bytes"


def methods():
    card = "/api/v1/cards/c1"
    out = [request(f"{m} is accepted", m, operation="other") for m in ["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE"]]
    for m in ["get", "patch", "Post", "OPTIONS", "TRACE", "CONNECT", "PROPFIND", "QUERY", "X"]:
        out.append(request(f"{m} is refused, signed as sent", m, reason="method_not_allowed"))
    out += [
        request("patch is refused, signed in upper case", "patch", signed={"method": "PATCH"}, reason="method_not_allowed"),
        request("refused before the headers are looked at", "OPTIONS", reason="method_not_allowed",
                drop=["X-API-Key", "X-Timestamp", "X-Nonce", "X-Body-Hash", "X-Signature"]),
        request("HEAD is the operation of GET", "HEAD", card, operation="get_card"),
        mismatch("a signature of HEAD on GET", method="GET", target=card, signed={"method": "HEAD"}),
        mismatch("a signature of GET on HEAD", method="HEAD", target=card, signed={"method": "GET"}),
    ]
    return "Six methods, in upper case; HEAD is signed as HEAD.", out


# --- Rule 1 -------------------------------------------------------------------

FIVE = ["X-API-Key", "X-Timestamp", "X-Nonce", "X-Body-Hash", "X-Signature"]


def headers():
    missing = lambda name, **kwargs: request(name, reason="missing_headers", **kwargs)
    out = [request("all five are there")]
    for header in FIVE:
        out.append(missing(f"{header} is missing", drop=[header]))
        out.append(missing(f"{header} is empty", headers={header: ""}))
        value = request("")["headers"][header][0]
        out.append(missing(f"{header} is there twice with the same value", headers={header: [value, value]}))
        out.append(missing(f"{header} is there twice with another value", headers={header: [value, "x"]}))
        out.append(missing(f"{header} is there twice, once empty", headers={header: [value, ""]}))
        underscore = header.replace("-", "_")
        out.append(missing(f"{header} is spelled with underscores", headers={underscore: value}, drop=[header]))
        out.append(request(f"{header} in lower case", headers={header.lower(): value}, drop=[header]))
    out += [
        missing("none is there", drop=FIVE),
        request("a copy with underscores beside the right one", headers={"X_Nonce": "n-0002"}),
    ]
    for nonce, note in [("n", "one character"), ("n" * 256, "256 characters"), ("../", ""), ("*", ""), ("{a}", ""),
                        ("!~", "the first and the last visible character"), ("a,b", "a comma"), ("n%0A", "an escape")]:
        out.append(request(f"X-Nonce {note or nonce}", headers={"X-Nonce": nonce}))
    for nonce, note in [("n" * 257, "257 characters"), ("n" * 8192, "8192 characters"), ("a, b", "an inner space"), ("a\tb", "an inner tab"),
                        ("é", "UTF-8"), ("\xff\xfe", "bytes beyond ASCII"), ("n\x7f", "DEL")]:
        out.append(missing(f"X-Nonce with {note}", headers={"X-Nonce": nonce}))
    return "Rule 1: each of the five headers exactly once and not empty, and a nonce of 1 to 256 visible ASCII characters.", out


# --- Rules 2 to 5 ---------------------------------------------------------------


def keys():
    lock = {"at": moment(-HOUR), "failures": 50}
    other = "another_secret_0123456789abcdef"
    old = lambda expires: [{"text": other}, {"text": SECRET, "expires_at": expires}]
    unknown = lambda name, id, **kwargs: request(name, headers={"X-API-Key": id}, reason="unknown_key", **kwargs)
    out = [
        unknown("an unknown id", "ak_test_2"),
        unknown("an unknown id with a bad signature", "ak_test_2", signature=wrong),
        unknown("an id in upper case", "AK_TEST_1"),
        unknown("a prefix of an id", "ak_test_"),
        unknown("an id with a suffix", "ak_test_1x"),
        unknown("two ids in one header", "ak_test_1, ak_test_1"),
        unknown("an invented id of our form", "ck_live_" + "a" * 32),
        request("disabled", key={"disabled": True}, reason="key_disabled"),
        request("disabled, with a bad signature", key={"disabled": True}, signature=wrong, reason="key_disabled"),
        request("locked until an operator unlocks it", key={"lock": lock}, reason="key_disabled"),
        request("locked for another second", key={"lock": lock | {"until": moment(1)}}, reason="key_disabled"),
        request("the lock ends now", key={"lock": lock | {"until": moment(0)}}),
        request("the lock has ended", key={"lock": lock | {"until": moment(-1)}}),
        request("expires in a second", key={"expires_at": moment(1)}),
        request("expires now", key={"expires_at": moment(0)}, reason="key_expired"),
        request("has expired", key={"expires_at": moment(-HOUR)}, reason="key_expired"),
        request("has expired, with a bad signature", key={"expires_at": moment(-HOUR)}, signature=wrong, reason="key_expired"),
        request("disabled and expired", key={"disabled": True, "expires_at": moment(-1)}, reason="key_disabled"),
        request("no failures", state={"failures": 0}),
        request("one failure below the threshold", state={"failures": 49}),
        mismatch("the failure that reaches the threshold", state={"failures": 49}, signature=wrong),
        request("the threshold is reached", state={"failures": 50}, reason="key_locked"),
        request("the threshold is reached, with a bad signature", state={"failures": 50}, signature=wrong, reason="key_locked"),
        request("the newest of two secrets", key={"secrets": old(moment(1))}, secret=other),
        request("the older of two secrets, which lives", key={"secrets": old(moment(1))}),
        mismatch("the older of two secrets, which ends now", key={"secrets": old(moment(0))}),
        request("the newest of two secrets, the older has ended", key={"secrets": old(moment(0))}, secret=other),
        mismatch("neither of two secrets", key={"secrets": old(moment(1))}, secret="a third secret of nobody"),
        mismatch("no secret lives", key={"secrets": [{"text": SECRET, "expires_at": moment(-1)}]}),
        request("a secret of all kinds of characters", key={"secrets": [{"text": "a-b_c+d/e=f:g.h~i"}]}, secret="a-b_c+d/e=f:g.h~i"),
        request("a secret beyond ASCII is its UTF-8", key={"secrets": [{"text": "schlüssel_0123456789"}]}, secret="schlüssel_0123456789"),
        request("a secret longer than a block of SHA-256", key={"secrets": [{"text": "s" * 100}]}, secret="s" * 100),
    ]
    return "Rules 2 to 5: unknown, disabled and locked, expired, too many failures; and two live secrets.", out


# --- Rule 6 -----------------------------------------------------------------------


def addresses():
    out = []
    for allowed, client, ok in [
        (None, "198.51.100.9", True),
        (["203.0.113.7"], "203.0.113.7", True),
        (["203.0.113.7"], "203.0.113.8", False),
        (["203.0.113.0/24"], "203.0.113.0", True),
        (["203.0.113.0/24"], "203.0.113.255", True),
        (["203.0.113.0/24"], "203.0.114.0", False),
        (["203.0.113.0/24"], "::ffff:203.0.113.7", True),
        (["203.0.113.0/24"], "::ffff:cb00:7107", True),
        (["203.0.113.0/24"], "::203.0.113.7", False),
        (["::ffff:203.0.113.0/120"], "203.0.113.7", True),
        (["::ffff:203.0.113.0/120"], "::ffff:203.0.113.7", True),
        (["::ffff:203.0.113.0/120"], "203.0.114.7", False),
        (["::ffff:203.0.113.7"], "203.0.113.7", True),
        (["2001:db8:1c0c::/48"], "2001:db8:1c0c::7", True),
        (["2001:db8:1c0c::/48"], "2001:db8:1c0d::7", False),
        (["2001:db8::7"], "2001:db8:0:0:0:0:0:7", True),
        (["2001:db8::7"], "2001:db8::8", False),
        (["0.0.0.0/0"], "198.51.100.9", True),
        (["0.0.0.0/0"], "2001:db8::7", False),
        (["::/0"], "2001:db8::7", True),
        (["::/0"], "198.51.100.9", False),
        (["198.51.100.0/25", "203.0.113.7", "2001:db8::/32"], "203.0.113.7", True),
        (["198.51.100.0/25", "203.0.113.7", "2001:db8::/32"], "198.51.100.128", False),
        (["203.0.113.7"], "", False),
        (None, "", True),
    ]:
        name = f"{client or 'an unknown address'} {'is' if ok else 'is not'} in {', '.join(allowed) if allowed else 'no list'}"
        key = {"allowed_ips": allowed} if allowed else None
        out.append(request(name, key=key, client=client, reason="accepted" if ok else "ip_not_allowed"))
    out += [
        request("from outside, with a bad signature: does not count", key={"allowed_ips": ["203.0.113.7"]}, client="198.51.100.9",
                signature=wrong, reason="ip_not_allowed"),
        request("an allowed address in a header is not believed", key={"allowed_ips": ["203.0.113.7"]}, client="198.51.100.9",
                headers={"X-Forwarded-For": "203.0.113.7", "X-Real-IP": "203.0.113.7", "Forwarded": "for=203.0.113.7",
                         "True-Client-IP": "203.0.113.7", "CF-Connecting-IP": "203.0.113.7"}, reason="ip_not_allowed"),
    ]
    return "Rule 6: the client address and the whitelist.", out


WHITELISTS = [
    (None, None),
    (["203.0.113.7"], ["203.0.113.7/32"]),
    (["203.0.113.0/24"], ["203.0.113.0/24"]),
    (["2001:DB8:1C0C:0::/48"], ["2001:db8:1c0c::/48"]),
    (["2001:db8:0:0:0:0:0:7"], ["2001:db8::7/128"]),
    (["::ffff:203.0.113.0/120"], ["203.0.113.0/24"]),
    (["::ffff:203.0.113.7"], ["203.0.113.7/32"]),
    (["::ffff:cb00:7107/128"], ["203.0.113.7/32"]),
    (["0.0.0.0/0", "::/0"], ["0.0.0.0/0", "::/0"]),
    (["203.0.113.7", "203.0.113.7/32", "::ffff:203.0.113.7"], ["203.0.113.7/32"]),
]

BAD_WHITELISTS = [
    [], [""], ["203.0.113.7", ""], ["203.0.113.7", "nonsense"], ["203.0.113.007"], ["010.1.1.1"], ["0xcb.0.113.7"], ["3405803783"],
    ["203.0.113.0/024"], ["::/01"], ["8/8"], ["203.0.113/24"], ["203.0.113.7/24"], ["2001:db8::7/64"], ["203.0.113.0/33"], ["::/129"],
    ["203.0.113.0/-1"], ["203.0.113.0/+24"], ["203.0.113.0/"], ["203.0.113.0/24/24"], ["203.0.113.0/255.255.255.0"], ["/24"],
    [" 203.0.113.7"], ["203.0.113.7 "], ["203.0.113.7:443"], ["[2001:db8::7]"], ["[2001:db8::7]:443"], ["fe80::1%eth0"], ["fe80::%eth0/64"],
    ["gw.example"], ["*"], ["203.0.113.*"], ["203.0.113.1-203.0.113.9"], ["::ffff:0.0.0.0/95"], ["::ffff:203.0.113.7/120"], ["2001:db8"], ["2001"],
]


# --- Rule 7 -----------------------------------------------------------------------


def timestamps():
    out = []
    for offset in [0, -1, 1, -299, 299, -300, 300]:
        out.append(request(f"{offset:+d} s is inside", headers={"X-Timestamp": str(NOW + offset)}))
    late = lambda name, value, **kwargs: request(name, headers={"X-Timestamp": value}, reason="timestamp_out_of_window", **kwargs)
    for offset in [-301, 301, -600, 86400, -86400]:
        out.append(late(f"{offset:+d} s is outside, and does not count", str(NOW + offset)))
    out.append(late("outside with a bad signature: counts", str(NOW - 301), signature=wrong, counts=True))
    for value in ["9999999999", "1000000000", "1750000000000", "175000000", "17500000000", "+1750000000", "-1750000000", "-1",
                  "01750000000", "0175000000", "0000000000", "1750000000abc", "1750000000.0", "1_750_000_000", "0x684FF600", "1.75e9",
                  "abc", "NaN", "Infinity", "1" * 30, "1750000000 1750000000", "1750000000,", "１７５０００００００", "٠١٢٣٤٥٦٧٨٩",
                  "2025-06-15T15:06:40Z", "Sun, 15 Jun 2025 15:06:40 GMT"]:
        out.append(late(f"{value} is outside", value))
    out.append(late("malformed with a bad signature: counts", "abc", signature=wrong, counts=True))
    return "Rule 7: ten digits, and at most 300 whole seconds from the clock, the edge inside.", out


# --- Rule 8 -----------------------------------------------------------------------


def nonces():
    used = {"nonces": [NONCE]}
    out = [
        request("a new nonce", state={"nonces": []}),
        request("another nonce was used", state={"nonces": ["n-0002", "N-0001", "n-00011", "n-000"]}),
        request("a nonce that was used, in a request signed anew", target=ORDERS + "?a=1", state=used, reason="replayed_nonce"),
        request("the same request again: does not count", state=used, reason="replayed_nonce"),
        request("again with a bad signature: counts", state=used, signature=wrong, reason="replayed_nonce", counts=True),
        request("again with a bad body: does not count, the signature is right", method="POST", body="{}",
                headers={"X-Body-Hash": body_hash(b"[]")}, state=used, reason="replayed_nonce"),
        request("a nonce that another key used", state={"other_key_nonces": [NONCE]}),
    ]
    return "Rule 8: a nonce is used once by each key.", out


# --- Rule 9 -----------------------------------------------------------------------


def bodies():
    post = lambda name, body, **kwargs: request(name, "POST", body=body, **kwargs)
    bad = lambda name, body, value, method="POST": request(
        name, method, body=body, headers={"X-Body-Hash": value}, reason="body_hash_mismatch")
    out = [post(f"hashed as sent: {label(repr(body))}", body) for body in [
        b'{ "b":1,  "a":2 }', b'{"a":"\\u00e9"}', '{"a":"é"}'.encode(), b'{"a":1,"a":2}', b"0", b" ", b"\n", b"\x00", b"\xff", b"null",
        b"not JSON", b"--x\r\nContent-Disposition: form-data; name=\"a\"\r\n\r\n1\r\n--x--\r\n", bytes(range(256)),
    ]]
    out += [request(f"no body: {m}", m) for m in ["GET", "DELETE", "HEAD", "POST"]]
    out += [
        request("GET with a body, hashed", "GET", "/api/v1/search", '{"a":1}'),
        request("DELETE with a body, hashed", "DELETE", body='{"a":1}'),
        bad("GET with a body, the empty hash", '{"a":1}', EMPTY, "GET"),
    ]
    for body in [b"{}", b"null", b'""', b"undefined", b"\n"]:
        out.append(bad(f"no body, the hash of {body.decode()!r}", b"", body_hash(body), "GET"))
    for body in [b"0", b" ", b"\n", b"\x00", b"\xff"]:
        out.append(bad(f"body {body!r}, the empty hash", body, EMPTY))
    v3, other = b'{"amount":"10.00","currency":"USD"}', b'{"amount":"99.00","currency":"USD"}'
    digest = hashlib.sha256(v3).digest()
    out += [
        bad("another body of the same length", other, body_hash(v3)),
        bad("a body that was cut", v3[:-1], body_hash(v3)),
        bad("a line feed hashed but not sent", v3, body_hash(v3 + b"\n")),
        bad("a line feed sent but not hashed", v3 + b"\n", body_hash(v3)),
        bad("CR LF sent, LF hashed", b'{"a":1,\r\n"b":2}', body_hash(b'{"a":1,\n"b":2}')),
        bad("JSON written anew before it was hashed", b'{ "b":1,  "a":2 }', body_hash(b'{"b":1,"a":2}')),
        bad("encoded twice", b'"abc"', body_hash(b"abc")),
        bad("a comment dropped on the way", b'{"a":1 }', body_hash(b'{"a":1 /* c */}')),
        bad("a variable resolved after the hash", b'{"id":"7"}', body_hash(b'{"id":"{{id}}"}')),
        bad("the hash in hex", v3, digest.hex()),
        bad("the hash in base64 of hex", v3, b64(digest.hex().encode())),
        bad("the hash in base64url", other, base64.urlsafe_b64encode(hashlib.sha256(other).digest()).decode()),
        bad("the hash without padding", v3, b64(digest).rstrip("=")),
        bad("the hash with too much padding", v3, b64(digest) + "="),
        bad("the hash percent-encoded", v3, b64(digest).replace("=", "%3D")),
        bad("a non-canonical twin of the hash", v3, twin(b64(digest))),
        bad("the hash in another case", v3, b64(digest).swapcase()),
        bad("the hash in quotes", v3, '"' + b64(digest) + '"'),
        bad("SHA-512", v3, b64(hashlib.sha512(v3).digest())),
        bad("a hash beyond ASCII", v3, "é"),
        request("a bad hash and a bad signature: the hash is first", "POST", body=v3, headers={"X-Body-Hash": EMPTY},
                signature=wrong, reason="body_hash_mismatch"),
    ]
    assert any(c in b64(hashlib.sha256(other).digest()) for c in "+/")
    return "Rule 9: X-Body-Hash is the standard base64 of the SHA-256 of the bytes received.", out


def twin(text):
    """Another text that a lenient base64 decoder reads as the same 32 bytes."""
    alphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"
    last = alphabet[alphabet.index(text[-2]) + 1]
    changed = text[:-2] + last + "="
    assert base64.b64decode(changed) == base64.b64decode(text)
    return changed


# --- Rule 10 ----------------------------------------------------------------------


def signatures():
    out = [request("right")]
    for name, spell in [
        ("in base64url", lambda d: base64.urlsafe_b64encode(d).decode()),
        ("in base64url without padding", lambda d: base64.urlsafe_b64encode(d).decode().rstrip("=")),
        ("without padding", lambda d: b64(d).rstrip("=")),
        ("with too much padding", lambda d: b64(d) + "="),
        ("percent-encoded", lambda d: b64(d).replace("/", "%2F").replace("=", "%3D")),
        ("in hex", lambda d: d.hex()),
        ("in upper-case hex", lambda d: d.hex().upper()),
        ("in base64 of hex", lambda d: b64(d.hex().encode())),
        ("a non-canonical twin", lambda d: twin(b64(d))),
        ("in another case", lambda d: b64(d).swapcase()),
        ("in quotes", lambda d: '"' + b64(d) + '"'),
        ("after a scheme", lambda d: "HMAC-SHA256 " + b64(d)),
        ("cut by a character", lambda d: b64(d)[:-2] + "="),
        ("of one character", lambda d: "="),
        ("of 43 characters", lambda d: b64(d)[1:]),
        ("of 45 characters", lambda d: "A" + b64(d)),
        ("right at first, then junk", lambda d: b64(d) + " junk"),
        ("of 10000 characters", lambda d: "A" * 10000),
        ("beyond ASCII", lambda d: "é" * 22),
        ("of another digest", wrong),
        ("of 32 zero bytes", lambda d: b64(bytes(32))),
    ]:
        out.append(mismatch(f"signature {name}", signature=spell))
    v1 = out[1]["headers"]["X-Signature"][0]
    assert v1 == "NNO_BBsHEctrd5Y0rWJfisaSYxUa3RYwHAvQusgaug0=", v1
    assert out[9]["headers"]["X-Signature"] == ["NNO/BBsHEctrd5Y0rWJfisaSYxUa3RYwHAvQusgaug1="]
    base = "\n".join(["GET", ORDERS, str(NOW), NONCE, EMPTY])
    out += [
        mismatch("another secret", secret="another_secret_0123456789abcdef"),
        mismatch("an empty secret", secret=""),
        mismatch("the secret with a line feed", secret=SECRET + "\n"),
        mismatch("the secret with a space", secret=SECRET + " "),
        mismatch("the secret in upper case", secret=SECRET.upper()),
        mismatch("the secret in base64", secret=b64(SECRET.encode())),
        mismatch("the key id in place of the secret", secret=KEY),
        mismatch("SHA-256 in place of HMAC", signature=lambda d: b64(hashlib.sha256(base.encode()).digest())),
        mismatch("SHA-256 of secret and string", signature=lambda d: b64(hashlib.sha256((SECRET + base).encode()).digest())),
        mismatch("HMAC-SHA1", signature=lambda d: b64(hmac.new(SECRET.encode(), base.encode(), hashlib.sha1).digest())),
        mismatch("HMAC-SHA512", signature=lambda d: b64(hmac.new(SECRET.encode(), base.encode(), hashlib.sha512).digest())),
        mismatch("secret and string swapped", signature=lambda d: b64(hmac.new(base.encode(), SECRET.encode(), hashlib.sha256).digest())),
    ]
    return "Rule 10: X-Signature is the standard base64 of the HMAC-SHA256.", out


# --- Rule 12 and the operations -----------------------------------------------------


def scopes():
    card = "/api/v1/cards/c1"
    out = []
    for method, target, operation, scope, upstream in [
        ("POST", "/api/v1/Customers", "create_customer", "customers:write", None),
        ("POST", "/api/v1/customers", "create_customer", "customers:write", None),
        ("POST", "/api/v1/CUSTOMERS", "create_customer", "customers:write", None),
        ("POST", "/api/v1/%43ustomers", "create_customer", "customers:write", None),
        ("POST", "/api/v1/cards", "issue_card", "cards:write", None),
        ("POST", "/api/v1/cards?a=1", "issue_card", "cards:write", None),
        ("GET", card, "get_card", "cards:read", None),
        ("GET", card + "?a=1", "get_card", "cards:read", None),
        ("HEAD", card, "get_card", "cards:read", None),
        ("GET", "/API/v1/Cards/c1", "get_card", "cards:read", None),
        ("GET", "/api/v1/cards/sensitive", "get_card", "cards:read", None),
        ("GET", "/api/v1/cards/a%20b", "get_card", "cards:read", None),
        ("GET", card + "/sensitive", "get_sensitive_card", "cards:sensitive", None),
        ("GET", card + "/Sensitive", "get_sensitive_card", "cards:sensitive", None),
        ("GET", card + "/%73ensitive", "get_sensitive_card", "cards:sensitive", None),
        ("GET", "/api/v1/card/c1/sensitive", "get_sensitive_card", "cards:sensitive", card + "/sensitive"),
        ("GET", "/api/v1/card/c1/sensitive?a=card", "get_sensitive_card", "cards:sensitive", card + "/sensitive?a=card"),
        ("GET", "/api/v1/Card/c1/SENSITIVE?", "get_sensitive_card", "cards:sensitive", card + "/SENSITIVE?"),
        ("GET", "/API/v1/%63ard/%63ard/sensitive", "get_sensitive_card", "cards:sensitive", "/API/v1/cards/%63ard/sensitive"),
        ("HEAD", "/api/v1/card/c1/sensitive", "get_sensitive_card", "cards:sensitive", card + "/sensitive"),
        ("POST", card + "/unfreeze", "unfreeze_card", "cards:write", None),
        ("GET", card + "/balance", "get_card_balance", "cards:read", None),
        ("GET", "/api/v1/transactions?limit=20", "list_transactions", "transactions:read", None),
        ("GET", "/api/v1/customers/u1/transactions", "list_customer_transactions", "transactions:read", None),
        ("GET", "/api/v1/cards", "other", "*", None),
        ("GET", card + "/", "get_card", "cards:read", None),
        ("GET", card + "/?a=1", "get_card", "cards:read", None),
        ("PUT", card, "other", "*", None),
        ("POST", card, "other", "*", None),
        ("GET", card + "/sensitive/", "get_sensitive_card", "cards:sensitive", None),
        ("GET", "/api/v1/card/c1/sensitive/?a=card", "get_sensitive_card", "cards:sensitive", card + "/sensitive/?a=card"),
        ("GET", "/api/v1/cards/c1.json", "get_card", "cards:read", None),
        ("GET", "/api/v1/cards/c1;x/sensitive", "get_sensitive_card", "cards:sensitive", None),
        ("PATCH", card + "/sensitive;x", "other", "*", None),
        ("GET", card + "/sensitivex", "other", "*", None),
        ("GET", "/api/v1/card/c1", "other", "*", None),
        ("GET", card + "/balance/x", "other", "*", None),
        ("GET", "/api/v1/cardsx/c1", "other", "*", None),
        ("GET", ORDERS, "other", "*", None),
        ("POST", "/api/v1/Customers/", "create_customer", "customers:write", None),
    ]:
        ask = lambda name, holds, ok: request(
            f"{method} {target} {name}", method, target, key={"scopes": holds}, operation=operation,
            upstream=upstream or target if ok else None, reason="accepted" if ok else "scope_missing")
        out.append(ask("with its scope", [scope], True))
        resource = scope.split(":")[0]
        if scope != "*":
            out.append(ask("with everything", ["*"], True))
            out.append(ask("with the resource", [resource + ":*"], scope != "cards:sensitive"))
        out.append(ask("with other scopes", sorted(set(ALL_SCOPES) - {scope}), False))
    out += [
        request("a scope that only begins alike", target=card, key={"scopes": ["cards:readx", "cardsx:read", "card:read"]},
                operation="get_card", reason="scope_missing"),
        request("all wildcards of resources are not everything", key={"scopes": sorted({s.split(":")[0] + ":*" for s in ALL_SCOPES})},
                operation="other", reason="scope_missing"),
        request("sensitive details need more than all other scopes of cards", target=card + "/sensitive",
                key={"scopes": ["cards:*", "cards:read", "cards:write"]}, operation="get_sensitive_card", reason="scope_missing"),
        request("sensitive details by wildcard and name", target=card + "/sensitive", key={"scopes": ["cards:*", "cards:sensitive"]},
                operation="get_sensitive_card"),
        request("a missing scope does not hide a bad signature", target=card, key={"scopes": ["products:read"]}, signature=wrong,
                operation="get_card", reason="signature_mismatch"),
        request("a missing scope does not hide a replay", target=card, key={"scopes": ["products:read"]}, state={"nonces": [NONCE]},
                operation="get_card", reason="replayed_nonce"),
    ]
    return "Rule 12: operations, the scopes they need and what the upstream is asked for.", out


ALL_SCOPES = ["customers:read", "customers:write", "cards:read", "cards:write", "cards:sensitive", "funding:read", "funding:write",
              "transactions:read", "products:read", "documents:write", "webhooks:read", "webhooks:write"]


# --- Combinations -------------------------------------------------------------------


def combinations():
    body = '{"customerId":"u1","productId":"p1","currency":"USD"}'
    make = lambda **kwargs: request("base", "POST", "/api/v1/cards", body, **kwargs)
    base = make(key={"scopes": ["cards:write"], "allowed_ips": ["203.0.113.0/24"]}, operation="issue_card")
    stale = make(headers={"X-Timestamp": str(NOW - 301)})["headers"]
    breaks = {
        "1": {"reason": "missing_headers", "headers": {"X-Nonce": []}},
        "2": {"reason": "unknown_key", "headers": {"X-API-Key": ["ak_test_2"]}},
        "3": {"reason": "key_disabled", "key": {"disabled": True}},
        "4": {"reason": "key_expired", "key": {"expires_at": moment(-HOUR)}},
        "5": {"reason": "key_locked", "state": {"failures": 50}},
        "6": {"reason": "ip_not_allowed", "client_ip": "198.51.100.9"},
        "7": {"reason": "timestamp_out_of_window", "headers": {h: stale[h] for h in ("X-Timestamp", "X-Signature")}},
        "8": {"reason": "replayed_nonce", "state": {"nonces": [NONCE]}},
        "9": {"reason": "body_hash_mismatch", "body": body + " "},
        "10": {"reason": "signature_mismatch", "headers": {"X-Signature": [wrong(b"")]}},
        "12": {"reason": "scope_missing", "key": {"scopes": ["cards:read"]}},
    }
    return {
        "description": "How to break each rule of one good request. Every subset of the breaks, applied in the order of the rules, "
                       "is answered by the reason of its first rule.",
        "base": base,
        "breaks": breaks,
    }


# What RFC 4231 has, in hexadecimal: name, key, data, HMAC-SHA-256.
RFC4231 = [
    ("key of 20 bytes", "0b" * 20, "4869205468657265", "b0344c61d8db38535ca8afceaf0bf12b881dc200c9833da726e9376c2e32cff7"),
    ("key shorter than a digest", "4a656665", b"what do ya want for nothing?".hex(), "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843"),
    ("key and data of one byte each", "aa" * 20, "dd" * 50, "773ea91e36800e46854db8ebd09181a72959098b3ef8c122d9635514ced565fe"),
    ("key of 25 bytes", bytes(range(1, 26)).hex(), "cd" * 50, "82558a389a443c0ea4cc819899f2083a85f0faa3e578f8077a2e3ff46729665b"),
    ("truncated in the RFC", "0c" * 20, b"Test With Truncation".hex(), "a3b6167473100ee06e0c796c2955552bfa6f7c0a6a8aef8b93f860aab0cd20c5"),
    ("key larger than a block", "aa" * 131, b"Test Using Larger Than Block-Size Key - Hash Key First".hex(),
     "60e431591ee0b67f0d8a26aacbf5b77f8e0bc6213728c5140546040f0ee37f54"),
    ("key and data larger than a block", "aa" * 131,
     b"This is a test using a larger than block-size key and a larger than block-size data. The key needs to be hashed before being used "
     b"by the HMAC algorithm.".hex(), "9b09ffa71b942fcb27635fbcd5b0e944bfdc63644f0713938a7f51535c3a35e2"),
]


def rfc4231():
    for name, key, data, want in RFC4231:
        assert hmac.new(bytes.fromhex(key), bytes.fromhex(data), hashlib.sha256).hexdigest() == want, name
    return {
        "description": "HMAC-SHA-256, the seven cases of RFC 4231, section 4, in hexadecimal. The fifth is shown there cut to 128 bits.",
        "cases": [{"name": name, "key": key, "data": data, "hmac_sha256": want} for name, key, data, want in RFC4231],
    }


ANSWERED = NOW + 1
REQUEST_ID = "UFJ77MIPGN6U4YHNN2IFC3FSOS"
CARD = b'{"cardId":"c1"}'
SIGNED = ("X-Response-Timestamp", "X-Response-Body-Hash", "X-Response-Signature")


def answer(name, expect="signed", status=201, body=CARD, *, text=None, now=NOW + 2, nonce=NONCE, secret=SECRET, **changes):
    """One answer to a request with NONCE. It is signed as received, unless `text`
    makes another string to sign; `changes` replaces what is received."""
    parts = [str(status), REQUEST_ID, changes.pop("timestamp", str(ANSWERED)), NONCE, changes.pop("body_hash", body_hash(body))]
    string = text(parts) if text else "\n".join(["card-gateway-response-v1", *parts])
    headers = {"X-Request-Id": [REQUEST_ID], **dict(zip(SIGNED, ([parts[2]], [parts[4]], [b64(mac(string.encode(), secret))])))}
    headers.update(changes.pop("headers", {}))
    headers = {header: values for header, values in headers.items() if values is not None}
    case = {"name": name, "nonce": nonce, "now": now, "status": changes.pop("received_status", status), "headers": headers}
    received = changes.pop("received", body)
    assert not changes, changes
    try:
        case["body"] = received.decode()
    except UnicodeDecodeError:
        case["body_base64"] = b64(received)
    return {**case, "expect": expect}


def answers():
    hashes = lambda parts: hashlib.sha256("".join(parts).encode()).hexdigest()
    error = b'{"success":false,"error":{"code":"UNAUTHORIZED","message":"Signature mismatch"}}'
    unsigned = {header: None for header in SIGNED}
    yield answer("as in docs/signing.md")
    for status in (200, 202, 302, 400, 403, 404, 409, 422, 429, 500, 502, 504):
        yield answer(f"status {status}", status=status)
    yield answer("no body", status=200, body=b"")
    yield answer("204", status=204, body=b"")
    yield answer("bytes that are no text", status=200, body=bytes(range(256)))
    yield answer("text beyond ASCII", status=200, body='{"name":"Zo\u00eb \u82b1\u5b50"}'.encode())
    yield answer("line feeds in the body", status=200, body=b"a\r\nb\n")
    yield answer("names of headers in lower case", headers={
        **{header: None for header in SIGNED}, **{h.lower(): v for h, v in answer("")["headers"].items() if h in SIGNED}})
    yield answer("five minutes late", now=ANSWERED + 300)
    yield answer("five minutes early", now=ANSWERED - 300)

    yield answer("stale by a second", "altered", now=ANSWERED + 301)
    yield answer("stale by a day", "altered", now=ANSWERED + 86400)
    yield answer("from the future by a second too much", "altered", now=ANSWERED - 301)
    for name, received in (("another byte", CARD.replace(b"1", b"2")), ("cut", CARD[:-1]), ("longer", CARD + b"\n"), ("gone", b""),
                           ("another that is equal as JSON", b'{"cardId": "c1"}')):
        yield answer(f"the body is {name}", "altered", received=received)
    yield answer("a body where none was", "altered", status=200, body=b"", received=CARD)
    for received in (200, 202, 401, 500):
        yield answer(f"the status is {received}", "altered", received_status=received)
    yield answer("an error made a success", "altered", status=409, received_status=200)
    yield answer("the answer to another request", "altered", nonce="n-0002")
    yield answer("the nonce is a part of the right one", "altered", nonce=NONCE[:-1])
    yield answer("the secret of another key", "altered", secret="test_secret_0123456789abcdeg")
    yield answer("no secret", "altered", secret="")
    for header, value in (("X-Request-Id", "UFJ77MIPGN6U4YHNN2IFC3FSOT"), ("X-Response-Timestamp", str(NOW)),
                          ("X-Response-Body-Hash", EMPTY), ("X-Response-Signature", b64(bytes(32)))):
        yield answer(f"another {header}", "altered", headers={header: [value]})
        yield answer(f"no {header}", "altered", headers={header: None})
        yield answer(f"an empty {header}", "altered", headers={header: [""]})
        right = answer("")["headers"][header][0]
        yield answer(f"{header} twice", "altered", headers={header: [right, right]})
        yield answer(f"another {header} before the right one", "altered", headers={header: [value, right]})
        yield answer(f"another {header} after the right one", "altered", headers={header: [right, value]})
    yield answer("body and hash are others", "altered", received=b"{}", headers={"X-Response-Body-Hash": [body_hash(b"{}")]})
    digest = base64.b64decode(answer("")["headers"]["X-Response-Signature"][0])
    for name, value in (("without padding", b64(digest).rstrip("=")), ("in base64url", base64.urlsafe_b64encode(digest).decode()),
                        ("in hexadecimal", digest.hex()), ("with a byte more", b64(digest + b"x")), ("cut", b64(digest)[:-2] + "=="),
                        ("in lower case", b64(digest).lower())):
        yield answer(f"the signature is {name}", "altered", headers={"X-Response-Signature": [value]})
    for name, text in (
            ("without its first line", lambda parts: "\n".join(parts)),
            ("with the first line of another version", lambda parts: "\n".join(["card-gateway-response-v2", *parts])),
            ("with a line feed at the end", lambda parts: "\n".join(["card-gateway-response-v1", *parts, ""])),
            ("without line feeds", lambda parts: "".join(["card-gateway-response-v1", *parts])),
            ("as a request is signed", lambda parts: "\n".join(["POST", "/api/v1/cards", parts[2], parts[3], parts[4]])),
            ("as a hash without a secret", hashes)):
        yield answer(f"signed {name}", "altered", text=text)
    for value in ("yesterday", f"{ANSWERED / 1e9}e9", hex(ANSWERED), f"{ANSWERED}.0", "-1750000001", "99999999999999999999"):
        yield answer(f"signed at {value}", "altered", timestamp=value)
    yield answer("a hash in hexadecimal, signed", "altered", body_hash=hashlib.sha256(CARD).hexdigest())
    yield answer("a hash of another body, signed", "altered", body_hash=body_hash(b"{}"))

    yield answer("a refusal by the rules", "unsigned", status=401, body=error, headers=unsigned)
    yield answer("a success without a signature", "unsigned", status=200, headers=unsigned)
    yield answer("no header at all", "unsigned", status=503, body=b"", headers={**unsigned, "X-Request-Id": None})


def files():
    themes = {
        "string_to_sign": string_to_sign, "targets": targets, "methods": methods, "headers": headers, "keys": keys,
        "addresses": addresses, "timestamps": timestamps, "nonces": nonces, "bodies": bodies, "signatures": signatures, "scopes": scopes,
    }
    for name, theme in themes.items():
        description, requests = theme()
        names = [r["name"] for r in requests]
        assert len(set(names)) == len(names), [n for n in names if names.count(n) > 1]
        yield name, {"description": description, "requests": requests}
    yield "whitelists", {
        "description": "Lists of allowed addresses as they are given and shown, and lists that are refused.",
        "lists": [{"given": given, "shown": shown} for given, shown in WHITELISTS],
        "refused": BAD_WHITELISTS,
    }
    yield "combinations", combinations()
    cases = list(answers())
    assert len({case["name"] for case in cases}) == len(cases)
    yield "answers", {
        "description": "Answers to a request, for clients that verify them: signed, altered (the signature, the hash or the time is wrong), "
                       "unsigned.",
        "answers": cases,
    }
    yield "rfc4231", rfc4231()


def lines(content):
    """JSON with one case a line: the members of a list, and of the breaks."""
    write = lambda value: json.dumps(value, ensure_ascii=True)
    members = []
    for name, value in content.items():
        if isinstance(value, list):
            cases = [write(case) for case in value]
        elif name == "breaks":
            cases = [f"{write(rule)}: {write(change)}" for rule, change in value.items()]
        else:
            members.append(f"{write(name)}: {write(value)}")
            continue
        start, end = "[]" if isinstance(value, list) else "{}"
        members.append(f"{write(name)}: {start}\n" + ",\n".join(cases) + f"\n{end}")
    return "{\n" + ",\n".join(members) + "\n}\n"


def main():
    here = pathlib.Path(__file__).parent
    stale = []
    unknown = {path.name for path in here.glob("*.json")}
    for name, content in files():
        path = here / (name + ".json")
        unknown.discard(path.name)
        text = lines(content)
        if "--check" in sys.argv:
            if not path.exists() or path.read_text() != text:
                stale.append(path.name)
        else:
            path.write_text(text)
    stale += sorted(unknown)
    if stale:
        sys.exit("not what generate.py writes: " + ", ".join(stale))


if __name__ == "__main__":
    main()
