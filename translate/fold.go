package translate

import (
	"maps"
	"unicode/utf8"
)

// Some readers of JSON ignore case (Go, .NET and Jackson can) or separators (Go
// and others can). Such a reader takes "Country" and "date-of-birth" for
// "country" and "date_of_birth". So only the published spellings of a known
// field are allowed. Any other name that folds to one of them is refused.

// maxFolded is a length in bytes that no known name reaches.
const maxFolded = 32

// fold appends the letters and digits of a name to dst, in lower case. It
// returns nil when no known name folds to the same text.
func fold(dst, name []byte) []byte {
	for len(name) > 0 {
		r, size := utf8.DecodeRune(name)
		name = name[size:]
		if separates(r) {
			continue
		}
		if r = folded(r); r >= utf8.RuneSelf || len(dst) == maxFolded {
			return nil
		}
		dst = append(dst, byte(r))
	}
	return dst
}

// ownNames fold to "id" but are different names: databases and their libraries
// use them for their own keys. They are safe to allow, because no request sets
// the field id and no check applies to it.
var ownNames = map[string]bool{"_id": true, "id_": true}

// foldings holds a spelling for each folded known name, by place. It stands
// for all names that fold to it and that no variant writes.
var foldings = func() (found [placeCount]map[string]*spelling) {
	for at := range found {
		found[at] = make(map[string]*spelling)
		for s := range maps.Values(spellings[at]) {
			key := string(fold(nil, []byte(s.text)))
			addSpelling(found[at], key, spelling{field: s.field, of: s.of, folded: true})
		}
	}
	return found
}()

// spelled returns the spelling of the known field that a reader may take the
// name for, in the published or in another spelling. It returns nil for any
// other name.
func spelled(at place, name []byte) *spelling {
	if s := spellings[at][string(name)]; s != nil {
		return s
	}
	if ownNames[string(name)] {
		return nil
	}
	var room [maxFolded]byte
	return foldings[at][string(fold(room[:0], name))]
}

// A published is a set of published names outside of customers, by folded
// name.
type published map[string]string

// known returns the published name that a reader may take the name for, or ""
// for any other name.
func (p published) known(name []byte) string {
	var room [maxFolded]byte
	return p[string(fold(room[:0], name))]
}

var (
	envelopeNames   = published{"data": "data", "pagination": "pagination", "requestid": "request_id", "timestamp": "timestamp"}
	paginationNames = published{"total": "total", "limit": "limit", "offset": "offset", "hasmore": "hasMore"}
)
