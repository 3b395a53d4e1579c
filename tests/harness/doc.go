// Package harness runs what the end-to-end tests need: the gateway, as the
// binary that users run, with a Caddyfile of the test's own; an issuer that
// records what reaches it byte for byte; Redis servers; and a client that signs
// by the published interface alone. What it starts ends with the test.
package harness
