"""Verifies requests from standard input, one JSON document on each line, and prints
which claim of each is wrong. The tests of Card Gateway run it."""

import base64
import json
import sys

from assertion import Refused, Verifier

verifier = None
for text in sys.stdin:
    line = json.loads(text)
    if line.get("Keys"):
        verifier = Verifier(line["Keys"]["keys"], line["Audience"], line["Issuer"])
        continue
    try:
        claims = verifier.verify(line["Assertions"] or [], line["Method"], line["Target"], base64.b64decode(line["Body"] or ""), line["Now"])
    except Refused as err:
        print("refused", err.claim)
    else:
        print("accepted", claims["sub"], claims["tenant"])
