package keys

import (
	"crypto/hmac"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/binary"
	"errors"
	"fmt"

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
//	45  4 bytes for each sealed field, in their order: its mark
//
// The HMAC alone decides. A mark is the start of an HMAC of one field, and only
// serves to name the field that somebody has changed.
const (
	authorityVersion = 1
	authorityHead    = sealHeaderSize + 8
	authorityMarks   = authorityHead + sha256.Size
	markSize         = 4
)

// authorityUse is the use of the keys that seal records.
const authorityUse = "card-gateway authority v1"

// The first byte of what is authenticated, so that no mark is an HMAC of a record.
const (
	authorityOfRecord = 0
	authorityOfField  = 1
)

// sealRecord returns the seal of a record under the first master key, with a
// document version.
func (k *Keyring) sealRecord(r *store.Record, version uint64) []byte {
	key := &k.keys[0]
	seal := make([]byte, authorityMarks+markSize*len(sealedFields))
	seal[0] = authorityVersion
	copy(seal[1:], key.tag[:])
	binary.BigEndian.PutUint64(seal[sealHeaderSize:], version)
	for i := range sealedFields {
		copy(seal[authorityMarks+i*markSize:], key.mark(&sealedFields[i], r))
	}
	copy(seal[authorityHead:], key.authenticate(seal, r))
	return seal
}

// checkSeal returns nil if a gateway has written a sealed record as it is, and
// otherwise the first field that is not as it was written, and the reason.
func (k *Keyring) checkSeal(r *store.Record) (field string, err error) {
	seal := r.Seal
	switch {
	case seal[0] != authorityVersion:
		return fieldSeal, fmt.Errorf("it is in version %d of the format, this gateway knows version %d", seal[0], authorityVersion)
	case len(seal) != authorityMarks+markSize*len(sealedFields):
		return fieldSeal, fmt.Errorf("it is %d bytes long", len(seal))
	}
	index := k.sealer(seal)
	if index == len(k.keys) {
		return fieldSeal, ErrMasterKey
	}
	key := &k.keys[index]
	if subtle.ConstantTimeCompare(seal[authorityHead:authorityMarks], key.authenticate(seal, r)) == 1 {
		return "", nil
	}
	for i := range sealedFields {
		mark := seal[authorityMarks+i*markSize:][:markSize]
		if subtle.ConstantTimeCompare(mark, key.mark(&sealedFields[i], r)) != 1 {
			return sealedFields[i].name, errChanged
		}
	}
	return fieldSeal, errChanged
}

// fieldSeal is the name of the seal among the fields of a record.
const fieldSeal = "seal"

var errChanged = errors.New("no gateway has written this value")

// documentVersion returns the document version in a seal, and 0 for what is no
// seal. It proves nothing.
func documentVersion(seal []byte) uint64 {
	if len(seal) < authorityMarks {
		return 0
	}
	return binary.BigEndian.Uint64(seal[sealHeaderSize:])
}

// authenticate returns the HMAC of a record and of its seal but the HMAC in it.
func (k *masterKey) authenticate(seal []byte, r *store.Record) []byte {
	mac := hmac.New(sha256.New, k.authority)
	text := append(make([]byte, 0, 1024), authorityOfRecord)
	text = append(text, seal[:authorityHead]...)
	text = append(text, seal[authorityMarks:]...)
	mac.Write(appendSealed(text, r))
	return mac.Sum(nil)
}

// mark returns the mark of a field.
func (k *masterKey) mark(f *sealedField, r *store.Record) []byte {
	mac := hmac.New(sha256.New, k.authority)
	mac.Write(f.append([]byte{authorityOfField}, r))
	return mac.Sum(nil)[:markSize]
}
