# card_request.py METHOD URL [BODY]
import base64, hashlib, hmac, os, secrets, sys, time, urllib.error, urllib.request

def sign(method, target, body):
    """Returns the headers that authenticate a request; the body is bytes."""
    timestamp, nonce = str(int(time.time())), secrets.token_hex(16)
    body_hash = base64.b64encode(hashlib.sha256(body).digest()).decode()
    string_to_sign = "\n".join([method, target, timestamp, nonce, body_hash])
    mac = hmac.new(os.environ["CARD_SECRET"].encode(), string_to_sign.encode(), hashlib.sha256)
    return {
        "X-API-Key": os.environ["CARD_KEY_ID"], "X-Timestamp": timestamp, "X-Nonce": nonce,
        "X-Body-Hash": body_hash, "X-Signature": base64.b64encode(mac.digest()).decode(),
    }

class NoRedirect(urllib.request.HTTPRedirectHandler):
    """A signature is for one URL, and no other host may see its headers."""
    def redirect_request(self, *args):
        return None

method, url = sys.argv[1:3]
body = sys.argv[3].encode() if len(sys.argv) > 3 else None
request = urllib.request.Request(url, data=body, method=method, headers={"Content-Type": "application/json"})
for name, value in sign(method, request.selector, body or b"").items():
    request.add_header(name, value)
try:
    print(urllib.request.build_opener(NoRedirect).open(request).read().decode())
except urllib.error.HTTPError as refusal:
    sys.exit(f"{refusal.code} {refusal.read().decode()}")
