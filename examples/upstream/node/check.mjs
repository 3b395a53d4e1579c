// Verifies requests from standard input, one JSON document on each line, and
// prints which claim of each is wrong. The tests of Card Gateway run it.
import { createInterface } from 'node:readline'
import { Refused, Verifier } from './assertion.mjs'

let verifier
for await (const text of createInterface({ input: process.stdin })) {
  const line = JSON.parse(text)
  if (line.Keys) {
    verifier = new Verifier({ keys: line.Keys.keys, audience: line.Audience, issuer: line.Issuer })
    continue
  }
  const request = { assertions: line.Assertions, method: line.Method, target: line.Target, body: Buffer.from(line.Body ?? '', 'base64'), now: line.Now }
  try {
    const claims = await verifier.verify(request)
    console.log('accepted', claims.sub, claims.tenant)
  } catch (err) {
    if (!(err instanceof Refused)) throw err
    console.log('refused', err.claim)
  }
}
