package explain

import (
	"compress/gzip"
	"crypto/hmac"
	"crypto/sha1"
	"crypto/sha256"
	"crypto/sha512"
	"encoding/base32"
	"encoding/base64"
	"encoding/binary"
	"encoding/hex"
	"hash"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/card-gateway/card-gateway/auth"
)

// A mistake is a request that a client has made wrong.
type mistake struct {
	name string
	want Kind
	make func(*attempt)
}

// An attempt is a client's request before it is signed. The fields that begin
// with "sign" are what the client signs where that is not what it sends.
type attempt struct {
	method, target, body     string
	stamp, nonce, bodyHash   string
	signMethod, signTarget   *string
	signStamp, signHash      *string
	text                     func(parts []string) string
	secret                   func(text string) string
	signature                func(sum []byte) string
	arrived                  *string // the body that arrived; nil: the one that was sent
	hash                     func() hash.Hash
	keySecret, retiredSecret string
}

const (
	testSecret = "c2VjcmV0LW9mLXRoZS10ZXN0LWluLWJhc2U2NCE="
	testTarget = "/api/v1/transactions?to=b&from=a%20b"
	testBody   = "{\"name\": \"Zo\u00eb\",\r\n\"n\":[1, 2]}"
)

var testNow = time.Unix(1_800_000_000, 0)

func b64(sum []byte) string { return base64.StdEncoding.EncodeToString(sum) }

func sum256(text string) []byte {
	sum := sha256.Sum256([]byte(text))
	return sum[:]
}

func newAttempt() *attempt {
	return &attempt{
		method: "POST", target: testTarget, body: testBody, stamp: "1800000000", nonce: "n-1",
		text:   func(p []string) string { return strings.Join(p, "\n") },
		secret: func(text string) string { return text }, signature: b64, hash: sha256.New, keySecret: testSecret,
	}
}

// made returns the case of the request that the attempt sends.
func (a *attempt) made() *Case {
	if a.bodyHash == "" {
		a.bodyHash = b64(sum256(a.body))
	}
	or := func(other *string, sent string) string {
		if other != nil {
			return *other
		}
		return sent
	}
	mac := hmac.New(a.hash, []byte(a.secret(testSecret)))
	mac.Write([]byte(a.text([]string{
		or(a.signMethod, a.method), or(a.signTarget, a.target), or(a.signStamp, a.stamp), a.nonce, or(a.signHash, a.bodyHash),
	})))
	arrived := or(a.arrived, a.body)
	c := &Case{
		Request: auth.Request{Method: a.method, Target: a.target, Credentials: auth.Credentials{
			KeyID: "ck_test_x", Timestamp: a.stamp, Nonce: a.nonce, BodyHash: a.bodyHash, Signature: a.signature(mac.Sum(nil)),
		}},
		Host: "gw.example", Now: testNow, Window: 5 * time.Minute,
		Key:  &auth.Key{ID: "ck_test_x", Secrets: []*auth.Secret{auth.NewSecret(2, a.keySecret, time.Time{})}},
		Body: &Body{Size: int64(len(arrived)), Sum: sha256.Sum256([]byte(arrived)), Bytes: []byte(arrived)},
	}
	c.Credentials.Unix, _ = auth.ParseTimestamp(a.stamp)
	if a.retiredSecret != "" {
		c.Key.Retired = []*auth.Secret{auth.NewSecret(1, a.retiredSecret, testNow.Add(-time.Hour))}
	}
	c.Failed = auth.Judge(&c.Request, c.Key, c.Window, c.Now).Failed
	if !auth.BodyHashEqual(a.bodyHash, c.Body.Sum) {
		c.Failed |= auth.RuleBodyHash
	}
	return c
}

func signs2(target string) func(*attempt) { return func(a *attempt) { a.signTarget = &target } }

func joins(join func(p []string) string) func(*attempt) { return func(a *attempt) { a.text = join } }

func writes(form func(sum []byte) string) func(*attempt) {
	return func(a *attempt) { a.signature = form }
}

func reads(secret func(string) string) func(*attempt) { return func(a *attempt) { a.secret = secret } }

func arrives(body string) func(*attempt) { return func(a *attempt) { a.arrived = &body } }

func hashes(text string) func(*attempt) { return func(a *attempt) { a.bodyHash = text } }

func hashedWas(body string) func(*attempt) { return hashes(b64(sum256(body))) }

func stamps(stamp string) func(*attempt) { return func(a *attempt) { a.stamp = stamp } }

// signsBy replaces the HMAC.
func signsBy(sum func(secret, text string) []byte) func(*attempt) {
	return func(a *attempt) {
		var text string
		a.text = func(p []string) string { text = strings.Join(p, "\n"); return text }
		a.signature = func([]byte) string { return b64(sum(testSecret, text)) }
	}
}

func hmacOf(key, text string) []byte {
	mac := hmac.New(sha256.New, []byte(key))
	mac.Write([]byte(text))
	return mac.Sum(nil)
}

func gzipped(text string) string {
	var b strings.Builder
	w := gzip.NewWriter(&b)
	_, _ = w.Write([]byte(text))
	_ = w.Close()
	return b.String()
}

func asks(target string, signed string) func(*attempt) {
	return func(a *attempt) { a.target, a.signTarget = target, &signed }
}

// mistakes has each kind at least once.
var mistakes = []mistake{
	{"the secret as signature", SecretSent, writes(func([]byte) string { return testSecret })},
	{"milliseconds", TimestampMilliseconds, stamps("1800000000123")},
	{"ISO 8601", TimestampISO, stamps("2027-01-15T08:00:00Z")},
	{"a word", TimestampForm, stamps("now")},
	{"a slow clock", TimestampBehind, stamps("1799999000")},
	{"a fast clock", TimestampAhead, stamps("1800001000")},

	{"hexadecimal signature", FormHex, writes(hex.EncodeToString)},
	{"upper-case hexadecimal", FormHex, writes(func(sum []byte) string { return strings.ToUpper(hex.EncodeToString(sum)) })},
	{"base64 of hexadecimal", FormHexText, writes(func(sum []byte) string { return b64([]byte(hex.EncodeToString(sum))) })},
	{"no padding", FormUnpadded, writes(base64.RawStdEncoding.EncodeToString)},
	{"a prefix", FormPrefix, writes(func(sum []byte) string { return "sha256=" + b64(sum) })},
	{"the prefix of RFC 9530", FormPrefix, writes(func(sum []byte) string { return "sha-256=:" + b64(sum) + ":" })},
	{"quotes", FormQuotes, writes(func(sum []byte) string { return `"` + b64(sum) + `"` })},
	{"a line feed", FormLineFeed, writes(func(sum []byte) string { return b64(sum) + `\n` })},
	{"percent-encoded", FormEscaped, writes(func(sum []byte) string { return strings.ReplaceAll(b64(sum), "=", "%3D") })},
	{"broken lines", FormBlank, writes(func(sum []byte) string { return b64(sum)[:20] + " " + b64(sum)[20:] })},
	{"lower case", FormCase, writes(func(sum []byte) string { return strings.ToLower(b64(sum)) })},
	{"cut off", FormLength, writes(func(sum []byte) string { return b64(sum)[:40] })},
	{"twin", FormSpelling, writes(func(sum []byte) string { return twin(b64(sum)) })},
	{"no base64", FormUnreadable, writes(func([]byte) string { return "{{signature}}" })},

	{"URL-safe hash", FormBase64URL, func(a *attempt) {
		a.body = "7" // its hash has both characters
		a.bodyHash = base64.URLEncoding.EncodeToString(sum256(a.body))
	}},
	{"hexadecimal hash", FormHex, hashes(hex.EncodeToString(sum256(testBody)))},
	{"hash of hexadecimal", HashOfHex, hashes(b64(sum256(hex.EncodeToString(sum256(testBody)))))},
	{"hash of nothing", HashOfNothing, hashes(auth.EmptyBodyHash)},
	{"body as hash", HashIsBody, func(a *attempt) { a.body = `{"a":1}`; a.bodyHash = a.body }},
	{"no body came", BodyAbsent, arrives("")},
	{"final line feed sent", BodyFinalLineFeed, arrives(testBody + "\n")},
	{"final line feed hashed", BodyNoFinalLineFeed, hashedWas(testBody + "\n")},
	{"CRLF sent", BodyCRLF, hashedWas(strings.ReplaceAll(testBody, "\r\n", "\n"))},
	{"LF sent", BodyLF, arrives(strings.ReplaceAll(testBody, "\r\n", "\n"))},
	{"byte order mark sent", BodyBOM, arrives("\ufeff" + testBody)},
	{"byte order mark hashed", BodyBOM, hashedWas("\ufeff" + testBody)},
	{"Latin-1 sent", BodyLatin1, arrives(strings.ReplaceAll(testBody, "ë", "\xeb"))},
	{"Latin-1 hashed", BodyLatin1, hashedWas(strings.ReplaceAll(testBody, "ë", "\xeb"))},
	{"compact hashed", BodyCompact, hashedWas(`{"name":"Zoë","n":[1,2]}`)},
	{"pretty hashed", BodyIndented, hashedWas("{\n  \"name\": \"Zoë\",\n  \"n\": [\n    1,\n    2\n  ]\n}")},
	{"names sorted", BodySorted, hashedWas(`{"n":[1,2],"name":"Zoë"}`)},
	{"as another language hashed it", BodyCompact, hashedWas(`{"name": "Zoë", "n": [1, 2]}`)},
	{"escapes hashed", BodyEscaped, hashedWas(strings.ReplaceAll(testBody, "ë", `\u00eb`))},
	{"escapes sent", BodyEscaped, arrives(strings.ReplaceAll(testBody, "ë", `\u00EB`))},
	{"slashes escaped", BodyEscaped, func(a *attempt) { a.body = `{"u":"a/b"}`; a.bodyHash = b64(sum256(`{"u":"a\/b"}`)) }},
	{"slashes sent escaped", BodyEscaped, func(a *attempt) { a.body = `{"u":"a\/b"}`; a.bodyHash = b64(sum256(`{"u":"a/b"}`)) }},
	{"whole numbers", BodyNumbers, func(a *attempt) {
		a.body = `{"n":[1.0,2.50],"m":10.00}`
		a.bodyHash = b64(sum256(`{"n":[1,2.50],"m":10}`))
	}},
	{"compressed", BodyCompressed, func(a *attempt) { a.body = gzipped(testBody); a.bodyHash = b64(sum256(testBody)) }},
	{"length in characters", BodyCut, arrives(testBody[:len(testBody)-1])},
	{"another boundary", BodyBoundary, func(a *attempt) {
		a.body = "--b\r\nContent-Disposition: form-data; name=\"a\"\r\n\r\n1\r\n--b--\r\n"
		a.bodyHash = b64(sum256(strings.ReplaceAll(a.body, "--b", "--c")))
	}},
	{"base64 twice", FormTwice, writes(func(sum []byte) string { return b64([]byte(b64(sum))) })},
	{"SHA-1", SignatureAlgorithm, func(a *attempt) { a.hash = sha1.New }},
	{"SHA-512", SignatureAlgorithm, func(a *attempt) { a.hash = sha512.New }},
	{"key and message swapped", SecretSwapped, signsBy(func(secret, text string) []byte { return hmacOf(text, secret) })},
	{"hash of secret and text", SignatureHash, signsBy(func(secret, text string) []byte { return sum256(secret + text) })},
	{"hash of text and secret", SignatureHash, signsBy(func(secret, text string) []byte { return sum256(text + secret) })},
	{"a prefix that a proxy takes away", TargetPrefix, signs2("/gateway" + testTarget)},
	{"a prefix that a proxy adds", TargetNoBase, asks("/edge/api/v1/x", "/api/v1/x")},
	{"the clock read twice", SignedTimestamp, func(a *attempt) { s := "1799999999"; a.signStamp = &s }},
	{"UTF-16", TextUTF16, joins(func(p []string) string { return utf16Text(strings.Join(p, "\n"), binary.LittleEndian) })},
	{"UTF-16, big-endian", TextUTF16, joins(func(p []string) string { return utf16Text(strings.Join(p, "\n"), binary.BigEndian) })},
	{"the host as a part", TextExtra, joins(func(p []string) string { return strings.Join(p, "\n") + "\ngw.example" })},
	{"a blank behind the secret", SecretBlank, reads(func(s string) string { return s + " " })},
	{"a tab before the secret", SecretBlank, reads(func(s string) string { return "\t" + s })},
	{"a carriage return behind the secret", SecretBlank, reads(func(s string) string { return s + "\r" })},
	{"a mark before the secret", SecretBlank, reads(func(s string) string { return "\ufeff" + s })},
	{"secret in base64", SecretEncoded, reads(func(s string) string { return b64([]byte(s)) })},
	{"secret in hexadecimal", SecretEncoded, reads(func(s string) string { return hex.EncodeToString([]byte(s)) })},
	{"another body", BodyChanged, arrives(`{"name":"Zoe"}`)},
	{"another body, forged", BodyDiffers, func(a *attempt) { a.bodyHash, a.keySecret = b64(sum256("x")), "another" }},

	{"a retired secret", SecretRetired, func(a *attempt) { a.keySecret, a.retiredSecret = "another", testSecret }},
	{"no query", TargetNoQuery, signs2("/api/v1/transactions")},
	{"full URL", TargetFullURL, signs2("https://gw.example" + testTarget)},
	{"host and path", TargetHost, signs2("gw.example" + testTarget)},
	{"no base path", TargetNoBase, signs2("/transactions?to=b&from=a%20b")},
	{"decoded", TargetDecoded, signs2("/api/v1/transactions?to=b&from=a b")},
	{"encoded twice", TargetReencoded, signs2("/api/v1/transactions?to=b&from=a%2520b")},
	{"lower-case escapes", TargetReencoded, asks("/api/v1/x?q=%2Fa", "/api/v1/x?q=%2fa")},
	{"decoded tilde", TargetReencoded, asks("/api/v1/x?q=%7Ea%2F", "/api/v1/x?q=~a%2F")},
	{"encoded quote", TargetReencoded, asks("/api/v1/x?q='a'", "/api/v1/x?q=%27a%27")},
	{"sorted", TargetSorted, signs2("/api/v1/transactions?from=a%20b&to=b")},
	{"sorted and re-encoded", TargetSorted, signs2("/api/v1/transactions?from=a+b&to=b")},
	{"plus", TargetPlus, signs2("/api/v1/transactions?to=b&from=a+b")},
	{"lone question mark", TargetQuestionMark, asks("/api/v1/x?", "/api/v1/x")},
	{"dropped question mark", TargetQuestionMark, asks("/api/v1/x", "/api/v1/x?")},
	{"slash added", TargetSlash, asks("/api/v1/x", "/api/v1/x/")},
	{"slash dropped", TargetSlash, asks("/api/v1/x/?a=1", "/api/v1/x?a=1")},
	{"lower-case path", TargetCase, asks("/api/v1/Customers", "/api/v1/customers")},
	{"lower-case method", MethodCase, func(a *attempt) { m := "post"; a.signMethod = &m }},
	{"other method", MethodOther, func(a *attempt) { m := "GET"; a.signMethod = &m }},
	{"final line feed", TextFinalLineFeed, joins(func(p []string) string { return strings.Join(p, "\n") + "\n" })},
	{"CRLF between", TextCRLF, joins(func(p []string) string { return strings.Join(p, "\r\n") })},
	{"backslash n", TextBackslashN, joins(func(p []string) string { return strings.Join(p, `\n`) })},
	{"no separators", TextNoSeparators, joins(func(p []string) string { return strings.Join(p, "") })},
	{"timestamp first", TextOrder, joins(func(p []string) string { return strings.Join([]string{p[2], p[0], p[1], p[3], p[4]}, "\n") })},
	{"no nonce", TextMissingPart, joins(func(p []string) string { return strings.Join([]string{p[0], p[1], p[2], p[4]}, "\n") })},
	{"key id in it", TextKeyID, joins(func(p []string) string { return "ck_test_x\n" + strings.Join(p, "\n") })},
	{"milliseconds signed", SignedTimestamp, func(a *attempt) { s := "1800000000000"; a.signStamp = &s }},
	{"hexadecimal signed", SignedHash, func(a *attempt) { s := hex.EncodeToString(sum256(testBody)); a.signHash = &s }},
	{"body signed", SignedBody, func(a *attempt) { s := testBody; a.signHash = &s }},
	{"secret from base64", SecretBase64, reads(func(s string) string { raw, _ := base64.StdEncoding.DecodeString(s); return string(raw) })},
	{"secret with line feed", SecretLineFeed, reads(func(s string) string { return s + "\n" })},
	{"secret in quotes", SecretQuotes, reads(strconv.Quote)},
	{"no secret", SecretEmpty, reads(func(string) string { return "" })},
	{"key id as secret", SecretKeyID, reads(func(string) string { return "ck_test_x" })},
	{"another secret", SignatureUnexplained, reads(func(s string) string { return s[1:] })},
}

// twin returns the base64 with other unused bits at its end.
func twin(text string) string {
	const alphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"
	return text[:42] + string(alphabet[strings.IndexByte(alphabet, text[42])^1]) + "="
}

// Each mistake is found. The few kinds that no request here can show are named.
func TestExplainNamesTheMistake(t *testing.T) {
	t.Parallel()
	named := map[Kind]bool{NonceUsed: true, TimestampMoved: true, SecretBase32: true, SecretHex: true}
	for _, m := range mistakes {
		named[m.want] = true
		t.Run(m.name, func(t *testing.T) {
			a := newAttempt()
			m.make(a)
			c := a.made()
			found := Explain(c)
			for _, f := range found {
				if f.Kind == m.want {
					return
				}
			}
			t.Errorf("rules %b fail, found %q, want %s", c.Failed, Sentences(found), m.want)
		})
	}
	for _, kind := range Kinds() {
		if !named[kind] {
			t.Errorf("no mistake of the table is a %s", kind)
		}
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
		a := newAttempt()
		a.keySecret, a.secret = text, func(string) string { return string(raw) }
		if found := Explain(a.made()); len(found) != 1 || found[0].Kind != want {
			t.Errorf("%s is %q", want, Sentences(found))
		}
	}
}

// Facts that only the store knows are passed on.
func TestExplainNonceAndMove(t *testing.T) {
	t.Parallel()
	c := newAttempt().made()
	c.Failed = auth.RuleTimestamp | auth.RuleNonce
	if found := Explain(c); len(found) != 2 || found[0].Kind != TimestampMoved || found[1].Kind != NonceUsed {
		t.Errorf("found %q", Sentences(found))
	}
}

// The view of a request shows what was signed, but neither a secret nor a body.
func TestViewHidesSecretsAndBodies(t *testing.T) {
	t.Parallel()
	a := newAttempt()
	right := a.made()
	if view := right.View(); view.StringToSign != right.StringToSign() || *view.ReceivedBytes != int64(len(testBody)) || view.ReceivedHash != a.bodyHash {
		t.Errorf("the view is %+v", view)
	}
	for name, change := range map[string]func(*attempt){
		"secret in the query": func(a *attempt) { a.target = "/api/v1/x?secret=" + testSecret },
		"secret as nonce":     func(a *attempt) { a.nonce = testSecret },
		"secret as hash":      func(a *attempt) { a.bodyHash = testSecret },
		"body as hash":        func(a *attempt) { a.body = `{"pin":"1234"}`; a.bodyHash = a.body },
	} {
		a := newAttempt()
		change(a)
		view := a.made().View()
		if strings.Contains(view.StringToSign, testSecret) || strings.Contains(view.StringToSign, "1234") {
			t.Errorf("%s: the view holds it: %q", name, view.StringToSign)
		}
	}
}

// A correct request has no findings.
func TestExplainFindsNothingInACorrectRequest(t *testing.T) {
	t.Parallel()
	if found := Explain(newAttempt().made()); len(found) != 0 {
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
