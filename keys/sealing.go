package keys

import (
	"context"
	"errors"
	"fmt"
	"hash/maphash"
	"slices"
	"sync"

	"github.com/card-gateway/card-gateway/keys/fields"
	"github.com/card-gateway/card-gateway/keys/keyring"
	"github.com/card-gateway/card-gateway/store"
)

// metaSealing names a value that is there once the keys of a store of version 0.1 were
// sealed. Until then no record of such a store gets a seal, so that gateways of that
// version, which drop it when they change a key, can use the store, too.
const metaSealing = "sealing"

// mustBeSealed reports whether a record of this store is refused without a seal. It loads
// the id key.
func (k *Service) mustBeSealed(ctx context.Context) (bool, error) {
	ids, err := k.idKey(ctx)
	return err == nil && (ids.sealed || k.opt.SealRequired), err
}

// sealsNew reports whether the record of a new key gets a seal. A store of version 0.1
// that was emptied gets its id key again: with another, its keys would need a seal.
func (k *Service) sealsNew(ctx context.Context) (bool, error) {
	if must, err := k.mustBeSealed(ctx); must || err != nil {
		return must, err
	}
	_, err := k.backend.PutMeta(ctx, metaIDKey, k.ring.Seal(k.ids.Load().bytes(), metaIDKey))
	if err == nil {
		_, err = k.backend.Meta(ctx, metaSealing)
	}
	if err != nil && !errors.Is(err, store.ErrNotFound) {
		return false, fmt.Errorf("reading whether the keys are sealed: %w", err)
	}
	return err == nil, nil
}

// sealRecord puts a seal on a record that is about to be written.
func (k *Service) sealRecord(r *store.Record) {
	r.DebugUntil = fields.DebugUntil(r)
	r.Seal = k.ring.SealRecord(r, k.nextVersion(r))
}

// rememberVersion remembers the document version of a record that was written.
func (k *Service) rememberVersion(r *store.Record) {
	if len(r.Seal) > 0 {
		k.opt.Versions.raise(r.ID, keyring.DocumentVersion(r.Seal))
	}
}

// nextVersion returns the document version of the next record of a key: the Unix
// time in milliseconds, or one more than the version before, whichever is more. So
// the versions also rise when a key is deleted and imported again.
func (k *Service) nextVersion(r *store.Record) uint64 {
	return max(keyring.DocumentVersion(r.Seal)+1, k.opt.Versions.highest(r.ID)+1, uint64(k.opt.Clock().UnixMilli()))
}

// Seal seals the record of a key that has no seal or that was forged. Whoever
// calls it approves everything that the key is granted. From then on the records of new
// keys are sealed also in a store of version 0.1. The digest is that of [SealView], as
// it was when the key was shown: if the record has changed since, the error is
// [ErrNotAsApproved]. The other errors are those of Update.
func (k *Service) Seal(ctx context.Context, id, digest string, by By) (Changed, error) {
	if digest == "" {
		return Changed{}, k.refuse(attempt{action: "seal", id: id, by: by, err: fields.Invalid("digest", "want the one that the key shows")})
	}
	if _, err := k.backend.PutMeta(ctx, metaSealing, []byte("1")); err != nil {
		err = fmt.Errorf("noting that the keys are sealed: %w", err)
		return Changed{}, k.refuse(attempt{action: "seal", id: id, by: by, err: err})
	}
	return k.change(ctx, id, by, edit{action: "seal", approved: digest, apply: func(r *store.Record) error {
		r.Seal = nil // nothing in it is proven
		r.DebugUntil = fields.DebugUntil(r)
		return nil
	}})
}

// The values of [SealView.State].
const (
	SealSealed   = "sealed"
	SealUnsealed = "unsealed" // and accepted
	SealRefused  = "refused"  // forged, or without the seal that is required
)

// SealStates returns the closed set of [SealView.State].
func SealStates() []string { return []string{SealSealed, SealUnsealed, SealRefused} }

// A SealView is what operators see of the seal of a record.
type SealView struct {
	State string `json:"state"`
	// DocumentVersion rises with each change of the key.
	DocumentVersion uint64 `json:"document_version,omitempty"`
	// Field and Problem are why the record is refused.
	Field   string `json:"field,omitempty"`
	Problem string `json:"problem,omitempty"`
	// Digest is that of the record, for [Service.Seal]; empty if it is sealed.
	Digest string `json:"digest,omitempty"`
}

// sealView returns the state of a record that is admitted, or was refused by err.
func sealView(r *store.Record, err error) SealView {
	if forged, ok := errors.AsType[*ForgedError](err); ok {
		return SealView{State: SealRefused, Field: forged.Field, Problem: forged.Reason(), Digest: keyring.Digest(r)}
	}
	if len(r.Seal) == 0 {
		return SealView{State: SealUnsealed, Digest: keyring.Digest(r)}
	}
	return SealView{State: SealSealed, DocumentVersion: keyring.DocumentVersion(r.Seal)}
}

// view returns the view of a record that was just read.
func (k *Service) view(ctx context.Context, r *store.Record) (View, error) {
	admitted, err := k.authentic(ctx, r)
	if err != nil && !errors.Is(err, ErrForged) {
		return View{}, err
	}
	if err == nil {
		r = admitted
	}
	v := viewOf(r, k.opt.Clock())
	if v.Seal = sealView(r, err); err != nil {
		v.Status = StatusForged
	}
	return v, nil
}

// ErrForged means that a record is not as a gateway has written it.
var ErrForged = errors.New("the record was changed by something other than a gateway")

// A ForgedError is an [ErrForged]. It names the key and the field.
type ForgedError struct {
	KeyID string
	// Field is the first field that is not as it was written, one of
	// [ForgedFields].
	Field string
	cause error
}

// Error returns the key, the field and the reason.
func (e *ForgedError) Error() string {
	return fmt.Sprintf("key %s: %v: %s: %s", e.KeyID, ErrForged, e.Field, e.Reason())
}

// Reason returns what is wrong with the field.
func (e *ForgedError) Reason() string {
	if damaged, ok := errors.AsType[*store.DamagedError](e.cause); ok {
		return fmt.Sprintf("the record cannot be read (%v): restore it from a backup of the store by card-keys restore, or delete the key and make another", damaged.Cause)
	}
	return e.cause.Error()
}

// damagedRecord returns the error for a record that cannot be read.
func damagedRecord(d *store.DamagedError) *ForgedError { return &ForgedError{d.ID, d.Field, d} }

// Unwrap returns [ErrForged] and the cause, which may be [keyring.ErrMasterKey].
func (e *ForgedError) Unwrap() []error { return []error{ErrForged, e.cause} }

// fieldVersion is the name of the document version among the fields of a record.
const fieldVersion = "document_version"

// ForgedFields returns the closed set of [ForgedError.Field].
func ForgedFields() []string {
	names := slices.Concat([]string{keyring.FieldSeal, fieldVersion}, store.DamagedFields(), keyring.SealedFields())
	slices.Sort(names)
	return slices.Compact(names)
}

var (
	errNotSealed = errors.New("it is missing, and each record of this store must have one")
	errOlder     = errors.New("it is an older record of the key than one that this gateway has seen")
	errUnsealed  = errors.New("it is missing, and this gateway has seen the key with a seal")
)

// verify returns a [ForgedError] if the record has a seal and is not as a gateway
// has written it.
func (k *Service) verify(r *store.Record) error {
	if len(r.Seal) == 0 {
		return nil
	}
	if field, err := k.ring.CheckRecord(r); err != nil {
		return &ForgedError{r.ID, field, err}
	}
	return nil
}

// admitRecord is verify for a record of this store. It also refuses a record that is
// older than one that was seen, and one without a seal where it must have one.
func (k *Service) admitRecord(ctx context.Context, r *store.Record) error {
	if err := k.verify(r); err != nil {
		return err
	}
	must, err := k.mustBeSealed(ctx)
	switch sealed := len(r.Seal) > 0; {
	case err != nil:
		return err
	case sealed && !k.opt.Versions.raise(r.ID, keyring.DocumentVersion(r.Seal)):
		return &ForgedError{r.ID, fieldVersion, errOlder}
	case !sealed && must:
		return &ForgedError{r.ID, keyring.FieldSeal, errNotSealed}
	case !sealed && k.opt.Versions.highest(r.ID) > 0:
		return &ForgedError{r.ID, keyring.FieldSeal, errUnsealed}
	default:
		return nil
	}
}

// authentic returns the record if it is admitted, and otherwise a [ForgedError],
// which it reports. A record may have become old between its reading and now, so
// one that is refused is read again.
func (k *Service) authentic(ctx context.Context, r *store.Record) (*store.Record, error) {
	err := k.admitRecord(ctx, r)
	if err == nil {
		return r, nil
	}
	if r, err = k.get(ctx, r.ID); err != nil {
		return nil, err
	}
	if err = k.admitRecord(ctx, r); err != nil {
		k.reportForged(err)
		return nil, err
	}
	return r, nil
}

// get reads a record. One that cannot be read because it was damaged is a forged
// one: [ForgedError].
func (k *Service) get(ctx context.Context, id string) (*store.Record, error) {
	r, err := k.backend.Get(ctx, id)
	if damaged, ok := errors.AsType[*store.DamagedError](err); ok {
		err = damagedRecord(damaged)
		k.reportForged(err)
	}
	return r, err
}

func (k *Service) reportForged(err error) {
	if forged, ok := errors.AsType[*ForgedError](err); ok {
		k.opt.OnForged(forged)
	}
}

// A VersionMemory remembers the highest document version of each sealed record that was
// seen. So no older record of a key is accepted in its place, and none without a
// seal. A process needs one for each store, for as long as it uses the store.
type VersionMemory struct {
	mu       sync.Mutex
	seed     maphash.Seed
	versions map[uint64]uint64 // by the hash of the id: twice the version, and 1 if the record of it was deleted
	room     int
}

// maxSeen bounds the number of keys whose version is remembered, about 25 bytes for
// each. To remember another, one is forgotten, no matter which.
const maxSeen = 1 << 20

// NewVersionMemory returns an empty memory.
func NewVersionMemory() *VersionMemory {
	return &VersionMemory{seed: maphash.MakeSeed(), versions: make(map[uint64]uint64), room: maxSeen}
}

// highest returns the highest version of the key; 0 if none was seen.
func (s *VersionMemory) highest(id string) uint64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.versions[maphash.String(s.seed, id)] / 2
}

// raise remembers a version of the key. It returns false, and remembers nothing,
// for one that must not be accepted any more.
func (s *VersionMemory) raise(id string, version uint64) bool {
	hash := maphash.String(s.seed, id)
	s.mu.Lock()
	defer s.mu.Unlock()
	seen, known := s.versions[hash]
	if 2*version < seen || known && 2*version == seen {
		return 2*version == seen
	}
	if !known && len(s.versions) >= s.room {
		for other := range s.versions {
			delete(s.versions, other)
			break
		}
	}
	s.versions[hash] = 2 * version
	return true
}

// recordDeleted remembers that the key has no record any more, if the given version still
// is the highest.
func (s *VersionMemory) recordDeleted(id string, version uint64) {
	hash := maphash.String(s.seed, id)
	s.mu.Lock()
	defer s.mu.Unlock()
	if seen, known := s.versions[hash]; known && seen == 2*version {
		s.versions[hash]++
	}
}

// reseal finds all secrets and records that are sealed under another master key
// than the first, and seals them under the first. A record that cannot be read or
// opened, or that was forged, stays as it is, and one without a seal gets none. After an
// error of the backend, reseal stops. The next start tries the remaining records.
func (k *Service) reseal(ctx context.Context) {
	_ = eachRecord(ctx, k.backend, func(*store.DamagedError) {}, func(r *store.Record) error {
		if !slices.ContainsFunc(r.Secrets, k.underOlderKey) && (len(r.Seal) == 0 || k.ring.Sealer(r.Seal) == 0) {
			return nil
		}
		_, err := k.change(ctx, r.ID, By{Actor: GatewayActor}, edit{action: "reseal", apply: k.resealRecord})
		if errors.Is(err, store.ErrNotFound) || errors.Is(err, keyring.ErrMasterKey) || errors.Is(err, keyring.ErrDamaged) || errors.Is(err, ErrForged) {
			return nil
		}
		return err
	})
}

func (k *Service) underOlderKey(s store.SealedSecret) bool { return k.ring.Sealer(s.Sealed) != 0 }

func (k *Service) resealRecord(r *store.Record) error {
	k.dropUnopenable(r)
	for i := range r.Secrets {
		s := &r.Secrets[i]
		if !k.underOlderKey(*s) {
			continue
		}
		text, label, err := k.openSealed(r.ID, s)
		if err != nil {
			return err
		}
		s.Sealed = k.ring.Seal(text, label)
	}
	return nil
}
