// Package auth judges requests: [Judge] checks a request against its key by the
// verification rules of the published interface that need no shared state.
//
// A judgement depends on the request, the key and the time alone. The lock, the
// nonces and the rate limits need shared state. A store decides them; see
// package store.
//
// A server calls, in this order, [CheckMethod] and [ParseTarget] for the
// request line, [Table.Match] for the operation, [ParseCredentials] for the
// five headers and [Judge] for the verification rules.
//
// The package does no I/O, reads no clock and makes no random numbers, so
// every decision can be tested by its inputs alone. Package sign signs
// requests.
//
// The files, by the questions that they answer:
//
//   - target, target_bytes, hidden, fold: is a target malformed or ambiguous?
//   - operation, table, route, pattern: which operation is it?
//   - upstream_target: which target does the issuer get?
//   - headers, timestamp, nonce: which forms of the headers are valid, what is
//     inside the window, how long is a nonce remembered?
//   - canonical, secret: what is the string to sign, is a signature correct?
//   - judge: which rules does a request fail?
//   - rules: which of them comes first, and which counts towards the lock?
//   - reason, refusal: what are status, code and text of a refusal?
//   - key, scope, whitelist, chars: what may a key do, and from where?
package auth
