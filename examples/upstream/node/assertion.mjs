// How a service behind Card Gateway verifies the header X-Gateway-Assertion, with
// the library jose. Copy it; docs/upstream.md explains it.
import { createHash } from 'node:crypto'
import { decodeProtectedHeader, errors, importJWK, jwtVerify } from 'jose'

// How far the clocks of gateway and service may differ, in seconds.
const tolerance = 5

// Refused names the claim, or the part of the assertion, that is wrong: form, kid,
// alg, signature, or the name of a claim.
export class Refused extends Error {
  constructor(claim, why) {
    super(`assertion refused: ${claim}: ${why}`)
    this.claim = claim
  }
}

// A Verifier accepts each assertion once. Its keys are those of card_jwks; a secret
// key of HS256 is a JWK of the type oct.
export class Verifier {
  #used = new Map() // exp by jti, of assertions that could be used again
  #swept = 0 // when those that have expired were forgotten

  constructor({ keys, audience, issuer = 'card-gateway' }) {
    Object.assign(this, { keys, audience, issuer })
  }

  // verify returns the claims of the assertion of a request. `assertions` are all
  // values of the header (req.headersDistinct), `target` is req.url, and `body` is
  // a Buffer of the bytes that arrived.
  async verify({ assertions, method, target, body, now = Date.now() / 1000 }) {
    if (assertions?.length !== 1) throw new Refused('form', `${assertions?.length ?? 0} assertions`)
    let header
    try {
      header = decodeProtectedHeader(assertions[0])
    } catch (err) {
      throw new Refused('form', err.message)
    }
    const jwk = this.keys.find((key) => header.kid && key.kid === header.kid)
    if (!jwk) throw new Refused('kid', 'no key is named so; is the key set new?')
    if (header.alg !== jwk.alg) throw new Refused('alg', `the key is for ${jwk.alg}`)

    let claims
    try {
      const { payload } = await jwtVerify(assertions[0], await importJWK(jwk, jwk.alg), {
        algorithms: [jwk.alg],
        issuer: this.issuer,
        audience: this.audience,
        requiredClaims: ['iat', 'exp', 'jti', 'sub', 'htm', 'htu', 'digest'],
        clockTolerance: tolerance,
        currentDate: new Date(now * 1000),
      })
      claims = payload
    } catch (err) {
      if (err instanceof errors.JWTExpired || err instanceof errors.JWTClaimValidationFailed) throw new Refused(err.claim, err.message)
      if (err instanceof errors.JWSSignatureVerificationFailed) throw new Refused('signature', err.message)
      throw new Refused('form', err.message)
    }

    const digest = createHash('sha256').update(body).digest('base64')
    for (const [name, want] of Object.entries({ htm: method, htu: target, digest })) {
      if (claims[name] !== want) throw new Refused(name, `is ${JSON.stringify(claims[name])}, and ${JSON.stringify(want)} was expected`)
    }
    if (claims.iat > now + tolerance) throw new Refused('iat', 'the assertion is of the future; are the clocks right?')
    this.#useOnce(claims, now)
    return claims
  }

  // A service of several processes keeps what was used in a store that they share.
  #useOnce({ jti, exp }, now) {
    if (now >= this.#swept + 1) {
      this.#swept = now
      for (const [id, expires] of this.#used) if (expires + tolerance < now) this.#used.delete(id)
    }
    if (this.#used.has(jti)) throw new Refused('jti', 'was used before')
    this.#used.set(jti, exp)
  }
}
