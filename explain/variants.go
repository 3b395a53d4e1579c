package explain

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"encoding/hex"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf16"

	"github.com/card-gateway/card-gateway/auth"
)

// MaxVariants is how many strings to sign are tried for one refusal.
const MaxVariants = 96

// A variant is a string to sign that a client may have signed.
type variant struct {
	Finding
	text string
}

// variantList collects strings to sign: no string twice, none that is the right
// one, at most MaxVariants.
type variantList struct {
	all  []variant
	seen map[string]bool
}

func (l *variantList) add(f Finding, text string) {
	if l.seen[text] || len(l.all) == MaxVariants {
		return
	}
	l.seen[text] = true
	l.all = append(l.all, variant{f, text})
}

// parts are the five components of a string to sign, in their order.
type parts [5]string

const (
	partMethod = iota
	partTarget
	partTimestamp
	partNonce
	partHash
)

var partNames = parts{"method", "path", "timestamp", "nonce", "body hash"}

func (p parts) text() string { return strings.Join(p[:], "\n") }

// with returns the parts with another one.
func (p parts) with(at int, text string) parts {
	p[at] = text
	return p
}

// maxText is the longest string to sign, in bytes, of which variants are tried.
// That of an accepted request fits, with room for what clients add.
const maxText = 16 << 10

// variants returns the other strings to sign of the request, each with the one
// mistake that leads to it.
func (e *explainer) variants(right string) []variant {
	if len(right) > maxText {
		return nil
	}
	h := &e.Credentials
	l := &variantList{seen: map[string]bool{right: true}}
	p := parts{e.Method, e.Target, h.Timestamp, h.Nonce, h.BodyHash}
	e.otherTexts(l, p)
	e.otherMethods(l, p)
	e.otherHashes(l, p)
	otherTimestamps(l, p)
	otherNonces(l, p)
	otherOrders(l, p)
	e.otherTargets(l, p)
	return l.all
}

// otherTexts adds the strings with other separators, another end, a part too
// few or too many.
func (e *explainer) otherTexts(l *variantList, p parts) {
	l.add(Finding{Kind: TextFinalLineFeed}, p.text()+"\n")
	l.add(Finding{Kind: TextBackslashN}, strings.Join(p[:], `\n`))
	l.add(Finding{Kind: TextCRLF}, strings.Join(p[:], "\r\n"))
	l.add(Finding{Kind: TextCRLF}, p.text()+"\r\n")
	for _, separator := range []struct{ text, name string }{{"", "nothing"}, {" ", "blanks"}, {"|", "|"}, {":", ":"}, {".", "."}, {",", ","}, {"&", "&"}} {
		l.add(Finding{TextNoSeparators, separator.name}, strings.Join(p[:], separator.text))
	}
	for at, name := range partNames {
		l.add(Finding{TextMissingPart, name}, strings.Join(slices.Delete(slices.Clone(p[:]), at, at+1), "\n"))
	}
	l.add(Finding{Kind: TextUTF16}, utf16Text(p.text(), binary.LittleEndian))
	l.add(Finding{Kind: TextUTF16}, utf16Text(p.text(), binary.BigEndian))
	if e.Host != "" {
		l.add(Finding{TextExtra, "the host"}, p.text()+"\n"+e.Host)
		l.add(Finding{TextExtra, "the host"}, e.Host+"\n"+p.text())
		l.add(Finding{TextExtra, "the host"}, strings.Join(slices.Insert(slices.Clone(p[:]), 1, e.Host), "\n"))
	}
	sum := sha256.Sum256([]byte(p.text()))
	for _, text := range []string{string(sum[:]), hex.EncodeToString(sum[:]), auth.EncodeHash(sum)} {
		l.add(Finding{Kind: TextHashed}, text)
	}
	l.add(Finding{Kind: TextKeyID}, e.Credentials.KeyID+"\n"+p.text())
	l.add(Finding{Kind: TextKeyID}, p.text()+"\n"+e.Credentials.KeyID)
}

func (e *explainer) otherMethods(l *variantList, p parts) {
	l.add(Finding{Kind: MethodCase}, p.with(partMethod, strings.ToLower(e.Method)).text())
	for _, method := range []string{"GET", "POST", "PUT", "PATCH", "DELETE", "HEAD"} {
		l.add(Finding{MethodOther, method}, p.with(partMethod, method).text())
	}
}

// otherHashes adds the strings with another body hash than the header has.
func (e *explainer) otherHashes(l *variantList, p parts) {
	add := func(how, hash string) { l.add(Finding{SignedHash, how}, p.with(partHash, hash).text()) }
	if raw := readForm(p[partHash]).raw; raw != nil {
		add("the standard base64", base64.StdEncoding.EncodeToString(raw))
		add("hexadecimal", hex.EncodeToString(raw))
		add("hexadecimal", strings.ToUpper(hex.EncodeToString(raw)))
		add("base64 without padding", base64.RawStdEncoding.EncodeToString(raw))
		add("URL-safe base64", base64.URLEncoding.EncodeToString(raw))
	}
	add("the hash of no bytes", auth.EmptyBodyHash)
	add("an empty text", "")
	if e.Body == nil {
		return
	}
	add("the hash of the body that came", auth.EncodeHash(e.Body.Sum))
	add("the hash of the body that came, in hexadecimal", hex.EncodeToString(e.Body.Sum[:]))
	if n := len(e.Body.Bytes); n > 0 && n <= MaxBody {
		l.add(Finding{Kind: SignedBody}, p.with(partHash, string(e.Body.Bytes)).text())
	}
}

func otherTimestamps(l *variantList, p parts) {
	add := func(how, stamp string) { l.add(Finding{SignedTimestamp, how}, p.with(partTimestamp, stamp).text()) }
	stamp := p[partTimestamp]
	if isMilliseconds(stamp) {
		add("seconds", stamp[:10])
		return
	}
	add("milliseconds", stamp+"000")
	if unix, ok := auth.ParseTimestamp(stamp); ok {
		for _, off := range []int64{-1, 1, -2, 2} {
			add("a moment earlier or later", strconv.FormatInt(unix+off, 10))
		}
		add("ISO 8601", time.Unix(unix, 0).UTC().Format(time.RFC3339))
	}
}

func otherNonces(l *variantList, p parts) {
	add := func(how, nonce string) { l.add(Finding{SignedNonce, how}, p.with(partNonce, nonce).text()) }
	add("lower case", strings.ToLower(p[partNonce]))
	add("upper case", strings.ToUpper(p[partNonce]))
	add("without hyphens", strings.ReplaceAll(p[partNonce], "-", ""))
}

// orders are the orders of the parts that clients are known to use.
var orders = [][]int{
	{partTimestamp, partMethod, partTarget, partNonce, partHash},
	{partTimestamp, partNonce, partMethod, partTarget, partHash},
	{partMethod, partTarget, partNonce, partTimestamp, partHash},
	{partMethod, partTarget, partHash, partTimestamp, partNonce},
	{partMethod, partTarget, partTimestamp, partHash, partNonce},
	{partTarget, partMethod, partTimestamp, partNonce, partHash},
}

func otherOrders(l *variantList, p parts) {
	for _, order := range orders {
		text, names := make([]string, len(order)), make([]string, len(order))
		for i, at := range order {
			text[i], names[i] = p[at], partNames[at]
		}
		l.add(Finding{TextOrder, strings.Join(names, ", ")}, strings.Join(text, "\n"))
	}
}

// otherTargets adds the strings with what clients sign in the place of path and query
// as sent.
func (e *explainer) otherTargets(l *variantList, p parts) {
	path, query, hasQuery := strings.Cut(e.Target, "?")
	add := func(kind Kind, subject, target string) {
		l.add(Finding{kind, subject}, p.with(partTarget, target).text())
	}
	if query != "" {
		add(TargetNoQuery, "", path)
		add(TargetQueryApart, "", path+"\n"+query)
	}
	add(TargetFragment, "", e.Target+"#"+e.Fragment)
	if e.Host != "" {
		add(TargetFullURL, "", "https://"+e.Host+e.Target)
		add(TargetFullURL, "", "http://"+e.Host+e.Target)
		add(TargetHost, "", e.Host+e.Target)
	}
	for _, base := range []string{"/api/v1", "/api", "/"} {
		if rest, ok := strings.CutPrefix(e.Target, base); ok {
			add(TargetNoBase, base, rest)
		}
	}
	if at := strings.Index(e.Target[1:], "/api/"); at >= 0 {
		add(TargetNoBase, e.Target[:at+1], e.Target[at+1:])
	}
	for _, prefix := range prefixes {
		add(TargetPrefix, prefix, prefix+e.Target)
	}
	if !hasQuery {
		add(TargetQuestionMark, "", path+"?")
	} else if query == "" {
		add(TargetQuestionMark, "", path)
	}
	add(TargetSlash, "", withQuery(path+"/", query))
	add(TargetSlash, "", withQuery(strings.TrimSuffix(path, "/"), query))
	add(TargetPlus, "+", withQuery(path, strings.ReplaceAll(query, "%20", "+")))
	add(TargetPlus, "%20", withQuery(path, strings.ReplaceAll(query, "+", "%20")))
	for _, sorted := range sortedQueries(query) {
		add(TargetSorted, "", withQuery(path, sorted))
	}
	add(TargetCase, "", withQuery(strings.ToLower(path), query))
	if strings.Contains(e.Target, "%") {
		add(TargetDecoded, "", unescape(e.Target, func(byte) bool { return true }))
		add(TargetDecoded, "", unescape(strings.ReplaceAll(e.Target, "+", " "), func(byte) bool { return true }))
	}
	for _, text := range reencoded(path, query) {
		add(TargetReencoded, "", text)
	}
}

// prefixes are what proxies in front of an API usually take away.
var prefixes = []string{"/api", "/gateway", "/cards", "/card-api", "/proxy", "/v1", "/prod", "/test", "/sandbox"}

// utf16Text returns the text in UTF-16 without a mark.
func utf16Text(text string, order binary.AppendByteOrder) string {
	var b []byte
	for _, unit := range utf16.Encode([]rune(text)) {
		b = order.AppendUint16(b, unit)
	}
	return string(b)
}

// withQuery joins a path and a query.
func withQuery(path, query string) string {
	if query == "" {
		return path
	}
	return path + "?" + query
}

// sortedQueries returns a query of several parameters in the orders that
// sorting clients write.
func sortedQueries(query string) []string {
	pairs := strings.Split(query, "&")
	if len(pairs) < 2 {
		return nil
	}
	byPair, byName := slices.Clone(pairs), slices.Clone(pairs)
	slices.Sort(byPair)
	slices.SortStableFunc(byName, func(a, b string) int {
		nameA, _, _ := strings.Cut(a, "=")
		nameB, _, _ := strings.Cut(b, "=")
		return strings.Compare(nameA, nameB)
	})
	sorted := []string{strings.Join(byPair, "&"), strings.Join(byName, "&")}
	if values, err := url.ParseQuery(query); err == nil {
		sorted = append(sorted, values.Encode(), strings.ReplaceAll(values.Encode(), "+", "%20"))
	}
	return sorted
}

// reencoded returns the target with the percent escapes that other libraries
// write.
func reencoded(path, query string) []string {
	raw := withQuery(path, query)
	decodedPath, decoded := unescape(path, func(byte) bool { return true }), reencodeQuery(query)
	goPath := (&url.URL{Path: decodedPath}).EscapedPath()
	return []string{
		eachEscape(raw, strings.ToUpper),
		eachEscape(raw, strings.ToLower),
		unescape(raw, isUnreserved),
		unescape(raw, func(c byte) bool { return isUnreserved(c) || strings.IndexByte("!'()*:@,;$", c) >= 0 }),
		unescape(raw, func(c byte) bool { return c >= 0x80 }),
		withQuery(goPath, query),
		withQuery(goPath, decoded),
		withQuery(path, decoded),
		withQuery(path, strings.ReplaceAll(decoded, "+", "%20")),
		strings.ReplaceAll(raw, "%", "%25"),
	}
}

// reencodeQuery decodes each name and value and encodes it again as forms are,
// in the same order.
func reencodeQuery(query string) string {
	pairs := strings.Split(query, "&")
	for i, pair := range pairs {
		name, value, hasValue := strings.Cut(pair, "=")
		pairs[i] = reencode(name)
		if hasValue {
			pairs[i] += "=" + reencode(value)
		}
	}
	return strings.Join(pairs, "&")
}

func reencode(text string) string {
	if decoded, err := url.QueryUnescape(text); err == nil {
		return url.QueryEscape(decoded)
	}
	return text
}

// unescape decodes the escapes of bytes that may be.
func unescape(text string, may func(byte) bool) string {
	return eachEscape(text, func(escape string) string {
		if c, err := url.PathUnescape(escape); err == nil && may(c[0]) {
			return c
		}
		return escape
	})
}

func eachEscape(text string, change func(string) string) string {
	var b strings.Builder
	for i := 0; i < len(text); i++ {
		if text[i] == '%' && i+2 < len(text) {
			b.WriteString(change(text[i : i+3]))
			i += 2
			continue
		}
		b.WriteByte(text[i])
	}
	return b.String()
}

func isUnreserved(c byte) bool {
	return 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9' || strings.IndexByte("-._~", c) >= 0
}
