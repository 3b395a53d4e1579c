package explain

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/card-gateway/card-gateway/auth"
)

// drawCase returns any refused request, of a key with one or two live secrets
// and a retired one.
func drawCase(t *rapid.T) (c *Case, secrets []string) {
	header := rapid.OneOf(
		rapid.StringN(0, 80, 200),
		rapid.Map(rapid.SliceOfN(rapid.Byte(), 0, 70), base64.StdEncoding.EncodeToString),
		rapid.Map(rapid.SliceOfN(rapid.Byte(), 32, 32), hex.EncodeToString),
		rapid.Map(rapid.SliceOfN(rapid.Byte(), 32, 32), func(b []byte) string { return "sha256=" + base64.URLEncoding.EncodeToString(b) }),
	)
	body := rapid.OneOf(rapid.SliceOfN(rapid.Byte(), 0, 300), rapid.Map(rapid.String(), func(s string) []byte { return []byte(`{"a":"` + s + `"}`) })).Draw(t, "body")
	secrets = rapid.SliceOfNDistinct(rapid.StringMatching(`[A-Za-z0-9]{24,43}`), 3, 3, rapid.ID).Draw(t, "secrets")
	c = &Case{
		Request: auth.Request{
			Method: rapid.SampledFrom([]string{"GET", "POST", "PUT", "DELETE"}).Draw(t, "method"),
			Target: "/" + rapid.StringMatching(`[a-zA-Z0-9/%+.~?&=;:'-]{0,80}`).Draw(t, "target"),
			Credentials: auth.Credentials{
				KeyID: "ck_test_drawn", Timestamp: rapid.OneOf(rapid.String(), rapid.StringMatching(`[1-9][0-9]{9,12}`)).Draw(t, "stamp"),
				Nonce: rapid.StringMatching(`[!-~]{1,40}`).Draw(t, "nonce"), BodyHash: header.Draw(t, "hash"), Signature: header.Draw(t, "signature"),
			},
		},
		Host: rapid.SampledFrom([]string{"", "h", "gw.example:8443"}).Draw(t, "host"),
		Key: &auth.Key{
			ID:      "ck_test_drawn",
			Secrets: []*auth.Secret{auth.NewSecret(3, secrets[0], time.Time{}), auth.NewSecret(2, secrets[1], testNow.Add(time.Hour))},
			Retired: []*auth.Secret{auth.NewSecret(1, secrets[2], testNow.Add(-time.Hour))},
		},
		Failed: auth.Rules(rapid.Uint16().Draw(t, "failed")), Now: testNow, Window: 5 * time.Minute,
		Body: &Body{Size: int64(len(body)), Sum: sha256.Sum256(body), Bytes: body},
	}
	c.Credentials.Unix, _ = auth.ParseTimestamp(c.Credentials.Timestamp)
	if rapid.Bool().Draw(t, "unread") {
		c.Body = nil
	}
	return c, secrets
}

// For any request: no panic, a bounded number of findings, the same ones each
// time, and nothing in them that was sent or is secret.
func TestExplainAnything(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		c, secrets := drawCase(t)
		found := Explain(c)
		if len(found) > 16 {
			t.Errorf("%d findings", len(found))
		}
		if again := Explain(c); Sentences(again) != Sentences(found) {
			t.Errorf("%q, and then %q", Sentences(found), Sentences(again))
		}
		var told strings.Builder
		for _, f := range found {
			told.WriteString(f.Kind.String() + f.Text())
		}
		forbidden := append([]string{c.Credentials.Signature, c.Credentials.BodyHash, c.Credentials.Nonce}, secrets...)
		for _, s := range c.Key.Secrets {
			forbidden = append(forbidden, s.Sign([]byte(c.StringToSign())))
		}
		for _, text := range forbidden {
			if len(text) >= 20 && strings.Contains(told.String(), text) {
				t.Errorf("the findings hold %q: %s", text, told.String())
			}
		}
	})
}

// At most MaxVariants strings to sign are tried, none of them twice and never the right
// one.
func TestVariantsAreBounded(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		c, _ := drawCase(t)
		right := c.StringToSign()
		seen := map[string]bool{right: true}
		all := (&explainer{Case: c}).variants(right)
		if len(all) > MaxVariants {
			t.Errorf("%d variants", len(all))
		}
		for _, v := range all {
			if seen[v.text] {
				t.Errorf("%q is tried twice, or is right", v.text)
			}
			seen[v.text] = true
		}
	})
}

// When a client signs a variant, the finding names a mistake that leads to the
// string that was signed.
func TestExplainFindsEachVariant(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		c, _ := drawCase(t)
		c.Failed |= auth.RuleSignature
		all := (&explainer{Case: c}).variants(c.StringToSign())
		v := rapid.SampledFrom(all).Draw(t, "variant")
		signer := rapid.SampledFrom(c.Key.Secrets).Draw(t, "secret")
		c.Credentials.Signature = signer.Sign([]byte(v.text))
		found := Explain(c)
		if len(found) == 0 || found[len(found)-1] != v.Finding {
			t.Errorf("found %q, want %q", Sentences(found), v.Sentence())
		}
	})
}

// Every form of a correct signature is recognised, and is not taken for a wrong
// signature.
func TestExplainFindsEachForm(t *testing.T) {
	t.Parallel()
	forms := map[string]func([]byte) string{
		"hex": hex.EncodeToString, "url": base64.RawURLEncoding.EncodeToString, "raw": base64.RawStdEncoding.EncodeToString,
		"quotes": func(b []byte) string { return `"` + b64(b) + `"` }, "prefix": func(b []byte) string { return "SHA256=" + b64(b) },
		"line": func(b []byte) string { return b64(b) + "%0A" }, "twice": func(b []byte) string { return b64([]byte(hex.EncodeToString(b))) },
	}
	rapid.Check(t, func(t *rapid.T) {
		c, _ := drawCase(t)
		name := rapid.SampledFrom([]string{"hex", "url", "raw", "quotes", "prefix", "line", "twice"}).Draw(t, "form")
		sum := digest(c.Key.Secrets[0], c.StringToSign())
		c.Failed, c.Credentials.Signature = auth.RuleSignature, forms[name](sum[:])
		for _, f := range Explain(c) {
			if f.Kind == SignatureUnexplained || f.Subject != "X-Signature" {
				t.Errorf("%s of a right signature is %q", name, f.Sentence())
			}
		}
	})
}

// A body is explained by each of its forms.
func TestExplainFindsEachBody(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		c, _ := drawCase(t)
		if c.Body == nil || c.Body.Size == 0 {
			return
		}
		form := rapid.SampledFrom(bodyForms(c.Body.Bytes)).Draw(t, "form")
		if len(form.body) == 0 || string(form.body) == string(c.Body.Bytes) {
			return
		}
		c.Failed, c.Credentials.BodyHash = auth.RuleBodyHash, auth.BodyHash(form.body)
		found := Explain(c)
		if len(found) < 1 || found[0].Kind < BodyFinalLineFeed || found[0].Kind > BodyCut {
			t.Errorf("found %q for %s", Sentences(found), form.kind)
		}
	})
}

// A large request is explained by its form alone, so that nobody buys time with
// headers of any length.
func TestExplainTriesNoVariantsOfHugeText(t *testing.T) {
	t.Parallel()
	c := right()
	c.Credentials.Nonce = strings.Repeat("n", maxText)
	if all := (&explainer{Case: c}).variants(c.StringToSign()); all != nil {
		t.Errorf("%d variants are tried", len(all))
	}
	deep := []byte(strings.Repeat("[", 20_000) + strings.Repeat("]", 20_000))
	for _, form := range bodyForms(deep) {
		if form.kind == BodyIndented {
			t.Error("a body of 20,000 levels is indented")
		}
	}
}

func BenchmarkExplain(b *testing.B) {
	c := caseOf(testKey.RequestAt(testNow, "POST", "/api/v1/transactions?to=b&from=a%20b", `{"name": "Zoë"}`).Forge(), testNow)
	b.ReportAllocs()
	for b.Loop() {
		Explain(c)
	}
}
