package request

import (
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/card-gateway/card-gateway/tests/harness"
)

// vectorNow is the time that the clock shows in the vectors.
const vectorNow = 1750000000

const vectorSecret = "test_secret_0123456789abcdef"

// vector is one request of vectors/*.json; the README there says what its
// fields mean.
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

// beyondReach says why a running gateway cannot be brought into the state of
// the vector, or nothing. The tests of auth run those vectors.
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

// request returns the vector's request for the key id, moved to this moment:
// what was signed as sent is signed anew, in the spelling that it had.
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

// shift returns what moves a header from the vector's clock and key to ours.
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

// onEdge reports whether the answer depends on the very second.
func (v *vector) onEdge() bool {
	n, err := strconv.ParseInt(v.first("X-Timestamp"), 10, 64)
	if err != nil {
		return false
	}
	off := max(n-vectorNow, vectorNow-n)
	return 298 <= off && off <= 302
}

// spellingOf says how the digest was written as a signature; nil: it was not.
func spellingOf(signature string, digest []byte) func([]byte) string {
	std, raw := base64.StdEncoding.EncodeToString, base64.RawStdEncoding.EncodeToString
	for _, spell := range []func([]byte) string{
		std, raw,
		base64.URLEncoding.EncodeToString,
		base64.RawURLEncoding.EncodeToString,
		hex.EncodeToString,
		func(d []byte) string { return strings.ToUpper(hex.EncodeToString(d)) },
		func(d []byte) string { return std([]byte(hex.EncodeToString(d))) },
		func(d []byte) string { return std(d) + "=" },
		func(d []byte) string { return strings.NewReplacer("/", "%2F", "=", "%3D").Replace(std(d)) },
		func(d []byte) string { return swapCase(std(d)) },
		func(d []byte) string { return `"` + std(d) + `"` },
		func(d []byte) string { return "HMAC-SHA256 " + std(d) },
		func(d []byte) string { return raw(d)[:42] + "=" },
		func(d []byte) string { return std(d)[1:] },
		func(d []byte) string { return "A" + std(d) },
		func(d []byte) string { return std(d) + " junk" },
		twin,
	} {
		if spell(digest) == signature {
			return spell
		}
	}
	return nil
}

// twin returns another text that a lenient decoder reads as the same bytes.
func twin(digest []byte) string {
	const alphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"
	text := []byte(base64.StdEncoding.EncodeToString(digest))
	text[42] = alphabet[strings.IndexByte(alphabet, text[42])+1]
	return string(text)
}

func swapCase(s string) string {
	return strings.Map(func(c rune) rune {
		switch {
		case 'a' <= c && c <= 'z', 'A' <= c && c <= 'Z':
			return c ^ 0x20
		default:
			return c
		}
	}, s)
}

// wireBytes returns the bytes of a header's value: one a character where that
// is possible, else UTF-8.
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

// wants checks the answer to a vector and what reached the upstream.
func (v *vector) wants(t *testing.T, answer *harness.Response, reached []*harness.Received) {
	t.Helper()
	if v.Expect.Reason == "accepted" {
		harness.WantAccepted(t, answer)
		target := v.Expect.UpstreamTarget
		if target == "" {
			target = v.target()
		}
		want := fmt.Sprintf("[%q]", v.Method+" "+target+" HTTP/1.1")
		if got := fmt.Sprintf("%q", harness.Lines(reached)); got != want {
			t.Errorf("the upstream received %s, want %s", got, want)
		} else if reached[0].Body != v.body() {
			t.Errorf("the upstream received the body %q, want %q", reached[0].Body, v.body())
		} else if got := reached[0].Value("X-Gateway-Operation"); v.Expect.Operation != "" && got != v.Expect.Operation {
			t.Errorf("the operation is %q, want %q", got, v.Expect.Operation)
		}
		return
	}
	if len(reached) > 0 {
		t.Errorf("the upstream received %q", harness.Lines(reached))
	}
	wantReason(t, answer, v.Expect.Reason, v.Method)
}

// wantReason checks the answer that stands for a reason of the closed set.
func wantReason(t *testing.T, answer *harness.Response, reason, method string) {
	t.Helper()
	face, found := faces[reason]
	if !found {
		t.Fatalf("no answer is known for %s", reason)
	}
	switch {
	case reason == "bad_target" && (answer.Status == http.StatusNotFound || answer.Status == http.StatusBadRequest):
		// of the gateway, of the HTTP server or of the site's catch-all
	case method == http.MethodHead:
		if answer.Status != face.status {
			t.Errorf("answer is %s, want %d", answer, face.status)
		}
	case face.status == http.StatusUnauthorized:
		harness.WantUnauthorized(t, answer, face.message)
	default:
		harness.WantRefused(t, answer, face.status, face.code)
	}
}

// faces are the published answers by reason.
var faces = map[string]struct {
	status        int
	code, message string
}{
	"bad_target":              {400, "BAD_REQUEST", ""},
	"method_not_allowed":      {405, "METHOD_NOT_ALLOWED", ""},
	"missing_headers":         {401, "UNAUTHORIZED", harness.MissingHeaders},
	"unknown_key":             {401, "UNAUTHORIZED", harness.UnknownKey},
	"key_disabled":            {401, "UNAUTHORIZED", harness.KeyDisabled},
	"key_expired":             {401, "UNAUTHORIZED", harness.KeyExpired},
	"key_locked":              {401, "UNAUTHORIZED", harness.KeyLocked},
	"ip_not_allowed":          {401, "UNAUTHORIZED", harness.IPNotAllowed},
	"timestamp_out_of_window": {401, "UNAUTHORIZED", harness.OutsideWindow},
	"replayed_nonce":          {401, "UNAUTHORIZED", harness.Replayed},
	"body_hash_mismatch":      {401, "UNAUTHORIZED", harness.BodyMismatch},
	"signature_mismatch":      {401, "UNAUTHORIZED", harness.WrongSignature},
	"scope_missing":           {403, "FORBIDDEN", ""},
	"rate_limited":            {429, "RATE_LIMITED", ""},
}
