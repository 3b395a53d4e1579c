package keys

import (
	"context"
	"errors"

	"github.com/card-gateway/card-gateway/store"
)

// A Drill is the result of [Service.Drill].
type Drill struct {
	Opened int           `json:"opened"` // keys all of whose live secrets were opened
	Failed []SkippedCopy `json:"failed"` // the others, and why
	// Unsealed is how many of the opened keys have a record without a seal.
	Unsealed int `json:"unsealed"`
}

// Drill checks the seals and opens the live secrets of all keys with the master
// keys, such as of a backup, and changes nothing. Its error is the backend's.
func (k *Service) Drill(ctx context.Context) (Drill, error) {
	d := Drill{Failed: []SkippedCopy{}}
	err := each(ctx, k.backend, func(damaged *store.DamagedError) {
		d.Failed = append(d.Failed, SkippedCopy{ID: damaged.ID, Reason: damagedRecord(damaged).Error()})
	}, func(r *store.Record) error {
		if failed := k.drillOne(r); failed != nil {
			d.Failed = append(d.Failed, SkippedCopy{ID: r.ID, Reason: failed.Error()})
		} else {
			d.Opened++
			if len(r.Seal) == 0 {
				d.Unsealed++
			}
		}
		return nil
	})
	return d, err
}

// drillOne returns why a record cannot be used. Under another master key no seal
// verifies, which says nothing of the record.
func (k *Service) drillOne(r *store.Record) error {
	err := k.verify(r)
	if err == nil {
		_, err = k.open(r)
	}
	if errors.Is(err, ErrMasterKey) {
		return ErrMasterKey
	}
	return err
}
