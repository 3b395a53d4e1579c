package explain

import (
	"bytes"
	"encoding/base32"
	"encoding/base64"
	"encoding/hex"
)

// readings are the ways in which a client may misread the text of a secret. A
// function returns nil where the text cannot be read in its way.
var readings = []struct {
	kind Kind
	text func(secret []byte) []byte
}{
	{SecretBase64, decodeBase64(base64.RawStdEncoding)},
	{SecretBase64, decodeBase64(base64.RawURLEncoding)},
	{SecretBase32, decodeBase32},
	{SecretHex, decodeHex},
	{SecretLineFeed, func(secret []byte) []byte { return append(bytes.Clone(secret), '\n') }},
	{SecretLineFeed, func(secret []byte) []byte { return append(bytes.Clone(secret), '\r', '\n') }},
	{SecretQuotes, func(secret []byte) []byte { return append(append([]byte{'"'}, secret...), '"') }},
	{SecretQuotes, func(secret []byte) []byte { return append(append([]byte{'\''}, secret...), '\'') }},
	{SecretEmpty, func([]byte) []byte { return []byte{} }},
}

func decodeBase64(encoding *base64.Encoding) func([]byte) []byte {
	return func(secret []byte) []byte {
		raw, err := encoding.DecodeString(string(bytes.TrimRight(secret, "=")))
		if err != nil {
			return nil
		}
		return raw
	}
}

func decodeBase32(secret []byte) []byte {
	raw, err := base32.StdEncoding.WithPadding(base32.NoPadding).DecodeString(string(bytes.ToUpper(bytes.TrimRight(secret, "="))))
	if err != nil {
		return nil
	}
	return raw
}

func decodeHex(secret []byte) []byte {
	raw, err := hex.DecodeString(string(secret))
	if err != nil {
		return nil
	}
	return raw
}
