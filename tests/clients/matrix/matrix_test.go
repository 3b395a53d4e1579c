// Package matrix installs each client of clients/ from its packed artefact and
// runs the same cases through it: against the gateway, against a server that
// fails on purpose, and with the vectors.
package matrix

import (
	_ "embed"
	"encoding/json"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/card-gateway/card-gateway/auth"
	"github.com/card-gateway/card-gateway/tests/harness"
)

//go:embed cases.json
var casesText []byte

// A matrix is the content of cases.json.
type matrix struct {
	Gateway []gatewayCase
	Faults  []faultCase
	Calls   []faultCase // of requests that may change something
	Answers []answerCase
	Dates   []struct {
		Base    string
		Trusted bool
	}
}

func cases(t *testing.T) (m matrix) {
	t.Helper()
	decoder := json.NewDecoder(strings.NewReader(string(casesText)))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(&m); err != nil {
		t.Fatal(err)
	}
	return m
}

// TestClients runs the matrix with each client whose language is installed. The
// languages run at once: most of the time is that of the pauses before a repetition.
func TestClients(t *testing.T) {
	m := cases(t)
	env := demo(t)
	for _, l := range languages {
		t.Run(l.name, func(t *testing.T) {
			t.Parallel()
			l.run(t, m, env)
		})
	}
}

// run runs the matrix with the client of a language.
func (l language) run(t *testing.T, m matrix, env []string) {
	dir := l.install(t)
	t.Run("README", func(t *testing.T) { l.readme(t, dir, env) })
	d := l.start(t, dir)
	hello := d.do(t, call{Do: "hello"})
	if hello.Version != version(t) {
		t.Errorf("the client is version %s, want that of the file VERSION, %s", hello.Version, version(t))
	}
	l.missing(t, hello.Adapters)
	t.Run("vectors", func(t *testing.T) { vectors(t, d) })
	t.Run("vectors of answers", func(t *testing.T) { answerVectors(t, d) })
	t.Run("dates", func(t *testing.T) {
		for _, c := range m.Dates {
			if got := d.do(t, call{Do: "trusts", Base: c.Base}); got.Trusted != c.Trusted {
				t.Errorf("Date of %s may set the clock: %t, want %t", c.Base, got.Trusted, c.Trusted)
			}
		}
	})
	b, verifies := startRecording(t), startSigning(t)
	for adapter, raises := range hello.Adapters {
		b.driver, b.adapter, b.raises, b.repeats = d, adapter, raises, adapter == l.repeats
		verifies.driver, verifies.adapter, verifies.raises = d, adapter, raises
		t.Run(adapter, func(t *testing.T) {
			for _, c := range m.Gateway {
				t.Run(c.Name, func(t *testing.T) { b.send(t, c) })
			}
			for _, c := range m.Faults {
				t.Run(c.Name, func(t *testing.T) { b.fail(t, c) })
			}
			for _, c := range m.Calls {
				t.Run("calls, "+c.Name, func(t *testing.T) { b.fail(t, c) })
			}
			for _, c := range m.Answers {
				t.Run("answers, "+c.Name, func(t *testing.T) { verifies.demand(t, c) })
			}
			t.Run("50 at once", b.parallel)
			if raises {
				t.Run("a call is closed", verifies.closes)
			}
		})
	}
}

// startRecording starts the site of Caddyfile.example with an issuer that records.
func startRecording(t *testing.T) bench {
	t.Helper()
	upstream := startIssuer(t)
	gateway := harness.StartGateway(t, harness.Site{
		Upstream: upstream.Addr, Auth: "max_body 1MiB",
		Global: "operation upload_documents POST /api/v1/documents documents:write max_body 20MiB",
	})
	return bench{upstream: upstream, gateway: gateway, key: gateway.NewKey(harness.Fields{"mode": "test"})}
}

// A bench is one way to send of one client.
type bench struct {
	driver   *driver
	adapter  string
	raises   bool // errors for refusals
	repeats  bool // a GET whose connection was cut, by itself
	gateway  *harness.Gateway
	upstream *harness.Upstream
	key      harness.Credentials
}

func (b bench) parallel(t *testing.T) {
	got := b.driver.do(t, call{
		Do: "parallel", Adapter: b.adapter, Base: "http://" + b.gateway.Addr, KeyID: b.key.ID, Secret: b.key.Secret,
		Method: "GET", Target: "/api/v1/orders?limit=1", Count: 50,
	})
	if len(got.Statuses) != 50 || slices.ContainsFunc(got.Statuses, func(status int) bool { return status != http.StatusOK }) {
		t.Errorf("50 requests at once were answered %v, %+v", got.Statuses, got.Error)
	}
	if all := b.upstream.Took(); len(all) != 50 {
		t.Errorf("%d requests reached the issuer, want 50", len(all))
	}
}

// vectors checks string_to_sign.json and targets.json of tests/vectors.
func vectors(t *testing.T, d *driver) {
	for _, file := range []string{"string_to_sign.json", "targets.json"} {
		for _, v := range readVectors(t, file) {
			got := d.do(t, call{
				Do: "sign", KeyID: "ak_test_1", Secret: "test_secret_0123456789abcdef", Method: v.Method, Target: v.target(),
				Timestamp: v.header("X-Timestamp"), Nonce: v.header("X-Nonce"), Body: v.body(),
			})
			_, bad := auth.ParseTarget(v.target())
			refused := bad != nil || auth.CheckMethod(v.Method) != nil
			same := got.Signature == v.header("X-Signature")
			switch {
			case refused && (got.Error == nil || got.Error.Type != "unsignable" || got.Error.Message == ""):
				t.Errorf("%s: %s: signed, or refused without a reason: %+v", file, v.Name, got)
			case refused:
			case got.Error != nil:
				t.Errorf("%s: %s: refused: %+v", file, v.Name, got.Error)
			case v.Expect.Reason == "signature_mismatch" && same:
				t.Errorf("%s: %s: the client makes the mistake", file, v.Name)
			case v.Expect.Reason != "signature_mismatch" && !same:
				t.Errorf("%s: %s: the signature is %s", file, v.Name, got.Signature)
			}
		}
	}
}
