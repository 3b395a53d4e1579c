package sign_test

import (
	"errors"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/card-gateway/card-gateway/auth"
	"github.com/card-gateway/card-gateway/sign"
	"github.com/card-gateway/card-gateway/tests/harness"
)

// TestVerifyAnswer verifies the answer in docs/signing.md, and refuses every other.
func TestVerifyAnswer(t *testing.T) {
	const signature = "OxP2tuolBqab1RqNmnzENkfkW6cbr+HwdBrJhZiphTM="
	guide, err := os.ReadFile("../docs/signing.md")
	if err != nil || !strings.Contains(string(guide), signature) {
		t.Fatalf("docs/signing.md does not show %s: %v", signature, err)
	}
	signer := testSigner()
	for name, c := range map[string]struct {
		change func(*http.Request, *http.Response)
		body   string
		after  time.Duration
		fails  bool
	}{
		"as shown":             {body: `{"cardId":"c1"}`},
		"five minutes later":   {body: `{"cardId":"c1"}`, after: 5 * time.Minute},
		"much later":           {body: `{"cardId":"c1"}`, after: 6 * time.Minute, fails: true},
		"much earlier":         {body: `{"cardId":"c1"}`, after: -6 * time.Minute, fails: true},
		"another body":         {body: `{"cardId":"c2"}`, fails: true},
		"another nonce":        {body: `{"cardId":"c1"}`, change: func(r *http.Request, _ *http.Response) { r.Header.Set("X-Nonce", "n-0002") }, fails: true},
		"another status":       {body: `{"cardId":"c1"}`, change: func(_ *http.Request, a *http.Response) { a.StatusCode = 200 }, fails: true},
		"without a request id": {body: `{"cardId":"c1"}`, change: func(_ *http.Request, a *http.Response) { a.Header.Del("X-Request-Id") }, fails: true},
		"without a hash":       {body: `{"cardId":"c1"}`, change: func(_ *http.Request, a *http.Response) { a.Header.Del("X-Response-Body-Hash") }, fails: true},
	} {
		r := &http.Request{Header: http.Header{"X-Nonce": {"n-0001"}}}
		a := &http.Response{StatusCode: 201, Header: http.Header{
			"X-Request-Id": {"UFJ77MIPGN6U4YHNN2IFC3FSOS"}, "X-Response-Timestamp": {"1750000001"},
			"X-Response-Body-Hash": {"LWVihz8mz3g+L2BB4esM965JRSsDHtAlU9x08ANUypc="}, "X-Response-Signature": {signature},
		}}
		if c.change != nil {
			c.change(r, a)
		}
		signer.Now = func() time.Time { return signerNow.Add(c.after) }
		if err := signer.VerifyAnswer(r, a, []byte(c.body)); (err != nil) != c.fails || err != nil && !errors.Is(err, sign.ErrAnswer) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestAnswerVectors verifies the answers of the suite, and signs the right ones by
// the code that the gateway signs with.
func TestAnswerVectors(t *testing.T) {
	for _, v := range harness.AnswerVectors(t) {
		request := &http.Request{Header: http.Header{auth.HeaderNonce: {v.Nonce}}}
		answer := &http.Response{StatusCode: v.Status, Header: http.Header{}}
		for name, values := range v.Headers {
			answer.Header[http.CanonicalHeaderKey(name)] = values
		}
		body := v.Bytes()
		signer := testSigner()
		signer.Now = func() time.Time { return time.Unix(v.Now, 0) }
		err := signer.VerifyAnswer(request, answer, body)
		if (err == nil) != (v.Expect == "signed") || err != nil && !errors.Is(err, sign.ErrAnswer) {
			t.Errorf("%s: %v, want %s", v.Name, err, v.Expect)
		}
		if v.Expect != "signed" {
			continue
		}
		made := auth.NewSecret(1, signer.Secret, time.Time{}).Sign(auth.AppendAnswerToSign(nil, v.Status, auth.SignedAnswer{
			RequestID: answer.Header.Get("X-Request-Id"), Timestamp: answer.Header.Get(auth.HeaderAnsweredAt),
			Nonce: v.Nonce, BodyHash: auth.BodyHash(body),
		}))
		if made != answer.Header.Get(auth.HeaderAnswerSignature) {
			t.Errorf("%s: the gateway signs %s", v.Name, made)
		}
	}
}
