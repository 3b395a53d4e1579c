package auditfile

import (
	"bytes"
	"encoding/json"
	"errors"
	"os"

	"github.com/card-gateway/card-gateway/platform"
)

// maxSearched is how much of the end of the file is searched for a trail, in bytes.
const maxSearched = 4 << 20

// A Trail is the newest lines of an audit file that name a key.
type Trail struct {
	Path  string            `json:"path"`
	Lines []json.RawMessage `json:"lines"` // the newest first
	// From is the number of the oldest line that was searched; 0: there is none. Those
	// before it are further up in the file, or in files that were rotated.
	From uint64 `json:"from"`
}

// Trail returns the newest lines that name a key, at most n of them. It reads the end of
// the file, and of a rotated one nothing.
func (f *File) Trail(keyID string, n int) (Trail, error) {
	t := Trail{Path: f.path, Lines: []json.RawMessage{}}
	file, err := platform.OpenOwn(f.path, os.O_RDONLY, 0)
	if errors.Is(err, os.ErrNotExist) {
		return t, nil
	}
	if err != nil {
		return t, err
	}
	defer file.Close()
	text, err := ending(file, maxSearched)
	for err == nil && len(t.Lines) < n {
		end := bytes.LastIndexByte(text, '\n') // what follows it is being written, or was cut off
		begin := bytes.LastIndexByte(text[:max(end, 0)], '\n') + 1
		if end < 0 {
			break
		}
		line := text[begin:end]
		text = text[:begin]
		var named struct {
			KeyID string `json:"key_id"`
		}
		e, whole := parseLine(line)
		if !whole || json.Unmarshal(line, &named) != nil {
			continue // such as one of which the begin was not read
		}
		t.From = e.Seq
		if named.KeyID == keyID {
			t.Lines = append(t.Lines, line)
		}
	}
	return t, err
}
