package keys

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/card-gateway/card-gateway/auth"
	"github.com/card-gateway/card-gateway/store"
)

// A Change tells of one change of a key, done or attempted, for the audit log.
// It holds no secret in any form.
type Change struct {
	At       time.Time
	Actor    string
	Action   string // create, import, copy, update, disable, enable, unlock, rotate, delete, reseal, lock
	KeyID    string
	Tenant   string
	Revision string        // of the record afterwards; empty when it is gone or unchanged
	Fields   []FieldChange // what changed, or was to change, by name
	// Replicated is nil where the backend has no replicas, else whether one
	// has acknowledged the change.
	Replicated *bool
	Err        error // why the change was not made, or may not have been; nil: it was
}

// A FieldChange holds the JSON of one field before and after; nil where the
// field has no value.
type FieldChange struct {
	Field    string
	Old, New json.RawMessage
}

// GatewayActor is the actor of changes that nobody asked for.
const GatewayActor = "gateway"

// report tells of a change from one record to another; nil stands for none.
// Requests that were refused for what they asked are no attempts.
func (k *Service) report(action string, before, after *store.Record, by By, replicated *bool, err error) {
	var bad *InvalidError
	if errors.As(err, &bad) || errors.Is(err, ErrMalformed) || before == nil && after == nil {
		return
	}
	c := Change{At: k.opt.Clock(), Actor: by.Actor, Action: action, Replicated: replicated, Err: err, Fields: diff(before, after)}
	for _, r := range []*store.Record{before, after} {
		if r != nil {
			c.KeyID, c.Tenant = r.ID, r.Tenant
		}
	}
	if after != nil && err == nil {
		c.Revision = after.Revision
	}
	k.opt.OnChange(c)
}

// audited is the part of a record that an audit log shows.
type audited struct {
	store.Fields
	Failures int             `json:"failures,omitempty"`
	Lock     *auth.Lock      `json:"lock,omitempty"`
	Secrets  []auditedSecret `json:"secrets,omitempty"`
}

type auditedSecret struct {
	Version   int       `json:"version"`
	CreatedAt time.Time `json:"created_at"`
	ExpiresAt time.Time `json:"expires_at,omitzero"`
}

func auditedFields(r *store.Record) map[string]json.RawMessage {
	if r == nil {
		return nil
	}
	a := audited{Fields: r.Fields, Failures: r.Failures, Lock: r.Lock}
	for _, s := range r.Secrets {
		a.Secrets = append(a.Secrets, auditedSecret{Version: s.Version, CreatedAt: s.CreatedAt, ExpiresAt: s.ExpiresAt})
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
	old, now := auditedFields(before), auditedFields(after)
	names := make(map[string]bool)
	for _, fields := range []map[string]json.RawMessage{old, now} {
		for name := range fields {
			names[name] = true
		}
	}
	var changes []FieldChange
	for _, name := range slices.Sorted(maps.Keys(names)) {
		if string(old[name]) != string(now[name]) {
			changes = append(changes, FieldChange{Field: name, Old: old[name], New: now[name]})
		}
	}
	return changes
}
