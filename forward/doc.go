// Package forward sends one HTTP/1.1 request to one of several issuers, at
// most once, and returns the answer.
//
// It imports only the standard library. It writes no log and counts nothing: an
// [Observer] receives the data for metrics.
//
// # Sent at most once
//
// A request is written to one connection. It goes to another one only if no byte
// of it was written before, because the connection could not be made or was found
// closed. After that no request is repeated, with any method.
//
// # Connections
//
// Idle connections are kept per issuer and used newest first. Before a request
// is written the connection is read without waiting. It is closed when the
// issuer has closed it, and when the issuer has sent anything on it.
//
// The goroutine that sent the request reads the answer. If a body may not fit
// into the buffers of the sockets, the issuer could answer before it has read
// all. Only then a second goroutine reads the head of the answer meanwhile. The
// final answer ends the sending, an informational one (1xx) does not.
//
// # Answers
//
// The head of an answer is checked strictly: one status line and CRLF at the end
// of each line, a status of 100 to 599, one framing, no folded line, at most 64
// KiB and 256 header lines. If the whole body has arrived with the head, the
// body's length is all that is left to apply. Every other body is read by
// [net/http.ReadResponse]. What the package accepts, it reads as net/http's
// client does. Informational answers (1xx), trailers and hop-by-hop headers are dropped. A
// connection is used again only after a complete answer with no bytes after it.
//
// # Errors
//
// Every error is an [*Error] with a [Kind] from a closed set and a text that
// this package wrote. No byte that an issuer sent is ever part of a text.
//
// # Files
//
//   - forward: which issuer gets a request, and when is one out?
//   - issuer, now_*: which idle connection is used again?
//   - exchange, request: is a request sent, and when to another connection?
//   - head, answer: what is a valid answer, and is its connection kept?
//   - error, options: errors, options and TLS
//
// Begin with [Forwarder.Do].
package forward
