// Package auth decides who sent a request, what it asks for and whether its
// sender may ask for that.
//
// [Judge] decides the verification rules of the published interface that need
// no shared state, from the request, the key and the time alone. The lock, the
// nonces and the rate limits are decided by a store; see package store.
//
// A server calls, in this order, [CheckMethod] and [ParseTarget] for the
// request line, [ParseCredentials] for the five headers and [Judge] for the
// verification rules. [Table.Match] finds the operation that is asked for.
//
// The package does no I/O, reads no clock and makes no random numbers, so
// every decision can be tested by its inputs alone. What signs requests is
// package sign.
package auth
