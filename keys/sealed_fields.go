package keys

import (
	"encoding/binary"
	"encoding/json"
	"maps"
	"slices"
	"strconv"
	"time"

	"github.com/card-gateway/card-gateway/store"
)

// A sealedField is a field of a record that its seal covers. The value is
// appended to text in a form that cannot be read two ways, and that is the same
// before a backend has stored the record and after.
type sealedField struct {
	name  string
	value func(text []byte, r *store.Record) []byte
}

// sealedFields are all fields of a record that grant something or say whose the
// key is. The others are:
//
//   - revision, lock and the count of failures, which a request may change, and
//     when the secrets were last used: backends write these without the master key
//   - updated_at, which a lock changes, too. It grants nothing: what it bounds,
//     debug_until, is bounded before it is sealed.
var sealedFields = []sealedField{
	{"id", func(t []byte, r *store.Record) []byte { return append(t, r.ID...) }},
	{"tenant", func(t []byte, r *store.Record) []byte { return append(t, r.Tenant...) }},
	{"description", func(t []byte, r *store.Record) []byte { return append(t, r.Description...) }},
	{"scopes", func(t []byte, r *store.Record) []byte { return appendTexts(t, r.Scopes) }},
	{"allowed_ips", appendAllowedIPs},
	{"expires_at", func(t []byte, r *store.Record) []byte { return appendTime(t, r.ExpiresAt) }},
	{"disabled", func(t []byte, r *store.Record) []byte { return strconv.AppendBool(t, r.Disabled) }},
	{"limits", appendLimits},
	{"customer_variant", func(t []byte, r *store.Record) []byte { return append(t, r.CustomerVariant...) }},
	{"debug_until", func(t []byte, r *store.Record) []byte { return appendTime(t, r.DebugUntil) }},
	{"imported", func(t []byte, r *store.Record) []byte { return strconv.AppendBool(t, r.Imported) }},
	{"stamped_after", func(t []byte, r *store.Record) []byte { return appendTime(t, r.StampedAfter) }},
	{"created_at", func(t []byte, r *store.Record) []byte { return appendTime(t, r.CreatedAt) }},
	{"secrets", appendSecrets},
}

// append appends the field to text: its name and its value, each with its length.
func (f *sealedField) append(text []byte, r *store.Record) []byte {
	text = appendText(text, f.name)
	at := len(text)
	text = f.value(append(text, 0, 0, 0, 0), r)
	binary.BigEndian.PutUint32(text[at:], uint32(len(text)-at-4))
	return text
}

// appendSealed appends all sealed fields of a record to text.
func appendSealed(text []byte, r *store.Record) []byte {
	for i := range sealedFields {
		text = sealedFields[i].append(text, r)
	}
	return text
}

func appendText[T string | []byte](t []byte, s T) []byte {
	return append(binary.BigEndian.AppendUint32(t, uint32(len(s))), s...)
}

func appendTexts(t []byte, list []string) []byte {
	t = binary.BigEndian.AppendUint32(t, uint32(len(list)))
	for _, s := range list {
		t = appendText(t, s)
	}
	return t
}

// appendTime appends nothing for the zero time, and else the moment.
func appendTime(t []byte, at time.Time) []byte {
	if at.IsZero() {
		return t
	}
	return at.UTC().AppendFormat(t, time.RFC3339Nano)
}

// appendAllowedIPs keeps apart no list, which allows any address, and an empty one.
func appendAllowedIPs(t []byte, r *store.Record) []byte {
	return appendTexts(strconv.AppendBool(t, r.AllowedIPs != nil), r.AllowedIPs)
}

// appendLimits appends the limits in the order of their names. Backends store the
// JSON of a limit in its compact form.
func appendLimits(t []byte, r *store.Record) []byte {
	t = binary.BigEndian.AppendUint32(t, uint32(len(r.Limits)))
	for _, name := range slices.Sorted(maps.Keys(r.Limits)) {
		compact, err := json.Marshal(r.Limits[name])
		if err != nil {
			compact = r.Limits[name] // no backend stores it
		}
		t = appendText(appendText(t, name), compact)
	}
	return t
}

func appendSecrets(t []byte, r *store.Record) []byte {
	t = binary.BigEndian.AppendUint32(t, uint32(len(r.Secrets)))
	for i := range r.Secrets {
		s := &r.Secrets[i]
		t = binary.BigEndian.AppendUint64(t, uint64(s.Version))
		t = appendText(appendText(t, s.Sealed), s.Fingerprint)
		t = appendText(t, appendTime(nil, s.CreatedAt))
		t = appendText(t, appendTime(nil, s.ExpiresAt))
	}
	return t
}
