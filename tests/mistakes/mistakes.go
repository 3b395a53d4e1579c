// Package mistakes has the mistakes that integrators make in signing: one table, with
// what an answer to a test key and card-explain have to say about each. The tests of
// package explain and of a running gateway use it.
//
// table.go is the table; this file has what its rows are made with.
package mistakes

import (
	"bytes"
	"compress/gzip"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"hash"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/card-gateway/card-gateway/tests/harness"
)

// A Mistake is a request that an integrator has made wrong.
type Mistake struct {
	Name string
	// Answer has the names of all findings in the answer to a test key, or the headers
	// that rule 1 names, sorted, with a blank between them. "" is an answer that says no
	// more than the published message.
	Answer string
	// Offline has the same of card-explain, which knows the request and the secret; it is
	// the text Same where that is equal.
	Offline string
	Make    func(harness.Credentials) *harness.Request
	// Fragment is what follows # in the URL of the client, which sends nothing of it.
	Fragment string
}

// Same is in the place of findings that are those of the answer.
const Same = "same"

// CardExplain returns what card-explain has to find.
func (m *Mistake) CardExplain() string {
	if m.Offline == Same {
		return m.Answer
	}
	return m.Offline
}

// Named reports whether the findings name a mistake. Those that say only that
// something differs do not.
func Named(findings string) bool {
	return strings.Trim(findings, " ") != "" && !slices.Contains([]string{"signature_unexplained", "body_changed", "body_differs"}, findings)
}

// A maker makes the request.
type maker = func(harness.Credentials) *harness.Request

const (
	target = "/api/v1/transactions?to=b&from=a%20b"
	body   = `{"name": "Zoë","n":[1, 2]}`
)

func b64(raw []byte) string { return base64.StdEncoding.EncodeToString(raw) }

func sum(text string) []byte { return digest(sha256.New, text) }

func digest(algorithm func() hash.Hash, text string) []byte {
	h := algorithm()
	h.Write([]byte(text))
	return h.Sum(nil)
}

// mac returns the HMAC of a text by an algorithm.
func mac(algorithm func() hash.Hash, secret, text string) []byte {
	m := hmac.New(algorithm, []byte(secret))
	m.Write([]byte(text))
	return m.Sum(nil)
}

// parts returns the five parts of the string to sign of a request.
func parts(r *harness.Request) []string {
	return []string{r.Method, r.Target, r.Value("X-Timestamp"), r.Value("X-Nonce"), r.Value("X-Body-Hash")}
}

func joined(p []string) string { return strings.Join(p, "\n") }

// changing changes a right request after it was signed.
func changing(change func(*harness.Request)) maker {
	return func(c harness.Credentials) *harness.Request {
		r := c.Post()
		change(r)
		return r
	}
}

// claiming sends another key id.
func claiming(id func(string) string) maker {
	return func(c harness.Credentials) *harness.Request { return c.Get().Set("X-API-Key", id(c.ID)) }
}

// stating signs and sends a header of another form.
func stating(header string, value func() string) maker {
	return func(c harness.Credentials) *harness.Request { return c.Get().Set(header, value()).Sign(c.Secret) }
}

// after sends a timestamp that is so far from the clock.
func after(off time.Duration) maker {
	return stating("X-Timestamp", func() string { return strconv.FormatInt(time.Now().Add(off).Unix(), 10) })
}

// signing signs another string than the right one.
func signing(text func(p []string) string) maker {
	return func(c harness.Credentials) *harness.Request {
		r := c.Request("GET", target, "")
		return r.Set("X-Signature", b64(mac(sha256.New, c.Secret, text(parts(r)))))
	}
}

// signingPart signs another part than is sent.
func signingPart(at int, change func(string) string) maker {
	return signing(func(p []string) string {
		p[at] = change(p[at])
		return joined(p)
	})
}

// signingTarget signs another target than is sent.
func signingTarget(sent, signed string) maker {
	return func(c harness.Credentials) *harness.Request {
		r := c.Request("GET", signed, "")
		r.Target = sent
		return r
	}
}

// signingBy makes the signature by another algorithm.
func signingBy(digest func(secret, text string) []byte) maker {
	return func(c harness.Credentials) *harness.Request {
		r := c.Post()
		return r.Set("X-Signature", b64(digest(c.Secret, joined(parts(r)))))
	}
}

// signingWith signs with another secret.
func signingWith(secret func(c harness.Credentials) string) maker {
	return func(c harness.Credentials) *harness.Request { return c.Post().Sign(secret(c)) }
}

// reading signs with the secret as a client has misread it.
func reading(secret func(string) string) maker {
	return signingWith(func(c harness.Credentials) string { return secret(c.Secret) })
}

// writing writes the right signature in another form.
func writing(form func(sum []byte) string) maker { return writingOne("", form) }

// writingOne writes a signature that has one of the characters within it.
func writingOne(characters string, form func(sum []byte) string) maker {
	return func(c harness.Credentials) *harness.Request {
		r := c.Post()
		for characters != "" && !strings.ContainsAny(r.Value("X-Signature")[1:], characters) {
			r = c.Post()
		}
		return r.Set("X-Signature", form(r.Digest(c.Secret)))
	}
}

// hashing sends a body with another X-Body-Hash, which is signed.
func hashing(value func(body string) string) maker {
	return func(c harness.Credentials) *harness.Request {
		return c.Request("POST", "/api/v1/cards", body).Set("X-Body-Hash", value(body)).Sign(c.Secret)
	}
}

// sending signs one body and sends another.
func sending(signed, sent string) maker {
	return func(c harness.Credentials) *harness.Request {
		r := c.Request("POST", "/api/v1/cards", signed)
		r.Body = sent
		return r
	}
}

func gzipped(text string) string {
	var b bytes.Buffer
	w := gzip.NewWriter(&b)
	_, _ = w.Write([]byte(text))
	_ = w.Close()
	return b.String()
}

func utf16(text string, order int) string {
	var b []byte
	for _, c := range []byte(text) { // ASCII
		b = append(b, [][]byte{{c, 0}, {0, c}}[order]...)
	}
	return string(b)
}

func hexOf(text string) string { return hex.EncodeToString([]byte(text)) }
