package request

import (
	"encoding/base64"
	"encoding/json"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/card-gateway/card-gateway/tests/harness"
)

// vectorNow is the time that the clock shows in the vectors.
const vectorNow = 1750000000

const vectorSecret = "test_secret_0123456789abcdef"

// vector is one request of vectors/*.json. The README there describes its
// fields.
type vector struct {
	Name         string
	Method       string
	Target       string
	TargetBase64 []byte `json:"target_base64"`
	Headers      map[string][]string
	Body         string
	BodyBase64   []byte  `json:"body_base64"`
	ClientIP     *string `json:"client_ip"`
	Key          struct {
		Scopes     []string
		AllowedIPs []string `json:"allowed_ips"`
		Disabled   bool
		ExpiresAt  *time.Time `json:"expires_at"`
		Lock       *struct{ Until *time.Time }
		Secrets    []struct {
			Text      string
			ExpiresAt *time.Time `json:"expires_at"`
		}
	}
	State struct {
		Failures       int
		Nonces         []string
		OtherKeyNonces []string `json:"other_key_nonces"`
	}
	Unsendable bool
	Expect     struct {
		Reason         string
		Counts         bool
		Operation      string
		UpstreamTarget string `json:"upstream_target"`
	}
}

func readVectors(t *testing.T, name string) []vector {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("../vectors", name+".json"))
	if err != nil {
		t.Fatal(err)
	}
	var file struct{ Requests []vector }
	if err := json.Unmarshal(text, &file); err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	if len(file.Requests) == 0 {
		t.Fatalf("%s holds no requests", name)
	}
	return file.Requests
}

// beyondReach returns why a running gateway cannot get into the state of the
// vector. It is empty if it can. The tests of auth run the other vectors.
func (v *vector) beyondReach() string {
	switch secrets := v.Key.Secrets; {
	case v.Unsendable:
		return "HTTP/1.1 cannot carry it"
	case v.ClientIP != nil && *v.ClientIP == "":
		return "a connection has an address"
	case v.Key.Lock != nil && v.Key.Lock.Until != nil:
		return "a lock ends at a moment of its own"
	case len(secrets) > 1 || len(secrets) == 1 && secrets[0].ExpiresAt != nil:
		return "only a rotation makes a second secret"
	case len(secrets) == 1 && strings.Count(secrets[0].Text, secrets[0].Text[:1]) == len(secrets[0].Text):
		return "a secret that can be guessed is not imported"
	case slices.Contains(v.Key.Scopes, "cards:readx"):
		return "no operation has a scope that looks like a mistyped one, so no key holds it"
	default:
		return ""
	}
}

// secret returns the text of the key's secret.
func (v *vector) secret() string {
	if len(v.Key.Secrets) > 0 {
		return v.Key.Secrets[0].Text
	}
	return vectorSecret
}

func (v *vector) target() string {
	if v.TargetBase64 != nil {
		return string(v.TargetBase64)
	}
	return v.Target
}

func (v *vector) body() string {
	if v.BodyBase64 != nil {
		return string(v.BodyBase64)
	}
	return v.Body
}

// first returns the first value of a header, as bytes.
func (v *vector) first(name string) string {
	for n, values := range v.Headers {
		if strings.EqualFold(n, name) && len(values) > 0 {
			return wireBytes(values[0])
		}
	}
	return ""
}

// request returns the vector's request for the key id, with the current time.
// If it was signed as sent, it is signed again, in the same spelling.
func (v *vector) request(id string) *harness.Request {
	r := &harness.Request{Method: v.Method, Target: v.target(), Body: v.body()}
	old := &harness.Request{Method: v.Method, Target: v.target()}
	for _, name := range []string{"X-Timestamp", "X-Nonce", "X-Body-Hash"} {
		old.Set(name, v.first(name))
	}
	shift := v.shift()
	for name, values := range v.Headers {
		for _, value := range values {
			r.Add(name, shift(name, wireBytes(value), id))
		}
	}
	if spell := spellingOf(v.first("X-Signature"), old.Digest(v.secret())); spell != nil {
		v.signAnew(r, spell, shift)
	}
	if v.Body == "" && v.BodyBase64 == nil && v.Method == http.MethodPost {
		r.Set("Content-Length", "0")
	}
	return r.Add("X-Forwarded-For", v.client())
}

// signAnew replaces the vector's signature in the request, in its spelling.
func (v *vector) signAnew(r *harness.Request, spell func([]byte) string, shift func(name, value, id string) string) {
	signed := &harness.Request{Method: r.Method, Target: r.Target}
	for _, name := range []string{"X-Timestamp", "X-Nonce", "X-Body-Hash"} {
		signed.Set(name, shift(name, v.first(name), ""))
	}
	digest := signed.Digest(v.secret())
	for v.Expect.Reason == "signature_mismatch" && spell(digest) == base64.StdEncoding.EncodeToString(digest) {
		// Some digests are spelled alike in both ways; the next nonce has another.
		r.Set("X-Nonce", r.Value("X-Nonce")+"x")
		digest = signed.Set("X-Nonce", r.Value("X-Nonce")).Digest(v.secret())
	}
	for i, line := range r.Headers {
		name, given, _ := strings.Cut(line, ": ")
		if strings.EqualFold(strings.ReplaceAll(name, "_", "-"), "X-Signature") && given == v.first("X-Signature") {
			r.Headers[i] = name + ": " + spell(digest)
		}
	}
}

func (v *vector) client() string {
	if v.ClientIP != nil {
		return *v.ClientIP
	}
	return "203.0.113.7"
}

// shift returns the function that converts a header from the vector's clock and
// key to ours.
func (v *vector) shift() func(name, value, id string) string {
	now := time.Now()
	return func(name, value, id string) string {
		switch strings.ToLower(strings.ReplaceAll(name, "_", "-")) {
		case "x-timestamp":
			// Only what is within a day of the clock was meant as a time.
			n, err := strconv.ParseInt(value, 10, 64)
			if err != nil || n-vectorNow > 90000 || vectorNow-n > 90000 || len(value) != 10 {
				return value
			}
			return strconv.FormatInt(now.Unix()+n-vectorNow, 10)
		case "x-api-key":
			return strings.ReplaceAll(value, "ak_test_1", id)
		default:
			return value
		}
	}
}

// onEdge reports whether the answer depends on the exact second.
func (v *vector) onEdge() bool {
	n, err := strconv.ParseInt(v.first("X-Timestamp"), 10, 64)
	if err != nil {
		return false
	}
	off := max(n-vectorNow, vectorNow-n)
	return 298 <= off && off <= 302
}

// wireBytes returns the bytes of a header's value: one byte for each character
// if that is possible, otherwise UTF-8.
func wireBytes(s string) string {
	bytes := make([]byte, 0, len(s))
	for _, c := range s {
		if c > 0xff {
			return s
		}
		bytes = append(bytes, byte(c))
	}
	return string(bytes)
}
