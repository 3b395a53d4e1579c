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
package auth
