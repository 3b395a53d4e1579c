package keys

import (
	"context"
	"time"

	"github.com/card-gateway/card-gateway/store"
)

// CreateRequest asks for a new key.
type CreateRequest struct {
	store.Fields
	// Mode is "live" or "test". Default: live.
	Mode Mode `json:"mode,omitempty"`
}

// Create makes a key with a new secret, which it returns. Errors:
// [InvalidError]. Any other error means that the store did not answer. Then a
// new key may exist; nobody has its secret.
func (k *Service) Create(ctx context.Context, req CreateRequest, by By) (Changed, error) {
	switch req.Mode {
	case "":
		req.Mode = Live
	case Live, Test:
	default:
		return Changed{}, k.refuse(attempt{action: "create", by: by, err: invalid("mode", `want "live" or "test"`)})
	}
	ids, err := k.idKey(ctx)
	if err != nil {
		return Changed{}, k.refuse(attempt{action: "create", by: by, err: err})
	}
	secret := NewSecretText()
	record := &store.Record{ID: ids.Mint(req.Mode), Fields: req.Fields}
	changed, err := k.add(ctx, addition{"create", record, secret}, by)
	if err != nil {
		return Changed{}, err
	}
	changed.Secret = secret
	return changed, nil
}

// refuse reports an attempt that failed before there was a record, and returns its
// error.
func (k *Service) refuse(a attempt) error {
	k.report(a)
	return a.err
}

// An addition is a new key: its record with the fields that the caller sets, and
// the text of its first secret.
type addition struct {
	action string
	record *store.Record
	secret string
}

// add completes and writes a new record. Errors as [Service.Import].
func (k *Service) add(ctx context.Context, a addition, by By) (changed Changed, err error) {
	r := a.record
	defer func() {
		k.report(attempt{action: a.action, by: by, after: r, replicated: changed.Replicated, err: err})
	}()
	if err := k.checkFields(&r.Fields); err != nil {
		return Changed{}, err
	}
	if err := k.checkDebugUntil(r.DebugUntil, time.Time{}); err != nil {
		return Changed{}, err
	}
	r.Revision = NewRevision()
	r.CreatedAt = k.stamp()
	r.UpdatedAt = r.CreatedAt
	sealed, err := k.sealSecret(ctx, r.ID, 1, a.secret)
	if err != nil {
		return Changed{}, err
	}
	r.Secrets = []store.SealedSecret{sealed}
	if err := k.reserve(ctx, sealed.Fingerprint, r.ID); err != nil {
		return Changed{}, err
	}
	d, err := k.putNew(ctx, r)
	k.cache.drop(r.ID)
	if err == nil {
		err = k.confirmReservation(ctx, sealed.Fingerprint, r)
	}
	if err != nil {
		k.release(ctx, sealed.Fingerprint, r.ID)
		return Changed{}, err
	}
	k.wrote(r)
	return Changed{View: viewOf(r, k.opt.Clock()), Replicated: d.Replicated}, nil
}

// putNew writes the record of a new key, with a seal where new keys get one. The
// reservation of its secret comes before, because that makes an emptied store new:
// until then no value can be read from it.
func (k *Service) putNew(ctx context.Context, r *store.Record) (store.Durability, error) {
	seals, err := k.sealsNew(ctx)
	if err != nil {
		return store.Durability{}, err
	}
	if seals {
		k.sealRecord(r)
	}
	return k.backend.Put(ctx, r, store.PutOptions{})
}

// ImportRequest asks for a key with the id and secret of an earlier system.
type ImportRequest struct {
	store.Fields
	// ID is 1 to 128 letters, digits and `. _ ~ : @ + = -`.
	ID string `json:"id"`
	// Secret is 16 to 1024 bytes of text without control characters.
	Secret string `json:"secret"`
}

const (
	minImportedSecret = 16
	maxImportedSecret = 1024
)

// Import makes a key of a given id and secret. Errors: [InvalidError],
// [store.ErrExists] when there is a key of this id, [ErrSecretInUse].
func (k *Service) Import(ctx context.Context, req ImportRequest, by By) (Changed, error) {
	if err := req.check(); err != nil {
		return Changed{}, k.refuse(attempt{action: "import", id: req.ID, by: by, err: err})
	}
	ids, err := k.idKey(ctx)
	if err != nil {
		return Changed{}, k.refuse(attempt{action: "import", id: req.ID, by: by, err: err})
	}
	record := &store.Record{ID: req.ID, Fields: req.Fields, Imported: true}
	changed, err := k.add(ctx, addition{"import", record, req.Secret}, by)
	if err == nil {
		err = k.publishIDs(ctx, ids, req.ID)
	}
	return changed, err
}

func (r *ImportRequest) check() error {
	if !validID(r.ID) {
		return invalid("id", "want 1 to %d letters, digits and . _ ~ : @ + = -", maxIDLength)
	}
	if len(r.Secret) < minImportedSecret {
		return invalid("secret", "want at least %d bytes; a shorter one can be guessed", minImportedSecret)
	}
	if err := checkText("secret", r.Secret, maxImportedSecret); err != nil {
		return err
	}
	if uniform([]byte(r.Secret)) {
		return invalid("secret", "one character repeated can be guessed")
	}
	return nil
}
