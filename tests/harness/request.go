package harness

import (
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"io"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// This file is the client side of the tests. It signs by the published
// interface alone and shares no code with the gateway.

// Request is one request as it goes over the wire.
type Request struct {
	Method, Target string
	Headers        []string // lines; the five authentication headers are among them
	Body           string
	Source         string // local address to send from; empty: any
}

// Request returns a request that is signed as sent, with the current time.
func (c Credentials) Request(method, target, body string) *Request {
	return c.RequestAt(time.Now(), method, target, body)
}

// RequestAt returns a request that is signed with the given time.
func (c Credentials) RequestAt(at time.Time, method, target, body string) *Request {
	r := &Request{Method: method, Target: target, Body: body}
	r.Set("X-API-Key", c.ID)
	r.Set("X-Timestamp", strconv.FormatInt(at.Unix(), 10))
	r.Set("X-Nonce", rand.Text())
	r.Set("X-Body-Hash", BodyHash(body))
	return r.Sign(c.Secret)
}

// Get returns a signed request for a card.
func (c Credentials) Get() *Request { return c.Request(http.MethodGet, "/api/v1/cards/c1", "") }

// Post returns a signed request with a body.
func (c Credentials) Post() *Request {
	return c.Request(http.MethodPost, "/api/v1/cards", `{"productId":"p1"}`)
}

// JSON is Request with the Content-Type that translated operations require.
func (c Credentials) JSON(method, target, body string) *Request {
	return c.Request(method, target, body).Set("Content-Type", "application/json")
}

// Forged returns requests with a wrong signature.
func (c Credentials) Forged(n int) []*Request {
	all := make([]*Request, n)
	for i := range all {
		all[i] = c.Get().Forge()
	}
	return all
}

// Sign signs the request with its current headers.
func (r *Request) Sign(secret string) *Request {
	return r.Set("X-Signature", base64.StdEncoding.EncodeToString(r.Digest(secret)))
}

// Digest returns the HMAC for the current headers of the request.
func (r *Request) Digest(secret string) []byte {
	mac := hmac.New(sha256.New, []byte(secret))
	io.WriteString(mac, strings.Join([]string{
		r.Method, r.Target, r.Value("X-Timestamp"), r.Value("X-Nonce"), r.Value("X-Body-Hash"),
	}, "\n"))
	return mac.Sum(nil)
}

// BodyHash returns the value of X-Body-Hash for a body.
func BodyHash(body string) string {
	sum := sha256.Sum256([]byte(body))
	return base64.StdEncoding.EncodeToString(sum[:])
}

func named(line, name string) bool {
	n, _, _ := strings.Cut(line, ":")
	return strings.EqualFold(n, name)
}

// Drop removes a header.
func (r *Request) Drop(name string) *Request {
	var kept []string
	for _, line := range r.Headers {
		if !named(line, name) {
			kept = append(kept, line)
		}
	}
	r.Headers = kept
	return r
}

// Set sets a header to one value.
func (r *Request) Set(name, value string) *Request { return r.Drop(name).Add(name, value) }

// Add adds a line to the headers.
func (r *Request) Add(name, value string) *Request {
	r.Headers = append(r.Headers, name+": "+value)
	return r
}

// Value returns the first value of a header.
func (r *Request) Value(name string) string {
	for _, line := range r.Headers {
		if named(line, name) {
			_, value, _ := strings.Cut(line, ":")
			return strings.TrimSpace(value)
		}
	}
	return ""
}

// Forge gives the request a wrong signature in the correct form.
func (r *Request) Forge() *Request {
	return r.Set("X-Signature", base64.StdEncoding.EncodeToString(make([]byte, sha256.Size)))
}

// From sends the request from another address of this machine.
func (r *Request) From(source string) *Request {
	r.Source = source
	return r
}

// Head returns the request line and the headers, framing included.
func (r *Request) Head() string {
	all := append([]string{r.Method + " " + r.Target + " HTTP/1.1"}, r.Headers...)
	if r.Value("Host") == "" {
		all = append(all, "Host: gw.example")
	}
	if r.Value("Content-Length") == "" && r.Value("Transfer-Encoding") == "" && r.Body != "" {
		all = append(all, "Content-Length: "+strconv.Itoa(len(r.Body)))
	}
	return strings.Join(all, "\r\n") + "\r\n\r\n"
}

// Raw returns the bytes of the request, so that a test can change some.
func (r *Request) Raw() string { return r.Head() + r.Body }
