// Package assertion makes the signed statement about one request that an issuer
// can verify by itself: a compact JWS (RFC 7515) with the claims of a JWT (RFC
// 7519). It binds the caller to the method, the target and the body of the
// request as it is forwarded. The package uses no clock and no random numbers.
//
// docs/upstream.md describes the claims for those who verify them.
package assertion
