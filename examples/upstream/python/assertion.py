"""How a service behind Card Gateway verifies the header X-Gateway-Assertion, with
PyJWT. Copy it; docs/upstream.md explains it."""

import base64
import hashlib
import threading
import time

import jwt

# How far the clocks of gateway and service may differ, in seconds.
TOLERANCE = 5


class Refused(Exception):
    """Names the claim, or the part of the assertion, that is wrong: form, kid, alg,
    signature, or the name of a claim."""

    def __init__(self, claim, why):
        super().__init__(f"assertion refused: {claim}: {why}")
        self.claim = claim


class Verifier:
    """Accepts each assertion once. The keys are those of card_jwks; a secret key of
    HS256 is a JWK of the type oct."""

    def __init__(self, keys, audience, issuer="card-gateway"):
        self.keys = {key["kid"]: jwt.PyJWK(key, key["alg"]) for key in keys}
        self.algorithms = {key["kid"]: key["alg"] for key in keys}
        self.expected = {"iss": issuer, "aud": audience}
        self.used = {}  # exp by jti, of assertions that could be used again
        self.swept = 0  # when those that have expired were forgotten
        self.lock = threading.Lock()

    def verify(self, assertions, method, target, body, now=None):
        """Returns the claims of the assertion of a request. assertions are all values
        of the header, target is as in the request line, and body is the bytes that
        arrived."""
        now = time.time() if now is None else now
        if len(assertions) != 1:
            raise Refused("form", f"{len(assertions)} assertions")
        claims = self._signed(assertions[0])
        digest = base64.b64encode(hashlib.sha256(body).digest()).decode()
        for name, want in {**self.expected, "htm": method, "htu": target, "digest": digest}.items():
            if claims.get(name) != want:
                raise Refused(name, f"is {claims.get(name)!r}, and {want!r} was expected")
        for name, is_right in {"exp": lambda at: at + TOLERANCE >= now, "iat": lambda at: at <= now + TOLERANCE}.items():
            if not isinstance(claims.get(name), int) or not is_right(claims[name]):
                raise Refused(name, f"is {claims.get(name)!r} at {int(now)}; are the clocks right?")
        if not isinstance(claims.get("jti"), str) or not claims["jti"]:
            raise Refused("jti", "is missing")
        self._use_once(claims, now)
        return claims

    def _signed(self, assertion):
        try:
            header = jwt.get_unverified_header(assertion)
        except jwt.InvalidTokenError as err:
            raise Refused("form", err) from err
        kid = header.get("kid")
        if kid not in self.keys:
            raise Refused("kid", "no key is named so; is the key set new?")
        if header.get("alg") != self.algorithms[kid]:
            raise Refused("alg", f"the key is for {self.algorithms[kid]}")
        if "crit" in header or header.get("b64") is False:
            raise Refused("form", "an extension that is not known")
        try:
            # The claims are checked by the caller, which names the one that is wrong.
            return jwt.decode(
                assertion, self.keys[kid].key, algorithms=[self.algorithms[kid]],
                options={"verify_exp": False, "verify_iat": False, "verify_nbf": False, "verify_aud": False, "verify_iss": False},
            )
        except jwt.InvalidSignatureError as err:
            raise Refused("signature", err) from err
        except jwt.InvalidTokenError as err:
            raise Refused("form", err) from err

    def _use_once(self, claims, now):
        """A service of several processes keeps what was used in a store that they share."""
        with self.lock:
            if now >= self.swept + 1:
                self.used = {jti: exp for jti, exp in self.used.items() if exp + TOLERANCE >= now}
                self.swept = now
            if claims["jti"] in self.used:
                raise Refused("jti", "was used before")
            self.used[claims["jti"]] = claims["exp"]
