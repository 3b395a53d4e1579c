package sign_test

import (
	"bytes"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/card-gateway/card-gateway/sign"
)

// The fixture of the vectors; their README describes it.
const (
	signerID     = "ak_test_1"
	signerSecret = "test_secret_0123456789abcdef"
)

var signerNow = time.Unix(1750000000, 0)

func testSigner() sign.Signer {
	return sign.Signer{
		KeyID: signerID, Secret: signerSecret,
		Now:   func() time.Time { return signerNow },
		Nonce: func() string { return "n-0001" },
	}
}

// TestSignerMatchesVectors signs the requests of those vectors that are signed
// as sent, and compares the signatures with those of the vectors.
func TestSignerMatchesVectors(t *testing.T) {
	var content struct {
		Requests []struct {
			Name, Method, Target string
			Headers              map[string][]string
			Body                 string
			BodyBase64           []byte `json:"body_base64"`
			Expect               struct{ Reason string }
		}
	}
	text, err := os.ReadFile("../tests/vectors/string_to_sign.json")
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(text, &content); err != nil {
		t.Fatal(err)
	}
	signed := 0
	for _, v := range content.Requests {
		if v.Expect.Reason != "accepted" {
			continue
		}
		r, err := http.NewRequest(v.Method, "http://gw.example"+v.Target, nil)
		if err != nil {
			t.Errorf("%s: %v", v.Name, err)
			continue
		}
		body := v.BodyBase64
		if body == nil {
			body = []byte(v.Body)
		}
		signer := testSigner()
		if err := signer.Sign(r, body); err != nil {
			t.Errorf("%s: %v", v.Name, err)
			continue
		}
		for name, want := range v.Headers {
			if got := r.Header.Values(name); !slices.Equal(got, want) {
				t.Errorf("%s: %s is %q, want %q", v.Name, name, got, want)
			}
		}
		signed++
	}
	if signed < 30 {
		t.Errorf("only %d requests were signed", signed)
	}
}

func TestSignRefusesWhatTheGatewayWould(t *testing.T) {
	tests := []struct {
		name   string
		change func(*sign.Signer, *http.Request)
		want   string
	}{
		{"no id", func(s *sign.Signer, _ *http.Request) { s.KeyID = "" }, "key id and a secret"},
		{"no secret", func(s *sign.Signer, _ *http.Request) { s.Secret = "" }, "key id and a secret"},
		{"method", func(_ *sign.Signer, r *http.Request) { r.Method = "patch" }, "upper case"},
		{"dot segment", func(_ *sign.Signer, r *http.Request) { r.URL.Path = "/api/v1/../x" }, "'..' segment"},
		{"absolute form", func(_ *sign.Signer, r *http.Request) { r.URL.Opaque = "//gw.example/api/v1/x" }, "without scheme and host"},
		{"raw query", func(_ *sign.Signer, r *http.Request) { r.URL.RawQuery = "q=é" }, "percent-encode"},
		{"nonce", func(s *sign.Signer, _ *http.Request) { s.Nonce = func() string { return "a b" } }, "visible ASCII"},
		{"no URL", func(_ *sign.Signer, r *http.Request) { r.URL = nil }, "no URL"},
	}
	for _, test := range tests {
		signer := testSigner()
		r := httptest.NewRequest(http.MethodGet, "http://gw.example/api/v1/x", nil)
		test.change(&signer, r)
		err := signer.Sign(r, nil)
		if err == nil || !strings.Contains(err.Error(), test.want) || strings.Contains(err.Error(), signerSecret) {
			t.Errorf("%s: got %v, want %q", test.name, err, test.want)
		}
		if len(r.Header) != 0 {
			t.Errorf("%s: headers were set: %v", test.name, r.Header)
		}
	}
}

// received is what a server saw of one request.
type received struct {
	requestURI string
	header     http.Header
	length     int64
	body       []byte
}

// verify recomputes the hash and the signature.
func (r *received) verify(method, secret string) bool {
	hash := sha256.Sum256(r.body)
	text := strings.Join([]string{
		method, r.requestURI, r.header.Get("X-Timestamp"), r.header.Get("X-Nonce"), base64.StdEncoding.EncodeToString(hash[:]),
	}, "\n")
	mac := hmac.New(sha256.New, []byte(secret))
	mac.Write([]byte(text))
	return r.header.Get("X-Signature") == base64.StdEncoding.EncodeToString(mac.Sum(nil)) && r.length == int64(len(r.body))
}

// recorder is a server that keeps what it receives and lets answer answer.
func recorder(t *testing.T, answer http.HandlerFunc) (address string, seen func() []received) {
	t.Helper()
	arrived := make(chan received, 100)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			t.Error(err)
		}
		arrived <- received{requestURI: r.RequestURI, header: r.Header, length: r.ContentLength, body: body}
		if answer != nil {
			answer(w, r)
		}
	}))
	t.Cleanup(server.Close)
	return server.URL, func() []received {
		var all []received
		for {
			select {
			case r := <-arrived:
				all = append(all, r)
			default:
				return all
			}
		}
	}
}

func signingClient() *http.Client {
	return &http.Client{Transport: &sign.Transport{Signer: sign.Signer{KeyID: signerID, Secret: signerSecret}}}
}

func TestTransportSignsWhatIsOnTheWire(t *testing.T) {
	address, seen := recorder(t, nil)
	tests := []struct{ method, target, body string }{
		{"GET", "/api/v1/cards/c1", ""},
		{"GET", "/api/v1/orders?", ""},
		{"GET", "/api/v1/orders?b=2&a=1&q=a+b%20c%2f", ""},
		{"GET", "/api/v1/caf%c3%a9/%6f", ""},
		{"POST", "/api/v1/cards", `{"a":1}`},
		{"PATCH", "/api/v1/cards/c1", "\x00\xff"},
		{"DELETE", "/api/v1/cards/c1", ""},
		{"DELETE", "/api/v1/cards/c1", "{}"},
		{"POST", "/api/v1/cards/c1/unfreeze", ""},
		{"HEAD", "/api/v1/cards/c1", ""},
	}
	for _, test := range tests {
		// A reader of unknown length would be sent in chunks.
		var body io.Reader
		if test.body != "" {
			body = io.MultiReader(strings.NewReader(test.body))
		}
		r, err := http.NewRequest(test.method, address+test.target+"#fragment", body)
		if err != nil {
			t.Fatal(err)
		}
		response, err := signingClient().Do(r)
		if err != nil {
			t.Fatal(err)
		}
		response.Body.Close()
		if len(r.Header) != 0 {
			t.Errorf("%s %s: the caller's request was changed", test.method, test.target)
		}
		got := seen()
		if len(got) != 1 || got[0].requestURI != test.target || string(got[0].body) != test.body || !got[0].verify(test.method, signerSecret) {
			t.Errorf("%s %s: the server received %+v", test.method, test.target, got)
		}
	}
}

func TestTransportSignsUnescapedPaths(t *testing.T) {
	address, seen := recorder(t, nil)
	u, err := url.Parse(address)
	if err != nil {
		t.Fatal(err)
	}
	u.Path = "/api/v1/café x|{y}" // net/http escapes it on the wire
	response, err := signingClient().Do(&http.Request{URL: u})
	if err != nil {
		t.Fatal(err)
	}
	response.Body.Close()
	if got := seen(); len(got) != 1 || !got[0].verify("GET", signerSecret) {
		t.Errorf("the server received %+v", got)
	}
}

func TestTransportSignsEachAttemptAnew(t *testing.T) {
	address, seen := recorder(t, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/api/v1/old" {
			http.Redirect(w, r, "/api/v1/new", http.StatusTemporaryRedirect)
		}
	})
	response, err := signingClient().Post(address+"/api/v1/old", "application/json", strings.NewReader("{}"))
	if err != nil {
		t.Fatal(err)
	}
	response.Body.Close()
	got := seen()
	if len(got) != 2 || !got[0].verify("POST", signerSecret) || !got[1].verify("POST", signerSecret) {
		t.Fatalf("the server received %+v", got)
	}
	if got[0].header.Get("X-Nonce") == got[1].header.Get("X-Nonce") {
		t.Error("the nonce was used twice")
	}
}

func TestTransportGivesNoSignatureToAnotherHost(t *testing.T) {
	stranger, strangers := recorder(t, nil)
	address, _ := recorder(t, func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, stranger+"/api/v1/cards", http.StatusFound)
	})
	if response, err := signingClient().Get(address + "/api/v1/cards"); err == nil {
		response.Body.Close()
		t.Error("the redirect was followed")
	}
	if got := strangers(); len(got) != 0 {
		t.Errorf("the stranger received %+v", got)
	}
}

type brokenBody struct{ closed bool }

func (b *brokenBody) Read([]byte) (int, error) { return 0, errors.New("broken") }
func (b *brokenBody) Close() error             { b.closed = true; return nil }

func TestTransportClosesTheBodyInAnyCase(t *testing.T) {
	for _, method := range []string{"POST", "post"} {
		body := &brokenBody{}
		r, err := http.NewRequestWithContext(context.Background(), method, "http://gw.example/api/v1/cards", body)
		if err != nil {
			t.Fatal(err)
		}
		transport := &sign.Transport{Signer: testSigner()}
		if response, err := transport.RoundTrip(r); err == nil {
			response.Body.Close()
			t.Error("a body that cannot be read was sent")
		}
		if !body.closed {
			t.Errorf("%s: the body is open", method)
		}
	}
}

// base is the transport below, which keeps the request that it got.
type base struct{ got *http.Request }

func (b *base) RoundTrip(r *http.Request) (*http.Response, error) {
	b.got = r
	return &http.Response{StatusCode: http.StatusOK, Body: http.NoBody}, nil
}

// TestTransportLetsOnlyUnwrittenRequestsBeRepeated: with GetBody, net/http
// itself repeats requests, and with an idempotency key even those that were
// already written.
func TestTransportLetsOnlyUnwrittenRequestsBeRepeated(t *testing.T) {
	for _, idempotent := range []bool{false, true} {
		r, err := http.NewRequest(http.MethodPost, "http://gw.example/api/v1/cards", bytes.NewReader([]byte("{}")))
		if err != nil {
			t.Fatal(err)
		}
		if idempotent {
			r.Header.Set("Idempotency-Key", "k")
		}
		below := &base{}
		transport := &sign.Transport{Signer: testSigner(), Base: below}
		if _, err := transport.RoundTrip(r); err != nil {
			t.Fatal(err)
		}
		if (below.got.GetBody == nil) != idempotent {
			t.Errorf("idempotency key %v: GetBody is set: %v", idempotent, below.got.GetBody != nil)
		}
	}
}
