// Package auditfile writes and checks the audit record: a file of JSON lines in
// which each line has a number and the hash of the line before it.
//
//	{"seq":41,"prev":"<sha256 of line 40, in hex>","at":"…","action":"disable",…}
//
// The numbers count on through restarts, rotations of the file and losses. So a
// line that is missing or was changed breaks the chain, and [Verify] finds it.
// The chain holds no key: whoever can write the file can forge all of it from
// some line on. To notice that, keep a copy of the last hash elsewhere.
//
// Begin with chain.go, which has the form of a line; file.go writes, verify.go checks,
// trail.go finds what was done with a key.
package auditfile

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"

	"github.com/card-gateway/card-gateway/platform"
)

// A link is a line's place in the chain: its number, and the hash of the line
// itself. The zero value is the place before the first line.
type link struct {
	seq  uint64
	hash [sha256.Size]byte
}

// next returns the line that follows, with a line end, and its link. The body is
// a JSON object.
func (l link) next(body []byte) ([]byte, link) {
	line := make([]byte, 0, len(body)+100)
	line = append(line, `{"seq":`...)
	line = strconv.AppendUint(line, l.seq+1, 10)
	line = append(line, `,"prev":"`...)
	line = hex.AppendEncode(line, l.hash[:])
	line = append(line, '"')
	if rest := bytes.TrimSpace(body)[1:]; len(rest) > 1 {
		line = append(append(line, ','), rest...)
	} else {
		line = append(line, '}')
	}
	whole := link{l.seq + 1, sha256.Sum256(line)}
	return append(line, '\n'), whole
}

// entry is what the chain needs of a line.
type entry struct {
	Seq  uint64 `json:"seq"`
	Prev string `json:"prev"`
	// TornBytes is set in the line after one that a crash has cut off: the
	// length of that one.
	TornBytes int `json:"torn_bytes"`
}

// parseLine reads a line without its line end. It returns false for a line that
// is not whole.
func parseLine(line []byte) (entry, bool) {
	var e entry
	if err := json.Unmarshal(line, &e); err != nil || e.Seq == 0 || len(e.Prev) != 2*sha256.Size {
		return entry{}, false
	}
	return e, true
}

// linkOf returns the link of a line without its line end.
func linkOf(e entry, line []byte) link {
	return link{e.Seq, sha256.Sum256(line)}
}

func (l link) String() string { return fmt.Sprintf("%020d %s\n", l.seq, hex.EncodeToString(l.hash[:])) }

// parseLink reads what String has written.
func parseLink(text string) (link, bool) {
	seq, hash, ok := strings.Cut(strings.TrimSuffix(text, "\n"), " ")
	number, err := strconv.ParseUint(seq, 10, 64)
	raw, hexErr := hex.DecodeString(hash)
	if !ok || err != nil || hexErr != nil || len(raw) != sha256.Size {
		return link{}, false
	}
	l := link{seq: number, hash: [sha256.Size]byte(raw)}
	return l, l.String() == text
}

// The head is a small file beside the audit file: the number and the hash of the
// last line. By it the chain goes on when the audit file was moved away, and a
// file that lost its end is found.
const headSuffix = ".head"

// fileMode is the mode of both files, whatever the umask: the group reads the
// record.
const fileMode = 0o640

// readHead returns the last link; found is false if there is none.
func readHead(path string) (l link, found bool, err error) {
	text, err := os.ReadFile(path)
	if errors.Is(err, os.ErrNotExist) {
		return link{}, false, nil
	}
	if err != nil {
		return link{}, false, err
	}
	l, found = parseLink(string(text))
	return l, found, nil
}

// writeHead writes the last link. The text always has the same length.
func writeHead(path string, l link) error {
	f, err := platform.OpenOwn(path, os.O_WRONLY|os.O_CREATE, fileMode)
	if err != nil {
		return err
	}
	_, err = f.WriteAt([]byte(l.String()), 0)
	if closeErr := f.Close(); err == nil {
		err = closeErr
	}
	return err
}

// follows reports whether a line is the next one after a link.
func follows(l link, e entry) bool {
	return e.Seq == l.seq+1 && e.Prev == hex.EncodeToString(l.hash[:])
}
