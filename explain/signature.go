package explain

import (
	"bytes"
	"crypto/hmac"
	"crypto/md5"  //nolint:gosec // to recognise it
	"crypto/sha1" //nolint:gosec // to recognise it
	"crypto/sha256"
	"crypto/sha512"
	"encoding/base32"
	"encoding/base64"
	"encoding/binary"
	"encoding/hex"
	"hash"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/card-gateway/card-gateway/auth"
)

// signature explains rule 10: the form of X-Signature, a retired secret,
// another string to sign, another reading of the secret.
func (e *explainer) signature() {
	sent := readForm(e.Credentials.Signature)
	right := e.StringToSign()
	f, found := e.retired(&sent, right)
	if v := e.signedVariant(&sent, right); v != nil && !found {
		f, found = v.Finding, true
	}
	for _, s := range e.liveSecrets() {
		if other, is := e.otherAlgorithm(s, right, &sent); is && !found {
			f, found = other, true
		}
		for _, reading := range slices.Concat(readings, placeholders, e.keyIDReading()) {
			misread := s.Read(reading.text)
			if misread != nil && signs(misread, right, &sent) && !found {
				f, found = Finding{reading.kind, reading.subject}, true
			}
		}
		if signs(s, right, &sent) {
			e.formOfRight(&sent, s, right)
			return
		}
	}
	if found && f.Kind == SignatureAlgorithm { // which explains the length
		sent.kinds = slices.DeleteFunc(sent.kinds, func(k Kind) bool { return k == FormLength })
	}
	e.addForm(&sent, "X-Signature")
	if !found && sent.raw != nil {
		f, found = Finding{Kind: SignatureUnexplained}, true
	}
	if found {
		e.found = append(e.found, f)
	}
}

// signedVariant returns the first of the variants that a live secret has
// signed; nil when none was. It tries all of them in any case.
func (e *explainer) signedVariant(sent *form, right string) *variant {
	var signed *variant
	live, all := e.liveSecrets(), e.variants(right)
	for i := range all {
		for _, s := range live {
			if signs(s, all[i].text, sent) && signed == nil {
				signed = &all[i]
			}
		}
	}
	return signed
}

// SignedInstead returns the string that was signed instead of the right one, if
// one of the usual mistakes explains the signature. It can hold a body.
func SignedInstead(c *Case) (text string, found bool) {
	if c.Key == nil {
		return "", false
	}
	sent := readForm(c.Credentials.Signature)
	if v := (&explainer{Case: c}).signedVariant(&sent, c.StringToSign()); v != nil {
		return v.text, true
	}
	return "", false
}

// formOfRight explains a signature that is wrong by its form alone.
func (e *explainer) formOfRight(sent *form, s *auth.Secret, text string) {
	if sum := digest(s, text); !sent.fits(sum) && sent.fitsInCase(sum) {
		e.add(FormCase, "X-Signature")
		return
	}
	e.addForm(sent, "X-Signature")
}

// maxLive is how many live secrets a key has at most.
const maxLive = 2

// standIn is tried in place of live secrets that a key does not have, so that the
// time does not show how many there are. A signature by it is never accepted.
var standIn = auth.NewSecret(0, "in place of a missing secret", time.Time{})

// liveSecrets returns the secrets that verify requests now, and stand-ins for
// those that are missing.
func (e *explainer) liveSecrets() []*auth.Secret {
	live := make([]*auth.Secret, 0, maxLive)
	for _, s := range e.Key.Secrets {
		if s.Live(e.Now) {
			live = append(live, s)
		}
	}
	for len(live) < maxLive {
		live = append(live, standIn)
	}
	return live
}

// retired finds out whether a secret that has ended signed the request.
func (e *explainer) retired(sent *form, text string) (f Finding, found bool) {
	for _, s := range slices.Concat(e.Key.Secrets, e.Key.Retired) {
		if signs(s, text, sent) && !s.Expires().IsZero() {
			f = Finding{SecretRetired, strconv.Itoa(s.Version()) + ", retired at " + s.Expires().UTC().Format(time.RFC3339)}
			found = true
		}
	}
	return f, found
}

// A reading is a way in which a client may misread the text of a secret. Its function
// returns nil where the text cannot be read in that way.
type reading struct {
	kind    Kind
	subject string
	text    func(secret []byte) []byte
}

// readings are the ways that depend on the secret alone.
var readings = []reading{
	{SecretBase64, "", func(secret []byte) []byte { return decoded(base64.RawStdEncoding.DecodeString(withoutPadding(secret))) }},
	{SecretBase64, "", func(secret []byte) []byte { return decoded(base64.RawURLEncoding.DecodeString(withoutPadding(secret))) }},
	{SecretBase32, "", func(secret []byte) []byte {
		return decoded(base32.StdEncoding.WithPadding(base32.NoPadding).DecodeString(strings.ToUpper(withoutPadding(secret))))
	}},
	{SecretHex, "", func(secret []byte) []byte { return decoded(hex.DecodeString(string(secret))) }},
	{SecretLineFeed, "", func(secret []byte) []byte { return append(bytes.Clone(secret), '\n') }},
	{SecretLineFeed, "", func(secret []byte) []byte { return append(bytes.Clone(secret), '\r', '\n') }},
	{SecretQuotes, "", func(secret []byte) []byte { return append(append([]byte{'"'}, secret...), '"') }},
	{SecretQuotes, "", func(secret []byte) []byte { return append(append([]byte{'\''}, secret...), '\'') }},
	{SecretBlank, "a blank", func(secret []byte) []byte { return append(bytes.Clone(secret), ' ') }},
	{SecretBlank, "a blank", func(secret []byte) []byte { return append([]byte{' '}, secret...) }},
	{SecretBlank, "a tab", func(secret []byte) []byte { return append(bytes.Clone(secret), '\t') }},
	{SecretBlank, "a tab", func(secret []byte) []byte { return append([]byte{'\t'}, secret...) }},
	{SecretBlank, "a carriage return", func(secret []byte) []byte { return append(bytes.Clone(secret), '\r') }},
	{SecretBlank, "a byte order mark", func(secret []byte) []byte { return append(bytes.Clone(byteOrderMark), secret...) }},
	{SecretEncoded, "base64", func(secret []byte) []byte { return []byte(base64.StdEncoding.EncodeToString(secret)) }},
	{SecretEncoded, "hexadecimal", func(secret []byte) []byte { return []byte(hex.EncodeToString(secret)) }},
	{SecretEncoded, "UTF-16", func(secret []byte) []byte { return []byte(utf16Text(string(secret), binary.LittleEndian)) }},
	{SecretEmpty, "", func([]byte) []byte { return []byte{} }},
}

// placeholders are texts that a program has in place of a secret that it did not get.
var placeholders = func() (all []reading) {
	for _, text := range []string{"undefined", "null", "None", "$CARD_SECRET", "${CARD_SECRET}", "{{CARD_SECRET}}", "%CARD_SECRET%", "{{secret}}"} {
		all = append(all, reading{SecretPlaceholder, text, func([]byte) []byte { return []byte(text) }})
	}
	return all
}()

// keyIDReading is the mistake of a client that uses the key id as its secret.
func (e *explainer) keyIDReading() []reading {
	return []reading{{SecretKeyID, "", func([]byte) []byte { return []byte(e.Credentials.KeyID) }}}
}

// otherAlgorithm finds out whether the signature was made of the right parts by another
// algorithm.
func (e *explainer) otherAlgorithm(s *auth.Secret, text string, sent *form) (f Finding, found bool) {
	fits := func(kind Kind, subject string, sum []byte) {
		if bytes.Equal(sent.bytes, sum) {
			f, found = Finding{kind, subject}, true
		}
	}
	s.Read(func(secret []byte) []byte {
		swapped := hmac.New(sha256.New, []byte(text))
		swapped.Write(secret)
		fits(SecretSwapped, "", swapped.Sum(nil))
		for _, whole := range []string{string(secret) + text, text + string(secret), string(secret) + "\n" + text} {
			sum := sha256.Sum256([]byte(whole))
			fits(SignatureHash, "", sum[:])
		}
		for name, algorithm := range map[string]func() hash.Hash{"SHA-1": sha1.New, "SHA-384": sha512.New384, "SHA-512": sha512.New, "MD5": md5.New} {
			mac := hmac.New(algorithm, secret)
			mac.Write([]byte(text))
			fits(SignatureAlgorithm, name, mac.Sum(nil))
		}
		return nil
	})
	return f, found
}

func withoutPadding(secret []byte) string { return strings.TrimRight(string(secret), "=") }

// decoded returns nil for a text that could not be decoded.
func decoded(raw []byte, err error) []byte {
	if err != nil {
		return nil
	}
	return raw
}
