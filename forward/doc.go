// Package forward sends one HTTP/1.1 request to one of several issuers, at
// most once, and returns the answer.
//
// It needs the standard library alone. It writes no log and counts nothing: an
// [Observer] receives what metrics need.
//
// # Sent at most once
//
// A request is written to one connection. It goes to another one only where no
// byte of it was written before: the connection could not be made, or it was
// found dead. Nothing is repeated after that, whatever the method is.
//
// # Connections
//
// Idle connections are kept per issuer and used newest first. Before a request
// is written the connection is read without waiting. It is closed when the
// issuer has closed it, and when the issuer has sent anything on it.
//
// An answer is read by the goroutine that sent the request. Only a body that
// may not fit into the buffers of the sockets, so that the issuer could answer
// before it has read all, has a second goroutine wait for the answer meanwhile.
//
// # Answers
//
// Answers are read by [net/http.ReadResponse], after a stricter check of the
// head: one status line and CRLF at the end of each line, a status of 100 to
// 599, one framing, no folded line, at most 64 KiB and 256 header lines.
// Informational answers (1xx), trailers and hop-by-hop headers are dropped. A
// connection is used again only after a complete answer with nothing behind it.
//
// # Errors
//
// Every error is an [*Error] with a [Kind] from a closed set and a text that
// this package wrote. No byte that an issuer sent is ever part of a text.
package forward
