package file

import (
	"fmt"

	"github.com/card-gateway/card-gateway/store"
)

// A change is what a key file that is about to be written has differently from
// the state: the line of one key, nil when the key goes, or the named values.
// The zero change is none.
type change struct {
	id   string
	line []byte
	meta map[string][]byte
}

// writeKeyFile writes the key file as the state is, with the change. It needs
// st.changes. Locks that it finds in records are folded in by that.
func (st *state) writeKeyFile(c change) error {
	unfolded := st.unfolded.Swap(false)
	if c.meta == nil {
		c.meta = *st.meta.Load()
	}
	b, err := appendKeyFile(st.document[:0], c.meta, st.lines(c))
	if err == nil {
		st.document = b
		err = replaceFile(st.path, b, st.opt.sync)
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
