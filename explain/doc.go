// Package explain finds the mistake in a request that the gateway has refused:
// [Explain] returns findings from a closed set, each with a sentence and a
// remedy.
//
// It tries what signing clients get wrong: the form of a header, another string
// to sign, another reading of the secret, another form of the body. It runs for
// refusals only, and a finding never makes a request pass.
//
// The package does no I/O and reads no clock. It knows the secrets of a key;
// its findings hold none of them, no signature and no part of a body.
package explain
