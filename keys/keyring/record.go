package keyring

import (
	"crypto/hmac"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"time"

	"github.com/card-gateway/card-gateway/store"
)

// The seal of a record proves that a gateway with the master key wrote the record
// as it is. With all numbers in big endian:
//
//	 0  u8  version of the format, 1
//	 1  4 bytes tag of the master key
//	 5  u64 document version
//	13  32 bytes HMAC-SHA256 of all that follows from byte 45, of the bytes
//	    before 13, and of every sealed field
//	45  4 bytes for each sealed field, in their order: its check
//
// The HMAC alone decides. A check is the start of an HMAC of one field, and only
// serves to name the field that somebody has changed.
const (
	recordSealVersion = 1
	recordSealHeader  = sealedHeaderSize + 8
	recordSealChecks  = recordSealHeader + sha256.Size
	fieldCheckSize    = 4
)

// recordSealUse is the use of the keys that seal records.
const recordSealUse = "card-gateway authority v1"

// The first byte of what is authenticated, so that no check is an HMAC of a record.
const (
	recordMAC = 0
	fieldMAC  = 1
)

// SealRecord returns the seal of a record under the first master key, with a
// document version.
func (k *Ring) SealRecord(r *store.Record, version uint64) []byte {
	key := &k.keys[0]
	seal := make([]byte, recordSealChecks+fieldCheckSize*len(sealedFields))
	seal[0] = recordSealVersion
	copy(seal[1:], key.tag[:])
	binary.BigEndian.PutUint64(seal[sealedHeaderSize:], version)
	for i := range sealedFields {
		copy(seal[recordSealChecks+i*fieldCheckSize:], key.fieldCheck(&sealedFields[i], r))
	}
	copy(seal[recordSealHeader:], key.authenticate(seal, r))
	return seal
}

// CheckRecord returns nil if a gateway has written a sealed record as it is, and
// otherwise the first field that is not as it was written, and the reason.
func (k *Ring) CheckRecord(r *store.Record) (field string, err error) {
	seal := r.Seal
	switch {
	case seal[0] != recordSealVersion:
		return FieldSeal, fmt.Errorf("it is in version %d of the format, this gateway knows version %d", seal[0], recordSealVersion)
	case len(seal) != recordSealChecks+fieldCheckSize*len(sealedFields):
		return FieldSeal, fmt.Errorf("it is %d bytes long", len(seal))
	}
	index := k.Sealer(seal)
	if index == len(k.keys) {
		return FieldSeal, ErrMasterKey
	}
	key := &k.keys[index]
	if subtle.ConstantTimeCompare(seal[recordSealHeader:recordSealChecks], key.authenticate(seal, r)) == 1 {
		return "", nil
	}
	for i := range sealedFields {
		check := seal[recordSealChecks+i*fieldCheckSize:][:fieldCheckSize]
		if subtle.ConstantTimeCompare(check, key.fieldCheck(&sealedFields[i], r)) != 1 {
			return sealedFields[i].name, errChanged
		}
	}
	return FieldSeal, errChanged
}

// Digest returns a digest of everything in a record that a seal covers.
func Digest(r *store.Record) string {
	sum := sha256.Sum256(appendSealed(nil, r))
	return hex.EncodeToString(sum[:])
}

// FieldSeal is the name of the seal among the fields of a record.
const FieldSeal = "seal"

var errChanged = errors.New("no gateway has written this value")

// DocumentVersion returns the document version in a seal, and 0 for what is no
// seal. It proves nothing.
func DocumentVersion(seal []byte) uint64 {
	if len(seal) < recordSealChecks {
		return 0
	}
	return binary.BigEndian.Uint64(seal[sealedHeaderSize:])
}

// authenticate returns the HMAC of a record and of its seal but the HMAC in it.
func (k *masterKey) authenticate(seal []byte, r *store.Record) []byte {
	mac := hmac.New(sha256.New, k.recordKey)
	text := append(make([]byte, 0, 1024), recordMAC)
	text = append(text, seal[:recordSealHeader]...)
	text = append(text, seal[recordSealChecks:]...)
	mac.Write(appendSealed(text, r))
	return mac.Sum(nil)
}

// fieldCheck returns the check of a field.
func (k *masterKey) fieldCheck(f *sealedField, r *store.Record) []byte {
	mac := hmac.New(sha256.New, k.recordKey)
	mac.Write(f.append([]byte{fieldMAC}, r))
	return mac.Sum(nil)[:fieldCheckSize]
}

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

// SealedFields returns the names of the fields that a seal covers.
func SealedFields() []string {
	names := make([]string, 0, len(sealedFields))
	for i := range sealedFields {
		names = append(names, sealedFields[i].name)
	}
	return names
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
