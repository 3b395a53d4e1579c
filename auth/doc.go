// Package auth decides who sent a request, what it asks for and whether its
// sender may ask for that.
//
// It is pure: it does no I/O, reads no clock and keeps no state, so that every
// decision can be tested by its inputs alone. What only shared state can
// decide (the lock, the nonces, the rate limits) is the business of package
// store.
//
// A server calls, in this order, [CheckMethod] and [ParseTarget] for the
// request line, [ParseCredentials] for the five headers and [Judge] for the
// verification rules; [Table.Match] names the operation that is asked for.
//
// A client needs [Transport], or [Signer] where it sends requests in a way of
// its own. For that side the package imports the standard library and nothing
// more.
package auth
