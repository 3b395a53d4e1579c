package explain

import (
	"crypto/sha256"
	"encoding/base32"
	"encoding/base64"
	"encoding/hex"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/card-gateway/card-gateway/auth"
	"github.com/card-gateway/card-gateway/tests/harness"
	"github.com/card-gateway/card-gateway/tests/mistakes"
)

// testKey has the form of a key that the gateway has made.
var testKey = harness.Credentials{ID: "ck_test_abcdefghijklmnopqrstuvwxyz234567", Secret: "mfrggzdfmztwq2lknnwg23tpobyxe43uov3ho6dzpiytemzugu3a"}

var testNow = time.Unix(1_800_000_000, 0)

func b64(sum []byte) string { return base64.StdEncoding.EncodeToString(sum) }

// caseOf returns the case of a request of the key that has arrived now.
func caseOf(r *harness.Request, now time.Time) *Case {
	header := make(http.Header)
	for _, line := range r.Headers {
		name, value, _ := strings.Cut(line, ": ")
		header.Add(name, value)
	}
	credentials, _ := auth.ParseCredentials(header)
	c := &Case{
		Request: auth.Request{Method: r.Method, Target: r.Target, Credentials: credentials},
		Host:    "gw.example", Now: now, Window: 5 * time.Minute,
		Key:  &auth.Key{ID: testKey.ID, Secrets: []*auth.Secret{auth.NewSecret(2, testKey.Secret, time.Time{})}},
		Body: &Body{Size: int64(len(r.Body)), Sum: sha256.Sum256([]byte(r.Body)), Bytes: []byte(r.Body)},
	}
	c.judge()
	return c
}

func (c *Case) judge() {
	c.Failed = auth.Judge(&c.Request, c.Key, c.Window, c.Now).Failed
	if !auth.BodyHashEqual(c.Credentials.BodyHash, c.Body.Sum) {
		c.Failed |= auth.RuleBodyHash
	}
}

// right returns the case of a right request.
func right() *Case {
	return caseOf(testKey.RequestAt(testNow, "POST", "/api/v1/cards?a=1", `{"name": "Zoë"}`), testNow)
}

// Each mistake is found, and nothing else. The few kinds that no request of the table
// can show are named.
func TestExplainNamesTheMistake(t *testing.T) {
	t.Parallel()
	ours, named := map[string]bool{}, map[string]bool{}
	for _, kind := range []Kind{NonceUsed, TimestampMoved, SecretHex, SecretRetired, BodyDiffers} {
		named[kind.String()] = true
	}
	for _, kind := range Kinds() {
		ours[kind.String()] = true
	}
	for _, m := range mistakes.Table {
		if !ours[m.Answer] || m.Answer == NonceUsed.String() {
			continue
		}
		named[m.Answer], named[m.CardExplain()] = true, true
		t.Run(m.Name, func(t *testing.T) {
			c := caseOf(m.Make(testKey), time.Now())
			body := c.Body.Bytes
			if c.Failed.Has(auth.RuleSignature) {
				c.Body.Bytes = nil // the gateway holds no body of an unproven sender
			}
			if found := Explain(c); len(found) != 1 || found[0].Kind.String() != m.Answer {
				t.Errorf("rules %b fail, found %q, want %s", c.Failed, Sentences(found), m.Answer)
			}
			c.Body.Bytes, c.Fragment = body, m.Fragment
			if found := Explain(c); found[0].Kind.String() != m.CardExplain() {
				t.Errorf("with the body and the fragment, found %q, want %s", Sentences(found), m.CardExplain())
			}
		})
	}
	for _, kind := range Kinds() {
		if !named[kind.String()] {
			t.Errorf("no mistake of the table is a %s", kind)
		}
	}
}

// A client that has not got the new secret is told when its own has ended.
func TestExplainRetiredSecrets(t *testing.T) {
	t.Parallel()
	c := right()
	c.Key.Retired = []*auth.Secret{auth.NewSecret(1, testKey.Secret, testNow.Add(-time.Hour))}
	c.Key.Secrets = []*auth.Secret{auth.NewSecret(2, "another", time.Time{})}
	c.judge()
	if found := Explain(c); len(found) != 1 || found[0].Kind != SecretRetired || !strings.HasPrefix(found[0].Subject, "1, retired at 2027-") {
		t.Errorf("found %q", Sentences(found))
	}
	c.Credentials.BodyHash, c.Key.Retired = harness.BodyHash("x"), nil
	c.judge()
	if found := Explain(c); len(found) != 2 || found[0].Kind != BodyDiffers || found[1].Kind != SignatureUnexplained {
		t.Errorf("another body and another secret: found %q", Sentences(found))
	}
}

// The two readings of a secret that the table's secret does not have.
func TestExplainReadsSecrets(t *testing.T) {
	t.Parallel()
	raw := []byte("sixteen bytes ok and more of them")
	for text, want := range map[string]Kind{
		strings.ToLower(base32.StdEncoding.WithPadding(base32.NoPadding).EncodeToString(raw)): SecretBase32,
		hex.EncodeToString(raw): SecretHex,
	} {
		c := caseOf(testKey.RequestAt(testNow, "GET", "/api/v1/cards", "").Sign(string(raw)), testNow)
		c.Key.Secrets = []*auth.Secret{auth.NewSecret(1, text, time.Time{})}
		if found := Explain(c); len(found) != 1 || found[0].Kind != want {
			t.Errorf("%s is %q", want, Sentences(found))
		}
	}
}

// Facts that only the store knows are passed on.
func TestExplainNonceAndMove(t *testing.T) {
	t.Parallel()
	c := right()
	c.Failed = auth.RuleTimestamp | auth.RuleNonce
	if found := Explain(c); len(found) != 2 || found[0].Kind != TimestampMoved || found[1].Kind != NonceUsed {
		t.Errorf("found %q", Sentences(found))
	}
}

// The view of a request shows what was signed, but neither a secret nor a body.
func TestViewHidesSecretsAndBodies(t *testing.T) {
	t.Parallel()
	c := right()
	if view := c.View(); view.StringToSign != c.StringToSign() || *view.ReceivedBytes != c.Body.Size || view.ReceivedHash != c.Credentials.BodyHash {
		t.Errorf("the view is %+v", view)
	}
	for name, r := range map[string]*harness.Request{
		"secret in the query": testKey.Request("GET", "/api/v1/x?secret="+testKey.Secret, ""),
		"secret as nonce":     testKey.Get().Set("X-Nonce", testKey.Secret),
		"secret as hash":      testKey.Get().Set("X-Body-Hash", testKey.Secret),
		"body as hash":        testKey.Get().Set("X-Body-Hash", `{"pin":"1234"}`),
	} {
		if text := caseOf(r, testNow).View().StringToSign; strings.Contains(text, testKey.Secret) || strings.Contains(text, "1234") {
			t.Errorf("%s: the view holds it: %q", name, text)
		}
	}
}

// A correct request has no findings.
func TestExplainFindsNothingInACorrectRequest(t *testing.T) {
	t.Parallel()
	if found := Explain(right()); len(found) != 0 {
		t.Errorf("found %q", Sentences(found))
	}
}

// The table has a row for each kind, and no two kinds share a name or a
// sentence.
func TestKindsAreClosed(t *testing.T) {
	t.Parallel()
	names, sentences := map[string]bool{}, map[string]bool{}
	for _, kind := range Kinds() {
		row := kind.row()
		if row.name == "" || row.sentence == "" || row.remedy == "" || names[row.name] || sentences[row.sentence] {
			t.Errorf("the row of kind %d is not its own: %+v", kind, *row)
		}
		names[row.name], sentences[row.sentence] = true, true
	}
}
