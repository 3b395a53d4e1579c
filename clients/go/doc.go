// Package cardclient calls the card API through Card Gateway: it signs each
// request, repeats what may be repeated, and returns refusals as typed errors.
//
// [Client] is the whole of it. [Transport] is the same for programs that have
// an http.Client already, and [Signer] signs one request at a time. The
// package uses the standard library alone and builds with Go 1.16.
package cardclient

// Version is the version of this package.
const Version = "0.2.0"
