package file

import (
	"fmt"

	"github.com/card-gateway/card-gateway/store"
)

// A change is the difference between the state and the key file that is about to
// be written: the line of one key (nil: the key is deleted), or the named
// values. The zero value is no difference.
type change struct {
	id   string
	line []byte
	meta map[string][]byte
}

// writeKeyFile writes the key file from the state, with the change. The caller
// must hold st.changes. Locks that were only in the journal and in memory are
// then in the key file, too.
func (st *state) writeKeyFile(c change) error {
	unfolded := st.unfolded.Swap(false)
	if c.meta == nil {
		c.meta = *st.meta.Load()
	}
	b, err := appendKeyFile(st.document[:0], c.meta, st.lines(c))
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

// lines yields the lines of all keys in the order of their ids.
func (st *state) lines(c change) func(yield func([]byte) bool) {
	return func(yield func([]byte) bool) {
		pending := c.line != nil
		for _, id := range *st.ids.Load() {
			if pending && c.id <= id {
				pending = false
				if !yield(c.line) {
					return
				}
			}
			if id == c.id {
				continue
			}
			if !yield(st.key(id).stored.Load().line) {
				return
			}
		}
		if pending {
			yield(c.line)
		}
	}
}
