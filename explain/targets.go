package explain

import (
	"net/url"
	"slices"
	"strings"
)

// A target is a path with query that a client may have signed.
type target struct {
	Finding
	text string
}

// targets returns what clients sign in the place of path and query as sent.
func (e *explainer) targets() []target {
	path, query, hasQuery := strings.Cut(e.Target, "?")
	var all []target
	add := func(kind Kind, subject, text string) { all = append(all, target{Finding{kind, subject}, text}) }
	if query != "" {
		add(TargetNoQuery, "", path)
	}
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
	return all
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
