"""Runs the cases of tests/clients/matrix through card-request: one JSON object
a line on standard input, one answer a line on standard output."""

import base64
import json
import os
import re
import socket
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime


def call(c, *options):
    body = base64.b64decode(c["body"])
    arguments = ["card-request", *options]
    for name, value in (c.get("headers") or {}).items():
        arguments += ["-H", f"{name}: {value}"]
    for name, value in c.get("query") or []:
        arguments += ["-q", f"{name}={value}"]
    if c.get("kind") == "form":
        with open("Zoë.pdf", "wb") as file:
            file.write(body)
        arguments += ["-F", "type=passport", "-F", "file=@Zoë.pdf"]
    elif c["has_body"]:
        arguments += ["-d", "@-"]
    environment = {
        **os.environ, "CARD_KEY_ID": c["key_id"], "CARD_SECRET": c["secret"], "CARD_URL": c.get("base", "http://vectors.example"),
        "CARD_REQUEST_AHEAD": str(c["clock"]), "CARD_VERIFY_ANSWERS": "1" if c["verify_answers"] else "0",
    }
    target = c.get("target", "")
    if c["attempts"]:
        environment["CARD_ATTEMPTS"] = str(c["attempts"])
    if c["do"] in ("request", "close") and "nonce" in c:
        arguments += ["--close" if c["do"] == "close" else "-c", f"{c['nonce']}:{c['timestamp']}"]
    elif "timestamp" in c:
        environment.update(CARD_REQUEST_TIMESTAMP=c["timestamp"], CARD_REQUEST_NONCE=c.get("nonce", ""))
    base = environment["CARD_URL"] if target.startswith(("/", "http")) else ""
    if c["do"] != "close":
        arguments += [c["method"], base + target]
    return subprocess.run(arguments, input=body, env=environment, capture_output=True, check=False)


def verify(c):
    """Lets a server answer what shall be verified."""
    body, headers = base64.b64decode(c["body"]), "".join(f"{name}: {value}\r\n" for name, values in c["answer"].items() for value in values)
    with socket.create_server(("127.0.0.1", 0)) as server, ThreadPoolExecutor(1) as pool:
        def answer():
            connection, _ = server.accept()
            with connection:
                while b"\r\n\r\n" not in connection.recv(65536):
                    pass
                length = "" if c["status"] == 204 else f"Content-Length: {len(body)}\r\n"
                connection.sendall(f"HTTP/1.1 {c['status']} Whatever\r\n{headers}{length}Connection: close\r\n\r\n".encode() + body)
        answered = pool.submit(answer)
        done = call({
            **c, "base": "http://127.0.0.1:%d" % server.getsockname()[1], "target": "/api/v1/orders", "method": "GET", "body": "", "has_body": False,
            "timestamp": str(c["now"]), "verify_answers": True, "attempts": 1,
        })
        answered.result()
    # The answer is proven, whatever its status is.
    return {"verified": True} if done.returncode in (0, 22) else {"error": describe(c, done)}


def run(c):
    if c["do"] == "hello":
        version = subprocess.run(["card-request", "--version"], capture_output=True, text=True, check=True).stdout.split()[1]
        return {"adapters": {"command": True}, "version": version}
    if c["do"] == "trusts":
        text = open(which("card-request"), encoding="utf-8").read()
        function = re.search(r"^trusts_date\(\) \{.*?^\}$", text, re.M | re.S)[0]
        return {"trusted": subprocess.run(["bash", "-c", function + '\ntrusts_date "$1"', "-", c["base"]], check=False).returncode == 0}
    if c["do"] == "sign":
        c["has_body"] = True
        if "\0" in c.get("target", ""):
            return {"error": {"type": "unsignable", "message": "an argument cannot hold it"}}
        done = call(c, "-n")
        if done.returncode:
            return {"error": describe(c, done)}
        headers = dict(line.split(": ", 1) for line in done.stdout.decode().splitlines())
        return {"signature": headers["X-Signature"], "body_hash": headers["X-Body-Hash"]}
    if c["do"] == "verify":
        return verify(c)
    if c["do"] == "parallel":
        with ThreadPoolExecutor(8) as pool:
            return {"statuses": [200 if done.returncode == 0 else 0 for done in pool.map(lambda _: call(c), range(c["count"]))]}
    if c["do"] == "close":
        done = call(c)
        return {"error": describe(c, done)} if done.returncode else {"closed": True}
    done = call(c, "-i")
    head, _, body = done.stdout.partition(b"\n\n")
    if done.returncode:
        return {"error": describe(c, done)}
    return {"status": int(head.split()[1]), "body": base64.b64encode(body).decode()}


def describe(c, done):
    said = done.stderr.decode()
    if done.returncode == 2:
        return {"type": "unsignable", "message": said}
    if done.returncode in (10, 11):
        nonce, timestamp = re.search(r"the call (\S+):(\d+) was", said).groups()
        named = {"nonce": nonce, "timestamp": int(timestamp), "message": said}
        if done.returncode == 10:
            return {"type": "taken", **named}
        until, attempts = re.search(r"may be until (\S+); .* after (\d+) attempts", said).groups()
        return {"type": "unknown", "attempts": int(attempts), "until": int(datetime.fromisoformat(until[:-1] + "+00:00").timestamp()), **named}
    if done.returncode == 3:
        status = re.search(r"the answer (\d+) is not proven", said)[1]
        return {"type": "unproven", "status": int(status), "unsigned": "it is not signed" in said, "message": said}
    if done.returncode != 22:
        return {"type": "connection", "sent": done.returncode not in (5, 6, 7, 35), "attempts": int(re.search(r"after (\d+) attempts", said)[1])}
    status, request_id = re.search(r"HTTP (\d+), request id (\S*)", said).groups()
    if "is not followed" in said:
        return {"type": "redirect", "status": int(status)}
    head, _, body = done.stdout.decode(errors="replace").partition("\n\n")
    try:
        document = json.loads(body)
        fields = document.get("error", document)
        fields = fields if isinstance(fields, dict) else {}
    except (ValueError, AttributeError):
        fields = {}
    wait = re.search(r"(?im)^retry-after: (\d+)$", head)
    return {"type": "api", "status": int(status), "code": fields.get("code", ""), "message": str(fields.get("message", said)),
            "not_executed": "certainly not executed" in said, "details": fields.get("details"), "request_id": request_id, "retry_after": int(wait[1]) if wait else 0}


def which(name):
    return next(path for path in (os.path.join(d, name) for d in os.environ["PATH"].split(":")) if os.path.exists(path))


os.chdir(os.path.dirname(which("card-request")))
for line in sys.stdin:
    print(json.dumps(run(json.loads(line))), flush=True)
