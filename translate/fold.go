package translate

import (
	"maps"
	"unicode/utf8"
)

// Readers of JSON may ignore case (Go, .NET and Jackson can) and separators
// (Go and others can). Such a reader takes "Country" and "date-of-birth" for
// "country" and "date_of_birth". So a known field has exactly the published
// spellings, and any other name that folds to one of them is refused.

// maxFolded is more than the length of every known name.
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

// ownNames fold to "id" and are names of their own: databases and their
// libraries call a key of theirs so. No request sets the field id, so that no
// check is passed by.
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

// spelled returns the spelling of a known field that the name is, or that a
// reader may take it for; nil for any other name.
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

// known returns the published name that the name is, or that a reader may take
// it for; "" for any other name.
func (p published) known(name []byte) string {
	var room [maxFolded]byte
	return p[string(fold(room[:0], name))]
}

var (
	envelopeNames   = published{"data": "data", "pagination": "pagination", "requestid": "request_id", "timestamp": "timestamp"}
	paginationNames = published{"total": "total", "limit": "limit", "offset": "offset", "hasmore": "hasMore"}
)
