package keys

import (
	"context"

	"github.com/card-gateway/card-gateway/store"
)

// A Drill is the result of [Service.Drill].
type Drill struct {
	Opened int           `json:"opened"` // keys all of whose live secrets were opened
	Failed []SkippedCopy `json:"failed"` // the others, and why
}

// Drill opens the live secrets of all keys with the master keys, such as of a
// backup, and changes nothing. Its error is the backend's.
func (k *Service) Drill(ctx context.Context) (Drill, error) {
	d := Drill{Failed: []SkippedCopy{}}
	err := each(ctx, k.backend, func(r *store.Record) error {
		if _, failed := k.open(r); failed != nil {
			d.Failed = append(d.Failed, SkippedCopy{ID: r.ID, Reason: failed.Error()})
		} else {
			d.Opened++
		}
		return nil
	})
	return d, err
}
