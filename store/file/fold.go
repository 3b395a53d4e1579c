package file

import (
	"fmt"
	"iter"

	"github.com/card-gateway/card-gateway/store"
)

// A change is the difference between the state and the key file that is about to
// be written: the record of one key (nil: the key is deleted), or the named
// values. The zero value is no difference.
type change struct {
	id     string
	stored *storedRecord
	meta   map[string][]byte
}

// writeKeyFile writes the key file from the state, with the change. The caller
// must hold st.changes. Locks that were only in the journal and in memory are
// then in the key file, too.
func (st *state) writeKeyFile(c change) error {
	unfolded := st.unfolded.Swap(false)
	if c.meta == nil {
		c.meta = *st.meta.Load()
	}
	b, err := appendKeyFile(st.document[:0], c.meta, st.records(c))
	if err == nil {
		st.document = b
		if err = replaceFile(st.path, b, st.opt.sync); fullDisk(err) {
			err = st.replaceFromSpare(b)
			st.prepareSpare() // of the room that the old file has left
		}
	}
	if err != nil {
		if unfolded {
			st.unfolded.Store(true)
		}
		return fmt.Errorf("%w: writing the key file: %w", store.ErrUnavailable, err)
	}
	return nil
}

// records yields the records of all keys in the order of their ids.
func (st *state) records(c change) iter.Seq[*storedRecord] {
	return func(yield func(*storedRecord) bool) {
		pending := c.stored != nil
		for _, id := range *st.ids.Load() {
			if pending && c.id <= id {
				pending = false
				if !yield(c.stored) {
					return
				}
			}
			if id == c.id {
				continue
			}
			if !yield(st.key(id).stored.Load()) {
				return
			}
		}
		if pending {
			yield(c.stored)
		}
	}
}
