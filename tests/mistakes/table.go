package mistakes

import (
	"crypto/md5"  //nolint:gosec // a mistake
	"crypto/sha1" //nolint:gosec // a mistake
	"crypto/sha256"
	"crypto/sha512"
	"encoding/base32"
	"encoding/base64"
	"encoding/hex"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/card-gateway/card-gateway/tests/harness"
)

const (
	form        = "--b\r\nContent-Disposition: form-data; name=\"a\"\r\n\r\n1\r\n--b--\r\n"
	allFive     = "X-Api-Key X-Body-Hash X-Nonce X-Signature X-Timestamp"
	unexplained = "signature_unexplained"
)

// Table has the mistakes in the order of the rules.
var Table = []Mistake{
	// Rule 1: the headers.
	{Name: "header forgotten", Answer: "X-Nonce", Offline: Same, Make: changing(func(r *harness.Request) { r.Drop("X-Nonce") })},
	{Name: "header empty", Answer: "X-Body-Hash", Offline: Same, Make: changing(func(r *harness.Request) { r.Set("X-Body-Hash", "") })},
	{Name: "header of another name", Answer: "X-Signature", Offline: Same, Make: changing(func(r *harness.Request) { r.Add("X-Api-Signature", r.Value("X-Signature")).Drop("X-Signature") })},
	{Name: "header with underscores", Answer: "X-Nonce", Offline: "X-Nonce header_name", Make: changing(func(r *harness.Request) { r.Add("X_Nonce", r.Value("X-Nonce")).Drop("X-Nonce") })},
	{Name: "header added where it is set", Answer: "X-Timestamp", Offline: Same, Make: changing(func(r *harness.Request) { r.Add("X-Timestamp", r.Value("X-Timestamp")) })},
	{Name: "blank in the nonce", Answer: "X-Nonce", Offline: Same, Make: stating("X-Nonce", func() string { return "a b" })},
	{Name: "nonce of another alphabet", Answer: "X-Nonce", Offline: Same, Make: stating("X-Nonce", func() string { return "nönce" })},
	{Name: "long nonce", Answer: "X-Nonce", Offline: Same, Make: stating("X-Nonce", func() string { return strings.Repeat("n", 257) })},
	{Name: "all in Authorization", Answer: "", Offline: allFive, Make: func(c harness.Credentials) *harness.Request {
		return (&harness.Request{Method: http.MethodGet, Target: target}).Add("Authorization", "HMAC-SHA256 "+c.ID+":"+c.Get().Value("X-Signature"))
	}},

	// Rule 2: the key id. The answer cannot say more: nothing is known of the key.
	{Name: "key id cut", Answer: "", Offline: "key_id", Make: claiming(func(id string) string { return id[:12] })},
	{Name: "key id quoted", Answer: "", Offline: "key_id", Make: claiming(strconv.Quote)},
	{Name: "key id in upper case", Answer: "", Offline: "key_id", Make: claiming(strings.ToUpper)},
	{Name: "key of another environment", Answer: "", Offline: "", Make: claiming(func(id string) string { return strings.Replace(id, "_test_", "_live_", 1) })},

	// Rule 7: the time.
	{Name: "milliseconds", Answer: "timestamp_in_milliseconds", Offline: Same, Make: stating("X-Timestamp", func() string { return strconv.FormatInt(time.Now().UnixMilli(), 10) })},
	{Name: "microseconds", Answer: "timestamp_form", Offline: Same, Make: stating("X-Timestamp", func() string { return strconv.FormatInt(time.Now().UnixMicro(), 10) })},
	{Name: "seconds with a fraction", Answer: "timestamp_form", Offline: Same, Make: stating("X-Timestamp", func() string { return strconv.FormatInt(time.Now().Unix(), 10) + ".125" })},
	{Name: "exponent", Answer: "timestamp_form", Offline: Same, Make: stating("X-Timestamp", func() string { return strconv.FormatFloat(float64(time.Now().Unix()), 'e', -1, 64) })},
	{Name: "quoted time", Answer: "timestamp_form", Offline: Same, Make: stating("X-Timestamp", func() string { return strconv.Quote(strconv.FormatInt(time.Now().Unix(), 10)) })},
	{Name: "ISO 8601", Answer: "timestamp_iso_8601", Offline: Same, Make: stating("X-Timestamp", func() string { return harness.Moment(time.Now()) })},
	{Name: "date of HTTP", Answer: "timestamp_iso_8601", Offline: Same, Make: stating("X-Timestamp", func() string { return time.Now().UTC().Format(http.TimeFormat) })},
	{Name: "placeholder as time", Answer: "timestamp_form", Offline: Same, Make: stating("X-Timestamp", func() string { return "{{TIMESTAMP}}" })},
	{Name: "negative time", Answer: "timestamp_form", Offline: Same, Make: stating("X-Timestamp", func() string { return "-1750000000" })},
	{Name: "slow clock", Answer: "timestamp_behind", Offline: Same, Make: after(-1000 * time.Second)},
	{Name: "fast clock", Answer: "timestamp_ahead", Offline: Same, Make: after(1000 * time.Second)},
	{Name: "local time, west", Answer: "timestamp_behind", Offline: Same, Make: after(-5 * time.Hour)},
	{Name: "local time, east", Answer: "timestamp_ahead", Offline: Same, Make: after(2 * time.Hour)},

	// Rule 8: the nonce. It is refused from the second time on, which only the gateway sees.
	{Name: "fixed nonce", Answer: "nonce_used", Offline: "", Make: stating("X-Nonce", func() string { return "n-0001" })},

	// Rule 9: the form of X-Body-Hash, and what it is the hash of.
	{Name: "hash in hexadecimal", Answer: "form_hexadecimal", Offline: Same, Make: hashing(func(body string) string { return hex.EncodeToString(sum(body)) })},
	{Name: "hash of no body in hexadecimal", Answer: "form_hexadecimal", Offline: Same, Make: stating("X-Body-Hash", func() string { return hex.EncodeToString(sum("")) })},
	{Name: "URL-safe hash", Answer: "form_base64url", Offline: Same, Make: func(c harness.Credentials) *harness.Request {
		return c.Request("POST", "/api/v1/cards", "7").Set("X-Body-Hash", base64.URLEncoding.EncodeToString(sum("7"))).Sign(c.Secret)
	}},
	{Name: "hash without padding", Answer: "form_without_padding", Offline: Same, Make: hashing(func(body string) string { return base64.RawStdEncoding.EncodeToString(sum(body)) })},
	{Name: "hash as in Content-Digest", Answer: "form_prefix", Offline: Same, Make: hashing(func(body string) string { return "sha-256=:" + harness.BodyHash(body) + ":" })},
	{Name: "hash in base64 of hexadecimal", Answer: "form_base64_of_hexadecimal", Offline: Same, Make: hashing(func(body string) string { return b64([]byte(hex.EncodeToString(sum(body)))) })},
	{Name: "hash in base64 twice", Answer: "form_base64_twice", Offline: Same, Make: hashing(func(body string) string { return b64([]byte(harness.BodyHash(body))) })},
	{Name: "hash by SHA-1", Answer: "form_length", Offline: Same, Make: hashing(func(body string) string { return b64(digest(sha1.New, body)) })},
	{Name: "hash by SHA-512", Answer: "form_length", Offline: Same, Make: hashing(func(body string) string { return b64(digest(sha512.New, body)) })},
	{Name: "hash by MD5", Answer: "form_length", Offline: Same, Make: hashing(func(body string) string { return b64(digest(md5.New, body)) })},
	{Name: "hash by MD5 in hexadecimal", Answer: "form_hexadecimal form_length", Offline: Same, Make: hashing(func(body string) string { return hex.EncodeToString(digest(md5.New, body)) })},
	{Name: "hash of hexadecimal", Answer: "hash_of_hexadecimal", Offline: Same, Make: hashing(func(body string) string { return harness.BodyHash(hex.EncodeToString(sum(body))) })},
	{Name: "hash of nothing", Answer: "hash_of_nothing", Offline: Same, Make: hashing(func(string) string { return harness.BodyHash("") })},
	{Name: "hash of an object's name", Answer: "hash_of_text", Offline: Same, Make: hashing(func(string) string { return harness.BodyHash("[object Object]") })},
	{Name: "hash of {} for no body", Answer: "hash_of_text", Offline: Same, Make: stating("X-Body-Hash", func() string { return harness.BodyHash("{}") })},
	{Name: "hash of null for no body", Answer: "hash_of_text", Offline: Same, Make: stating("X-Body-Hash", func() string { return harness.BodyHash("null") })},
	{Name: "body as hash", Answer: "hash_is_body", Offline: Same, Make: hashing(func(body string) string { return b64([]byte(body)) })},

	// Rule 9: the body.
	{Name: "body not sent", Answer: "body_absent", Offline: Same, Make: sending(body, "")},
	{Name: "line feed sent", Answer: "body_final_line_feed", Offline: Same, Make: sending(body, body+"\n")},
	{Name: "line feed hashed", Answer: "body_without_final_line_feed", Offline: Same, Make: sending(body+"\n", body)},
	{Name: "CR LF sent", Answer: "body_crlf", Offline: Same, Make: sending("[\n1]", "[\r\n1]")},
	{Name: "CR LF hashed", Answer: "body_lf", Offline: Same, Make: sending("[\r\n1]", "[\n1]")},
	{Name: "byte order mark sent", Answer: "body_byte_order_mark", Offline: Same, Make: sending(body, "\ufeff"+body)},
	{Name: "byte order mark hashed", Answer: "body_byte_order_mark", Offline: Same, Make: sending("\ufeff"+body, body)},
	{Name: "Latin-1 hashed", Answer: "body_charset", Offline: Same, Make: sending(strings.ReplaceAll(body, "ë", "\xeb"), body)},
	{Name: "Latin-1 sent", Answer: "body_charset", Offline: Same, Make: sending(body, strings.ReplaceAll(body, "ë", "\xeb"))},
	{Name: "compact hashed", Answer: "body_reserialised_compact", Offline: Same, Make: sending(`{"name":"Zoë","n":[1,2]}`, body)},
	{Name: "blanks of Python hashed", Answer: "body_reserialised_compact", Offline: Same, Make: sending(`{"name": "Zoë", "n": [1, 2]}`, body)},
	{Name: "indented hashed", Answer: "body_reserialised_indented", Offline: Same, Make: sending("{\n  \"name\": \"Zoë\",\n  \"n\": [\n    1,\n    2\n  ]\n}", body)},
	{Name: "indented by four hashed", Answer: "body_reserialised_indented", Offline: Same, Make: sending("{\n    \"name\": \"Zoë\",\n    \"n\": [\n        1,\n        2\n    ]\n}", body)},
	{Name: "names sorted, hashed", Answer: "body_names_order", Offline: Same, Make: sending(`{"n":[1,2],"name":"Zoë"}`, body)},
	{Name: "escapes hashed", Answer: "body_escapes", Offline: Same, Make: sending(strings.ReplaceAll(body, "ë", `\u00eb`), body)},
	{Name: "escapes sent", Answer: "body_escapes", Offline: Same, Make: sending(body, strings.ReplaceAll(body, "ë", `\u00EB`))},
	{Name: "slashes escaped when hashed", Answer: "body_escapes", Offline: Same, Make: sending(`{"u":"a\/b"}`, `{"u":"a/b"}`)},
	{Name: "slashes sent escaped", Answer: "body_escapes", Offline: Same, Make: sending(`{"u":"a/b"}`, `{"u":"a\/b"}`)},
	{Name: "escapes of HTML hashed", Answer: "body_escapes", Offline: Same, Make: sending(`{"u":"a\u003cb"}`, `{"u":"a<b"}`)},
	{Name: "whole numbers hashed", Answer: "body_numbers", Offline: Same, Make: sending(`{"n":[1,2,2.50],"m":10}`, `{"n":[1.0,2.0,2.50],"m":10.00}`)},
	{Name: "whole numbers sent", Answer: "body_numbers", Offline: Same, Make: sending(`{"n":[1.0,2.0,2.50],"m":10.0}`, `{"n":[1,2,2.50],"m":10}`)},
	{Name: "whole amounts sent", Answer: "body_numbers", Offline: Same, Make: sending(`{"amount":10.00}`, `{"amount":10}`)},
	{Name: "serialised twice", Answer: "body_json_string", Offline: Same, Make: sending(`{"a":1}`, `"{\"a\":1}"`)},
	{Name: "compressed", Answer: "body_compressed", Offline: Same, Make: sending(body, gzipped(body))},
	{Name: "length in characters", Answer: "body_cut", Offline: Same, Make: sending(body, body[:len(body)-1])},
	{Name: "another boundary", Answer: "body_boundary", Offline: Same, Make: sending(strings.ReplaceAll(form, "--b", "--c"), form)},
	{Name: "names sorted, sent", Answer: "body_names_order", Offline: Same, Make: sending(`{"id":"p","amount":{"value":[1,2],"at":"a,b"},"b":1,"a":2}`, `{"a":2,"amount":{"value":[1,2],"at":"a,b"},"b":1,"id":"p"}`)},
	{Name: "names sorted, hashed as Python writes", Answer: "body_names_order", Offline: Same, Make: sending(`{"c": 1, "b": [1, 2], "a": "a,b"}`, `{"a":"a,b","b":[1,2],"c":1}`)},
	{Name: "names of a large object", Answer: "body_changed", Offline: Same, Make: sending(`{"f":6,"e":5,"d":4,"c":3,"a":1,"b":2}`, `{"a":1,"b":2,"c":3,"d":4,"e":5,"f":6}`)},
	{Name: "blank of a form", Answer: "body_changed", Offline: Same, Make: sending("a=b+c", "a=b%20c")},
	{Name: "body changed by a proxy", Answer: "body_changed", Offline: Same, Make: sending(body, `{"name":"Zoe"}`)},

	// Rule 10: the form of X-Signature.
	{Name: "hexadecimal", Answer: "form_hexadecimal", Offline: Same, Make: writing(hex.EncodeToString)},
	{Name: "upper-case hexadecimal", Answer: "form_hexadecimal", Offline: Same, Make: writing(func(sum []byte) string { return strings.ToUpper(hex.EncodeToString(sum)) })},
	{Name: "base64 of hexadecimal", Answer: "form_base64_of_hexadecimal", Offline: Same, Make: writing(func(sum []byte) string { return b64([]byte(hex.EncodeToString(sum))) })},
	{Name: "no padding", Answer: "form_without_padding", Offline: Same, Make: writing(base64.RawStdEncoding.EncodeToString)},
	{Name: "URL-safe", Answer: "form_base64url", Offline: Same, Make: writingOne("+/", base64.URLEncoding.EncodeToString)},
	{Name: "prefix", Answer: "form_prefix", Offline: Same, Make: writing(func(sum []byte) string { return "sha256=" + b64(sum) })},
	{Name: "scheme", Answer: "form_prefix", Offline: Same, Make: writing(func(sum []byte) string { return "HMAC-SHA256 " + b64(sum) })},
	{Name: "quotes", Answer: "form_quotes", Offline: Same, Make: writing(func(sum []byte) string { return strconv.Quote(b64(sum)) })},
	{Name: "line feed", Answer: "form_line_feed", Offline: Same, Make: writing(func(sum []byte) string { return b64(sum) + `\n` })},
	{Name: "percent-encoded", Answer: "form_percent_encoded", Offline: Same, Make: writing(func(sum []byte) string { return strings.ReplaceAll(b64(sum), "=", "%3D") })},
	{Name: "broken lines", Answer: "form_blank", Offline: Same, Make: writing(func(sum []byte) string { return b64(sum)[:20] + " " + b64(sum)[20:] })},
	{Name: "plus decoded", Answer: "form_blank", Offline: Same, Make: writingOne("+", func(sum []byte) string { return b64(sum)[:1] + strings.ReplaceAll(b64(sum)[1:], "+", " ") })},
	{Name: "lower case", Answer: "form_letter_case", Offline: Same, Make: writing(func(sum []byte) string { return strings.ToLower(b64(sum)) })},
	{Name: "base64 twice", Answer: "form_base64_twice", Offline: Same, Make: writing(func(sum []byte) string { return b64([]byte(b64(sum))) })},
	{Name: "cut", Answer: "form_length", Offline: Same, Make: writing(func(sum []byte) string { return b64(sum)[:40] })},
	{Name: "other unused bits", Answer: "form_spelling", Offline: Same, Make: writing(twin)},
	{Name: "placeholder", Answer: "form_unreadable", Offline: Same, Make: writing(func([]byte) string { return "{{signature}}" })},
	{Name: "secret sent", Answer: "secret_sent", Offline: Same, Make: func(c harness.Credentials) *harness.Request { return c.Post().Set("X-Signature", c.Secret) }},

	// Rule 10: path and method.
	{Name: "no query", Answer: "target_without_query", Offline: Same, Make: signingTarget(target, "/api/v1/transactions")},
	{Name: "query on its own line", Answer: "target_query_apart", Offline: Same, Make: signingPart(1, func(target string) string { return strings.Replace(target, "?", "\n", 1) })},
	{Name: "full URL", Answer: "target_full_url", Offline: Same, Make: signingTarget(target, "https://gw.example"+target)},
	{Name: "full URL behind a proxy", Answer: "target_full_url", Offline: Same, Make: signingTarget(target, "http://gw.example"+target)},
	{Name: "host and path", Answer: "target_with_host", Offline: Same, Make: signingTarget(target, "gw.example"+target)},
	{Name: "no base path", Answer: "target_without_base", Offline: Same, Make: signingTarget(target, strings.TrimPrefix(target, "/api/v1"))},
	{Name: "no slash at the start", Answer: "target_without_base", Offline: Same, Make: signingTarget(target, target[1:])},
	{Name: "prefix that a proxy adds", Answer: "target_without_base", Offline: Same, Make: signingTarget(target, strings.TrimPrefix(target, "/api"))},
	{Name: "prefix that a proxy takes away", Answer: "target_with_prefix", Offline: Same, Make: signingTarget(target, "/gateway"+target)},
	{Name: "fragment", Answer: unexplained, Offline: "target_with_fragment", Make: signingTarget(target, target+"#top"), Fragment: "top"},
	{Name: "decoded", Answer: "target_decoded", Offline: Same, Make: signingTarget(target, "/api/v1/transactions?to=b&from=a b")},
	{Name: "lower-case escapes", Answer: "target_reencoded", Offline: Same, Make: signingTarget("/api/v1/transactions?q=%2fa", "/api/v1/transactions?q=%2Fa")},
	{Name: "encoded twice", Answer: "target_reencoded", Offline: Same, Make: signingTarget(target, "/api/v1/transactions?to=b&from=a%2520b")},
	{Name: "decoded tilde", Answer: "target_reencoded", Offline: Same, Make: signingTarget("/api/v1/transactions?q=%7Ea%2F", "/api/v1/transactions?q=~a%2F")},
	{Name: "encoded quote", Answer: "target_reencoded", Offline: Same, Make: signingTarget("/api/v1/transactions?q='a'", "/api/v1/transactions?q=%27a%27")},
	{Name: "sorted", Answer: "target_sorted", Offline: Same, Make: signingTarget(target, "/api/v1/transactions?from=a%20b&to=b")},
	{Name: "sorted and re-encoded", Answer: "target_sorted", Offline: Same, Make: signingTarget(target, "/api/v1/transactions?from=a+b&to=b")},
	{Name: "plus", Answer: "target_plus", Offline: Same, Make: signingTarget(target, "/api/v1/transactions?to=b&from=a+b")},
	{Name: "lone question mark sent", Answer: "target_question_mark", Offline: Same, Make: signingTarget("/api/v1/transactions?", "/api/v1/transactions")},
	{Name: "lone question mark signed", Answer: "target_question_mark", Offline: Same, Make: signingTarget("/api/v1/transactions", "/api/v1/transactions?")},
	{Name: "trailing slash signed", Answer: "target_trailing_slash", Offline: Same, Make: signingTarget("/api/v1/transactions", "/api/v1/transactions/")},
	{Name: "trailing slash sent", Answer: "target_trailing_slash", Offline: Same, Make: signingTarget("/api/v1/transactions/?a=1", "/api/v1/transactions?a=1")},
	{Name: "lower-case path", Answer: "target_letter_case", Offline: Same, Make: signingTarget("/api/v1/Customers", "/api/v1/customers")},
	{Name: "another path", Answer: unexplained, Offline: Same, Make: signingTarget("/api/v1/cards/1", "/api/v1/cards/2")},
	{Name: "lower-case method", Answer: "method_lower_case", Offline: Same, Make: signingPart(0, strings.ToLower)},
	{Name: "other method", Answer: "method_other", Offline: Same, Make: signingPart(0, func(string) string { return "POST" })},

	// Rule 10: the rest of the string to sign.
	{Name: "final line feed", Answer: "text_final_line_feed", Offline: Same, Make: signing(func(p []string) string { return joined(p) + "\n" })},
	{Name: "CR LF between", Answer: "text_crlf", Offline: Same, Make: signing(func(p []string) string { return strings.Join(p, "\r\n") })},
	{Name: "backslash n", Answer: "text_backslash_n", Offline: Same, Make: signing(func(p []string) string { return strings.Join(p, `\n`) })},
	{Name: "no separators", Answer: "text_separators", Offline: Same, Make: signing(func(p []string) string { return strings.Join(p, "") })},
	{Name: "colons between", Answer: "text_separators", Offline: Same, Make: signing(func(p []string) string { return strings.Join(p, ":") })},
	{Name: "dots between", Answer: "text_separators", Offline: Same, Make: signing(func(p []string) string { return strings.Join(p, ".") })},
	{Name: "timestamp first", Answer: "text_order", Offline: Same, Make: signing(func(p []string) string { return joined([]string{p[2], p[0], p[1], p[3], p[4]}) })},
	{Name: "nonce before the timestamp", Answer: "text_order", Offline: Same, Make: signing(func(p []string) string { return joined([]string{p[0], p[1], p[3], p[2], p[4]}) })},
	{Name: "no body hash", Answer: "text_missing_part", Offline: Same, Make: signing(func(p []string) string { return joined(p[:4]) })},
	{Name: "no nonce", Answer: "text_missing_part", Offline: Same, Make: signing(func(p []string) string { return joined([]string{p[0], p[1], p[2], p[4]}) })},
	{Name: "key id in it", Answer: "text_key_id", Offline: Same, Make: func(c harness.Credentials) *harness.Request {
		r := c.Get()
		return r.Set("X-Signature", b64(mac(sha256.New, c.Secret, c.ID+"\n"+joined(parts(r)))))
	}},
	{Name: "host in it", Answer: "text_extra_part", Offline: Same, Make: signing(func(p []string) string { return joined([]string{p[0], "gw.example", p[1], p[2], p[3], p[4]}) })},
	{Name: "UTF-16", Answer: "text_utf16", Offline: Same, Make: signing(func(p []string) string { return utf16(joined(p), 0) })},
	{Name: "UTF-16, big-endian", Answer: "text_utf16", Offline: Same, Make: signing(func(p []string) string { return utf16(joined(p), 1) })},
	{Name: "hashed before", Answer: "text_hashed", Offline: Same, Make: signing(func(p []string) string { return string(sum(joined(p))) })},
	{Name: "hashed before, in hexadecimal", Answer: "text_hashed", Offline: Same, Make: signing(func(p []string) string { return hex.EncodeToString(sum(joined(p))) })},
	{Name: "milliseconds signed", Answer: "text_timestamp", Offline: Same, Make: signingPart(2, func(stamp string) string { return stamp + "000" })},
	{Name: "clock read twice", Answer: "text_timestamp", Offline: Same, Make: signingPart(2, func(stamp string) string { n, _ := strconv.Atoi(stamp); return strconv.Itoa(n - 1) })},
	{Name: "nonce made twice", Answer: unexplained, Offline: Same, Make: signingPart(3, func(string) string { return "another" })},
	{Name: "nonce in lower case", Answer: "text_nonce", Offline: Same, Make: signingPart(3, strings.ToLower)},
	{Name: "hash signed in hexadecimal", Answer: "text_body_hash", Offline: Same, Make: signingPart(4, func(string) string { return hex.EncodeToString(sum("")) })},
	{Name: "body signed", Answer: unexplained, Offline: "text_body", Make: func(c harness.Credentials) *harness.Request {
		r := c.Post()
		return r.Set("X-Signature", b64(mac(sha256.New, c.Secret, joined(append(parts(r)[:4], r.Body)))))
	}},
	{Name: "names of the headers in it", Answer: unexplained, Offline: Same, Make: signing(func(p []string) string { return "x-timestamp:" + p[2] + "\nx-nonce:" + p[3] + "\n" + p[4] })},

	// Rule 10: secret and algorithm.
	{Name: "secret from base64", Answer: "secret_base64_decoded", Offline: Same, Make: reading(func(secret string) string {
		raw, _ := base64.RawURLEncoding.DecodeString(secret)
		return string(raw)
	})},
	{Name: "secret from base32", Answer: "secret_base32_decoded", Offline: Same, Make: reading(func(secret string) string {
		raw, _ := base32.StdEncoding.WithPadding(base32.NoPadding).DecodeString(strings.ToUpper(secret))
		return string(raw)
	})},
	{Name: "secret in base64", Answer: "secret_encoded", Offline: Same, Make: reading(func(secret string) string { return b64([]byte(secret)) })},
	{Name: "secret in hexadecimal", Answer: "secret_encoded", Offline: Same, Make: reading(hexOf)},
	{Name: "secret in UTF-16", Answer: "secret_encoded", Offline: Same, Make: reading(func(secret string) string { return utf16(secret, 0) })},
	{Name: "secret, line feed", Answer: "secret_line_feed", Offline: Same, Make: reading(func(secret string) string { return secret + "\n" })},
	{Name: "secret, blank behind", Answer: "secret_blank", Offline: Same, Make: reading(func(secret string) string { return secret + " " })},
	{Name: "secret, tab before", Answer: "secret_blank", Offline: Same, Make: reading(func(secret string) string { return "\t" + secret })},
	{Name: "secret, carriage return", Answer: "secret_blank", Offline: Same, Make: reading(func(secret string) string { return secret + "\r" })},
	{Name: "secret, byte order mark", Answer: "secret_blank", Offline: Same, Make: reading(func(secret string) string { return "\ufeff" + secret })},
	{Name: "secret, quotes", Answer: "secret_quotes", Offline: Same, Make: reading(strconv.Quote)},
	{Name: "secret not set", Answer: "secret_empty", Offline: Same, Make: reading(func(string) string { return "" })},
	{Name: "secret undefined", Answer: "secret_placeholder", Offline: Same, Make: reading(func(string) string { return "undefined" })},
	{Name: "variable in single quotes", Answer: "secret_placeholder", Offline: Same, Make: reading(func(string) string { return "$CARD_SECRET" })},
	{Name: "key id as secret", Answer: "secret_is_key_id", Offline: Same, Make: signingWith(func(c harness.Credentials) string { return c.ID })},
	{Name: "secret cut", Answer: unexplained, Offline: Same, Make: reading(func(secret string) string { return secret[1:] })},
	{Name: "secret of another environment", Answer: unexplained, Offline: Same, Make: reading(func(string) string { return "the secret of the key of another environment" })},
	{Name: "key and message swapped", Answer: "secret_swapped", Offline: Same, Make: signingBy(func(secret, text string) []byte { return mac(sha256.New, text, secret) })},
	{Name: "hash of secret and text", Answer: "signature_plain_hash", Offline: Same, Make: signingBy(func(secret, text string) []byte { return sum(secret + text) })},
	{Name: "hash of text and secret", Answer: "signature_plain_hash", Offline: Same, Make: signingBy(func(secret, text string) []byte { return sum(text + secret) })},
	{Name: "HMAC-SHA1", Answer: "signature_algorithm", Offline: Same, Make: signingBy(func(secret, text string) []byte { return mac(sha1.New, secret, text) })},
	{Name: "HMAC-SHA384", Answer: "signature_algorithm", Offline: Same, Make: signingBy(func(secret, text string) []byte { return mac(sha512.New384, secret, text) })},
	{Name: "HMAC-SHA512", Answer: "signature_algorithm", Offline: Same, Make: signingBy(func(secret, text string) []byte { return mac(sha512.New, secret, text) })},
	{Name: "HMAC-MD5", Answer: "signature_algorithm", Offline: Same, Make: signingBy(func(secret, text string) []byte { return mac(md5.New, secret, text) })},
}

// twin returns the base64 with other unused bits at its end.
func twin(sum []byte) string {
	const alphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"
	text := b64(sum)
	return text[:42] + string(alphabet[strings.IndexByte(alphabet, text[42])^1]) + "="
}
