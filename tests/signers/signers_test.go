// Package signers runs the signature suite against implementations of HMAC-SHA256
// that are not ours, and ours against the suites of others.
package signers

import (
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/card-gateway/card-gateway/auth"
)

// A vector is a request of tests/vectors; README.md there has the fields.
type vector struct {
	Name, Method, Target string
	TargetBase64         string `json:"target_base64"`
	Headers              map[string][]string
	Unsendable           bool
	Key                  struct{ Secrets []struct{ Text string } }
	Expect               struct{ Reason string }
}

const fixtureSecret = "test_secret_0123456789abcdef"

// readJSON reads a file of tests/vectors.
func readJSON(t *testing.T, file string, into any) {
	t.Helper()
	text, err := os.ReadFile(file)
	if err == nil {
		err = json.Unmarshal(text, into)
	}
	if err != nil {
		t.Fatalf("%s: %v", file, err)
	}
}

// stringToSign returns the text that the published interface signs, if the request
// has each of the headers once.
func (v *vector) stringToSign(t *testing.T) (text, signature string, whole bool) {
	t.Helper()
	parts := []string{v.Method, v.Target}
	if v.TargetBase64 != "" {
		target, err := base64.StdEncoding.DecodeString(v.TargetBase64)
		if err != nil {
			t.Fatal(err)
		}
		parts[1] = string(target)
	}
	for _, name := range []string{"X-Timestamp", "X-Nonce", "X-Body-Hash", "X-Signature"} {
		values := v.Headers[name]
		if len(values) != 1 {
			return "", "", false
		}
		parts = append(parts, values[0])
	}
	return strings.Join(parts[:5], "\n"), parts[5], true
}

// openssl returns the HMAC-SHA256 that the openssl program makes.
func openssl(t *testing.T, key, text string) string {
	t.Helper()
	cmd := exec.Command("openssl", "dgst", "-sha256", "-mac", "HMAC", "-macopt", "hexkey:"+hex.EncodeToString([]byte(key)), "-binary")
	cmd.Stdin = strings.NewReader(text)
	sum, err := cmd.Output()
	if err != nil {
		t.Fatalf("openssl: %v", err)
	}
	return base64.StdEncoding.EncodeToString(sum)
}

// TestOpenSSLSignsAsTheSuite signs the requests of the suite with openssl: what the
// suite accepts has its signature, and what the suite calls a mismatch has not.
func TestOpenSSLSignsAsTheSuite(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob("../vectors/*.json")
	if err != nil {
		t.Fatal(err)
	}
	made := make(map[string]string) // by key and text, since many requests are alike
	counts := make(map[string]int)
	for _, file := range files {
		var doc struct{ Requests []vector }
		readJSON(t, file, &doc)
		for i := range doc.Requests {
			v := &doc.Requests[i]
			text, signature, whole := v.stringToSign(t)
			if !whole || v.Expect.Reason != "accepted" && v.Expect.Reason != "signature_mismatch" {
				continue
			}
			secrets := []string{fixtureSecret}
			if len(v.Key.Secrets) > 0 {
				secrets = nil
				for _, s := range v.Key.Secrets {
					secrets = append(secrets, s.Text)
				}
			}
			fits := false
			for _, secret := range secrets {
				of := secret + "\n" + text
				if made[of] == "" {
					made[of] = openssl(t, secret, text)
				}
				fits = fits || made[of] == signature
			}
			counts[v.Expect.Reason]++
			if accepted := v.Expect.Reason == "accepted"; fits != accepted && (accepted || len(v.Key.Secrets) == 0) {
				t.Errorf("%s: %s: openssl agrees with the signature: %v, and the suite says %s", file, v.Name, fits, v.Expect.Reason)
			}
		}
	}
	if counts["accepted"] < 100 || counts["signature_mismatch"] < 20 {
		t.Errorf("only %v requests were signed", counts)
	}
}

// TestRFC4231 runs the published cases of HMAC-SHA256 against ours and openssl's.
func TestRFC4231(t *testing.T) {
	t.Parallel()
	var doc struct {
		Cases []struct {
			Name, Key, Data string
			Sum             string `json:"hmac_sha256"`
		}
	}
	readJSON(t, "../vectors/rfc4231.json", &doc)
	if len(doc.Cases) != 7 {
		t.Errorf("there are %d cases, the RFC has 7", len(doc.Cases))
	}
	for _, c := range doc.Cases {
		want := base64.StdEncoding.EncodeToString(unhex(t, c.Sum))
		key, data := unhex(t, c.Key), unhex(t, c.Data)
		if got := auth.NewSecret(1, string(key), time.Time{}).Sign(data); got != want {
			t.Errorf("%s: %s, want %s", c.Name, got, want)
		}
		if got := openssl(t, string(key), string(data)); got != want {
			t.Errorf("%s: openssl makes %s, want %s", c.Name, got, want)
		}
	}
}

func unhex(t *testing.T, text string) []byte {
	t.Helper()
	raw, err := hex.DecodeString(text)
	if err != nil {
		t.Fatal(err)
	}
	return raw
}

// wycheproof is Google's suite of attacks on cryptography, which the Go proxy has
// as a module, and the hash that go.sum would have.
const (
	wycheproof    = "github.com/google/wycheproof@v0.0.0-20191219022705-2196000605e4"
	wycheproofSum = "h1:/jhsqtCSTRK25HsqYePIHeLbPIDBwVOANhQmWRdgsyA="
)

// TestWycheproof verifies the HMAC-SHA256 cases of Project Wycheproof: the valid
// ones of full length and nothing else.
func TestWycheproof(t *testing.T) {
	t.Parallel()
	cmd := exec.Command("go", "mod", "download", "-json", wycheproof)
	cmd.Dir = t.TempDir() // outside of our module, whose go.sum stays as it is
	out, err := cmd.Output()
	var module struct{ Dir, Sum string }
	if err != nil || json.Unmarshal(out, &module) != nil || module.Sum != wycheproofSum {
		t.Fatalf("go mod download %s: %v\n%s", wycheproof, err, out)
	}
	var doc struct {
		TestGroups []struct {
			TagSize int
			Tests   []struct {
				TCID                           int
				Comment, Key, Msg, Tag, Result string
			}
		}
	}
	readJSON(t, filepath.Join(module.Dir, "testvectors", "hmac_sha256_test.json"), &doc)
	valid, run := 0, 0
	for _, group := range doc.TestGroups {
		for _, c := range group.Tests {
			run++
			want := c.Result == "valid" && group.TagSize == 256
			got := auth.NewSecret(1, string(unhex(t, c.Key)), time.Time{}).Verify(unhex(t, c.Msg), base64.StdEncoding.EncodeToString(unhex(t, c.Tag)))
			if got != want {
				t.Errorf("case %d (%s, tag of %d bits): verified %v, want %v", c.TCID, c.Comment, group.TagSize, got, want)
			}
			if want {
				valid++
			}
		}
	}
	if run < 100 || valid < 20 {
		t.Errorf("%s cases", fmt.Sprint(run, valid))
	}
}
