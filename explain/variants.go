package explain

import (
	"encoding/base64"
	"encoding/hex"
	"slices"
	"strings"
	"time"

	"github.com/card-gateway/card-gateway/auth"
)

// MaxVariants is how many strings to sign are tried for one refusal.
const MaxVariants = 64

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
	otherOrders(l, p)
	for _, t := range e.targets() {
		l.add(t.Finding, p.with(partTarget, t.text).text())
	}
	return l.all
}

// otherTexts adds the strings with other separators, another end, a part too
// few or too many.
func (e *explainer) otherTexts(l *variantList, p parts) {
	l.add(Finding{Kind: TextFinalLineFeed}, p.text()+"\n")
	l.add(Finding{Kind: TextBackslashN}, strings.Join(p[:], `\n`))
	l.add(Finding{Kind: TextCRLF}, strings.Join(p[:], "\r\n"))
	l.add(Finding{Kind: TextCRLF}, p.text()+"\r\n")
	for _, separator := range []struct{ text, name string }{{"", "nothing"}, {" ", "blanks"}, {"|", "|"}} {
		l.add(Finding{TextNoSeparators, separator.name}, strings.Join(p[:], separator.text))
	}
	for at, name := range partNames {
		l.add(Finding{TextMissingPart, name}, strings.Join(slices.Delete(slices.Clone(p[:]), at, at+1), "\n"))
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
		add("ISO 8601", time.Unix(unix, 0).UTC().Format(time.RFC3339))
	}
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
