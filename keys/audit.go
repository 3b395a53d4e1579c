package keys

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/card-gateway/card-gateway/auth"
	"github.com/card-gateway/card-gateway/keys/fields"
	"github.com/card-gateway/card-gateway/store"
)

// A Change describes one change of a key, made or attempted, for the audit log.
// It holds no secret in any form.
type Change struct {
	At       time.Time
	Actor    string // who was authenticated
	Claimed  string // who the caller claims to be; no proof
	Action   string // create, import, copy, restore, update, disable, enable, unlock, rotate, delete, seal, reseal, lock
	KeyID    string
	Tenant   string
	Revision string        // of the record afterwards; empty when it is gone or unchanged
	Fields   []FieldChange // what changed, or was to change, by name
	// Replicated is nil if the backend has no replicas; otherwise it is whether
	// one has acknowledged the change.
	Replicated *bool
	Err        error // why the change was not made, or may not have been; nil: it was
}

// Refused reports whether the change was refused because of what was asked for,
// so that nothing was tried.
func (c *Change) Refused() bool {
	var bad *fields.InvalidError
	return errors.As(c.Err, &bad) || errors.Is(c.Err, fields.ErrMalformed) || errors.Is(c.Err, ErrRevision) || errors.Is(c.Err, store.ErrNotFound) ||
		errors.Is(c.Err, store.ErrExists) || errors.Is(c.Err, ErrSecretInUse) || errors.Is(c.Err, ErrForged) || errors.Is(c.Err, ErrNotAsApproved)
}

// A FieldChange holds the JSON of one field before and after; nil if the field
// has no value.
type FieldChange struct {
	Field    string
	Old, New json.RawMessage
}

// GatewayActor is the actor of changes that the gateway makes itself.
const GatewayActor = "gateway"

// An attempt is a change of a key from one record to another, made or not.
type attempt struct {
	action        string
	id            string // of the key, if neither record is known
	by            By
	before, after *store.Record // nil: there is none
	replicated    *bool
	err           error // why it was not made
}

// report sends an attempt to the audit log, unless the holder of a key made it
// and was refused: then the log of refusals has it.
func (k *Service) report(a attempt) {
	if errors.Is(a.err, ErrNotActive) || errors.Is(a.err, ErrOldSecret) || errors.Is(a.err, ErrTwoSecrets) {
		return
	}
	c := Change{
		At: k.opt.Clock(), Actor: a.by.Actor, Claimed: a.by.Claimed, Action: a.action, KeyID: a.id,
		Replicated: a.replicated, Err: a.err,
	}
	if !c.Refused() {
		c.Fields = diff(a.before, a.after)
	}
	for _, r := range []*store.Record{a.before, a.after} {
		if r != nil {
			c.KeyID, c.Tenant = r.ID, r.Tenant
		}
	}
	if a.action == "create" && c.Refused() {
		c.KeyID = "" // it was made and never used
	}
	if a.after != nil && a.err == nil {
		c.Revision = a.after.Revision
	}
	k.opt.OnChange(c)
}

// auditView is the part of a record that the audit log shows.
type auditView struct {
	store.Fields
	Failures int           `json:"failures,omitempty"`
	Lock     *auth.Lock    `json:"lock,omitempty"`
	Secrets  []auditSecret `json:"secrets,omitempty"`
	Sealed   bool          `json:"sealed,omitempty"`
}

type auditSecret struct {
	Version   int       `json:"version"`
	CreatedAt time.Time `json:"created_at"`
	ExpiresAt time.Time `json:"expires_at,omitzero"`
}

func auditFields(r *store.Record) map[string]json.RawMessage {
	if r == nil {
		return nil
	}
	a := auditView{Fields: r.Fields, Failures: r.Failures, Lock: r.Lock, Sealed: len(r.Seal) > 0}
	for _, s := range r.Secrets {
		a.Secrets = append(a.Secrets, auditSecret{Version: s.Version, CreatedAt: s.CreatedAt, ExpiresAt: s.ExpiresAt})
	}
	doc, err := json.Marshal(a)
	fields := make(map[string]json.RawMessage)
	if err == nil {
		err = json.Unmarshal(doc, &fields)
	}
	if err != nil { // a damaged record, such as limits that are no JSON
		fields["record"], _ = json.Marshal(fmt.Sprintf("not readable: %v", err))
	}
	maps.DeleteFunc(fields, func(_ string, v json.RawMessage) bool { return string(v) == "null" })
	return fields
}

func diff(before, after *store.Record) []FieldChange {
	old, now := auditFields(before), auditFields(after)
	names := make(map[string]json.RawMessage)
	maps.Copy(names, old)
	maps.Copy(names, now)
	var changes []FieldChange
	for _, name := range slices.Sorted(maps.Keys(names)) {
		if string(old[name]) != string(now[name]) {
			changes = append(changes, FieldChange{Field: name, Old: old[name], New: now[name]})
		}
	}
	return changes
}
