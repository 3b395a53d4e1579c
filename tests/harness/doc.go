// Package harness runs the programs for the end-to-end tests: the gateway, as the
// binary that users run, with a Caddyfile of the test; an issuer that records the
// bytes of each request; Redis servers; and a client that signs by the published
// interface alone. Everything that it starts ends with the test.
package harness
