package keys

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"

	"github.com/card-gateway/card-gateway/store"
)

// metaSealing names a value that is there once the keys of the store were sealed.
// Until then no record gets a seal, so that gateways of the version before, which
// drop it when they change a key, can use the store, too.
const metaSealing = "sealing"

// BeginSealing makes all gateways seal the records of new keys. Records that have
// no seal get one by [Service.Seal] alone.
func (k *Service) BeginSealing(ctx context.Context) error {
	if _, err := k.backend.PutMeta(ctx, metaSealing, []byte("1")); err != nil {
		return fmt.Errorf("noting that the keys are sealed: %w", err)
	}
	k.sealing.Store(true)
	return nil
}

// sealsNew reports whether the record of a new key gets a seal.
func (k *Service) sealsNew(ctx context.Context) (bool, error) {
	if k.opt.SealRequired || k.sealing.Load() {
		return true, nil
	}
	_, err := k.backend.Meta(ctx, metaSealing)
	if errors.Is(err, store.ErrNotFound) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("reading whether the keys are sealed: %w", err)
	}
	k.sealing.Store(true)
	return true, nil
}

// sealRecord puts a seal on a record that is about to be written.
func (k *Service) sealRecord(r *store.Record) {
	r.DebugUntil = debugUntil(r)
	r.Seal = k.ring.sealRecord(r, k.nextVersion(r))
}

// wrote remembers the document version of a record that was written.
func (k *Service) wrote(r *store.Record) {
	if len(r.Seal) > 0 {
		k.opt.Seen.raise(r.ID, documentVersion(r.Seal))
	}
}

// nextVersion returns the document version of the next record of a key: the Unix
// time in milliseconds, or one more than the version before, whichever is more. So
// the versions also rise when a key is deleted and imported again.
func (k *Service) nextVersion(r *store.Record) uint64 {
	return max(documentVersion(r.Seal)+1, k.opt.Seen.of(r.ID)+1, uint64(k.opt.Clock().UnixMilli()))
}

// Seal seals the record of a key that has no seal or that was forged. Whoever
// calls it approves everything that the key is granted. The digest is that of
// [SealView], as it was when the key was shown: if the record has changed since,
// the error is [ErrNotAsApproved]. The other errors are those of Update.
func (k *Service) Seal(ctx context.Context, id, digest string, by By) (Changed, error) {
	if digest == "" {
		return Changed{}, k.refuse(attempt{action: "seal", id: id, by: by, err: invalid("digest", "want the one that the key shows")})
	}
	if err := k.BeginSealing(ctx); err != nil {
		return Changed{}, k.refuse(attempt{action: "seal", id: id, by: by, err: err})
	}
	return k.change(ctx, id, by, edit{action: "seal", approved: digest, apply: func(r *store.Record) error {
		r.Seal = nil // nothing in it is proven
		r.DebugUntil = debugUntil(r)
		return nil
	}})
}

// digestOf returns a digest of everything that a seal covers.
func digestOf(r *store.Record) string {
	sum := sha256.Sum256(appendSealed(nil, r))
	return hex.EncodeToString(sum[:])
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
	var forged *ForgedError
	switch {
	case errors.As(err, &forged):
		return SealView{State: SealRefused, Field: forged.Field, Problem: forged.Reason(), Digest: digestOf(r)}
	case len(r.Seal) == 0:
		return SealView{State: SealUnsealed, Digest: digestOf(r)}
	default:
		return SealView{State: SealSealed, DocumentVersion: documentVersion(r.Seal)}
	}
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
	v.Seal = sealView(r, err)
	return v, nil
}
