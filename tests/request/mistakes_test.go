package request

import (
	"crypto/hmac"
	"crypto/sha256"
	"crypto/sha512"
	"encoding/base32"
	"encoding/base64"
	"encoding/hex"
	"strconv"
	"strings"
	"time"

	"github.com/card-gateway/card-gateway/tests/harness"
)

// A mistake is a request that an integrator has made wrong.
type mistake struct {
	finding string // the expected finding; for rule 1 the header
	make    func(harness.Credentials) *harness.Request
}

const (
	mistakenTarget = "/api/v1/transactions?to=b&from=a%20b"
	mistakenBody   = `{"name": "Zoë","n":[1, 2]}`
)

// mac returns the base64 of the HMAC of a text.
func mac(secret, text string) string {
	m := hmac.New(sha256.New, []byte(secret))
	m.Write([]byte(text))
	return base64.StdEncoding.EncodeToString(m.Sum(nil))
}

// parts returns the five components of the string to sign of a request.
func parts(r *harness.Request) []string {
	return []string{r.Method, r.Target, r.Value("X-Timestamp"), r.Value("X-Nonce"), r.Value("X-Body-Hash")}
}

// signing signs another string than the right one.
func signing(text func(p []string) string) func(harness.Credentials) *harness.Request {
	return func(c harness.Credentials) *harness.Request {
		r := c.Request("GET", mistakenTarget, "")
		return r.Set("X-Signature", mac(c.Secret, text(parts(r))))
	}
}

// signingTarget signs another target than the one that is sent.
func signingTarget(sent, signed string) func(harness.Credentials) *harness.Request {
	return func(c harness.Credentials) *harness.Request {
		r := c.Request("GET", sent, "")
		p := parts(r)
		p[1] = signed
		return r.Set("X-Signature", mac(c.Secret, strings.Join(p, "\n")))
	}
}

// signingWith signs with another secret.
func signingWith(secret func(c harness.Credentials) string) func(harness.Credentials) *harness.Request {
	return func(c harness.Credentials) *harness.Request { return c.Post().Sign(secret(c)) }
}

// writing writes the right signature in another form.
func writing(form func(sum []byte) string) func(harness.Credentials) *harness.Request {
	return func(c harness.Credentials) *harness.Request {
		r := c.Post()
		return r.Set("X-Signature", form(r.Digest(c.Secret)))
	}
}

// hashing sends a body with another X-Body-Hash, which is signed.
func hashing(hash func(body string) string) func(harness.Credentials) *harness.Request {
	return func(c harness.Credentials) *harness.Request {
		r := c.Request("POST", "/api/v1/cards", mistakenBody)
		return r.Set("X-Body-Hash", hash(mistakenBody)).Sign(c.Secret)
	}
}

// sending signs a body and sends another.
func sending(body string) func(harness.Credentials) *harness.Request {
	return func(c harness.Credentials) *harness.Request {
		r := c.Request("POST", "/api/v1/cards", mistakenBody)
		r.Body = body
		return r
	}
}

func stamping(stamp func() string) func(harness.Credentials) *harness.Request {
	return func(c harness.Credentials) *harness.Request {
		return c.Get().Set("X-Timestamp", stamp()).Sign(c.Secret)
	}
}

func sumOf(text string) []byte {
	sum := sha256.Sum256([]byte(text))
	return sum[:]
}

// mistakes are typical mistakes of integrators, by a description.
var mistakes = map[string]mistake{
	"header forgotten":    {"X-Nonce", func(c harness.Credentials) *harness.Request { return c.Get().Drop("X-Nonce") }},
	"blank in the nonce":  {"X-Nonce", func(c harness.Credentials) *harness.Request { return c.Get().Set("X-Nonce", "a b").Sign(c.Secret) }},
	"milliseconds":        {"timestamp_in_milliseconds", stamping(func() string { return strconv.FormatInt(time.Now().UnixMilli(), 10) })},
	"ISO 8601":            {"timestamp_iso_8601", stamping(func() string { return harness.Moment(time.Now()) })},
	"slow clock":          {"timestamp_behind", stamping(func() string { return strconv.FormatInt(time.Now().Unix()-1000, 10) })},
	"fast clock":          {"timestamp_ahead", stamping(func() string { return strconv.FormatInt(time.Now().Unix()+1000, 10) })},
	"hexadecimal":         {"form_hexadecimal", writing(hex.EncodeToString)},
	"upper-case hex":      {"form_hexadecimal", writing(func(sum []byte) string { return strings.ToUpper(hex.EncodeToString(sum)) })},
	"base64 of hex":       {"form_base64_of_hexadecimal", writing(func(sum []byte) string { return base64.StdEncoding.EncodeToString([]byte(hex.EncodeToString(sum))) })},
	"no padding":          {"form_without_padding", writing(base64.RawStdEncoding.EncodeToString)},
	"prefix":              {"form_prefix", writing(func(sum []byte) string { return "sha256=" + base64.StdEncoding.EncodeToString(sum) })},
	"structured field":    {"form_prefix", writing(func(sum []byte) string { return "sha-256=:" + base64.StdEncoding.EncodeToString(sum) + ":" })},
	"quotes":              {"form_quotes", writing(func(sum []byte) string { return `"` + base64.StdEncoding.EncodeToString(sum) + `"` })},
	"line feed in header": {"form_line_feed", writing(func(sum []byte) string { return base64.StdEncoding.EncodeToString(sum) + `\n` })},
	"SHA-512":             {"form_length", writing(func(sum []byte) string { s := sha512.Sum512(sum); return base64.StdEncoding.EncodeToString(s[:]) })},
	"hash in hexadecimal": {"form_hexadecimal", hashing(func(body string) string { return hex.EncodeToString(sumOf(body)) })},
	"URL-safe hash": {"form_base64url", func(c harness.Credentials) *harness.Request {
		return c.Request("POST", "/api/v1/cards", "7").Set("X-Body-Hash", base64.URLEncoding.EncodeToString(sumOf("7"))).Sign(c.Secret)
	}},
	"hash of hexadecimal": {"hash_of_hexadecimal", hashing(func(body string) string { return harness.BodyHash(hex.EncodeToString(sumOf(body))) })},
	"hash of nothing":     {"hash_of_nothing", hashing(func(string) string { return harness.BodyHash("") })},
	"body as hash":        {"hash_is_body", hashing(func(body string) string { return body })},
	"body not sent":       {"body_absent", sending("")},
	"line feed sent":      {"body_final_line_feed", sending(mistakenBody + "\n")},
	"line feed hashed":    {"body_without_final_line_feed", hashing(func(body string) string { return harness.BodyHash(body + "\n") })},
	"CR LF sent": {"body_crlf", func(c harness.Credentials) *harness.Request {
		r := c.Request("POST", "/api/v1/cards", "[\n1]")
		r.Body = "[\r\n1]"
		return r
	}},
	"byte order mark":     {"body_byte_order_mark", sending("\ufeff" + mistakenBody)},
	"Latin-1":             {"body_charset", hashing(func(body string) string { return harness.BodyHash(strings.ReplaceAll(body, "ë", "\xeb")) })},
	"serialised, compact": {"body_reserialised_compact", hashing(func(string) string { return harness.BodyHash(`{"name":"Zoë","n":[1,2]}`) })},
	"serialised, indented": {"body_reserialised_indented", hashing(func(string) string {
		return harness.BodyHash("{\n  \"name\": \"Zoë\",\n  \"n\": [\n    1,\n    2\n  ]\n}")
	})},
	"body changed":        {"body_changed", sending(`{"name":"Zoe"}`)},
	"no query":            {"target_without_query", signingTarget(mistakenTarget, "/api/v1/transactions")},
	"full URL":            {"target_full_url", signingTarget(mistakenTarget, "https://gw.example"+mistakenTarget)},
	"host and path":       {"target_with_host", signingTarget(mistakenTarget, "gw.example"+mistakenTarget)},
	"no base path":        {"target_without_base", signingTarget(mistakenTarget, strings.TrimPrefix(mistakenTarget, "/api/v1"))},
	"decoded":             {"target_decoded", signingTarget(mistakenTarget, "/api/v1/transactions?to=b&from=a b")},
	"encoded otherwise":   {"target_reencoded", signingTarget("/api/v1/transactions?q=%2fa", "/api/v1/transactions?q=%2Fa")},
	"sorted":              {"target_sorted", signingTarget(mistakenTarget, "/api/v1/transactions?from=a%20b&to=b")},
	"plus":                {"target_plus", signingTarget(mistakenTarget, "/api/v1/transactions?to=b&from=a+b")},
	"lone question mark":  {"target_question_mark", signingTarget("/api/v1/transactions?", "/api/v1/transactions")},
	"trailing slash":      {"target_trailing_slash", signingTarget("/api/v1/transactions", "/api/v1/transactions/")},
	"lower-case method":   {"method_lower_case", signing(func(p []string) string { return "get\n" + strings.Join(p[1:], "\n") })},
	"other method":        {"method_other", signing(func(p []string) string { return "POST\n" + strings.Join(p[1:], "\n") })},
	"final line feed":     {"text_final_line_feed", signing(func(p []string) string { return strings.Join(p, "\n") + "\n" })},
	"CR LF between":       {"text_crlf", signing(func(p []string) string { return strings.Join(p, "\r\n") })},
	"backslash n":         {"text_backslash_n", signing(func(p []string) string { return strings.Join(p, `\n`) })},
	"no separators":       {"text_separators", signing(func(p []string) string { return strings.Join(p, "") })},
	"wrong order":         {"text_order", signing(func(p []string) string { return strings.Join([]string{p[2], p[0], p[1], p[3], p[4]}, "\n") })},
	"missing part":        {"text_missing_part", signing(func(p []string) string { return strings.Join(p[:4], "\n") })},
	"milliseconds signed": {"text_timestamp", signing(func(p []string) string { p[2] += "000"; return strings.Join(p, "\n") })},
	"secret from base64": {"secret_base64_decoded", signingWith(func(c harness.Credentials) string {
		raw, _ := base64.RawURLEncoding.DecodeString(c.Secret)
		return string(raw)
	})},
	"secret, line feed": {"secret_line_feed", signingWith(func(c harness.Credentials) string { return c.Secret + "\n" })},
	"key id as secret":  {"secret_is_key_id", signingWith(func(c harness.Credentials) string { return c.ID })},
	"secret not set":    {"secret_empty", signingWith(func(harness.Credentials) string { return "" })},
	"secret from base32": {"secret_base32_decoded", signingWith(func(c harness.Credentials) string {
		raw, _ := base32.StdEncoding.WithPadding(base32.NoPadding).DecodeString(strings.ToUpper(c.Secret))
		return string(raw)
	})},
	"secret sent":    {"secret_sent", func(c harness.Credentials) *harness.Request { return c.Post().Set("X-Signature", c.Secret) }},
	"another secret": {"signature_unexplained", signingWith(func(c harness.Credentials) string { return c.Secret[1:] })},
}
