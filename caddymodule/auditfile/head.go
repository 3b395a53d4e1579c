package auditfile

import (
	"encoding/hex"
	"errors"
	"os"
)

// The head is a small file beside the audit file: the number and the hash of the
// last line. By it the chain goes on when the audit file was moved away, and a
// file that lost its end is found.
const headSuffix = ".head"

// fileMode is the mode of both files, whatever the umask: the group reads the
// record.
const fileMode = 0o640

// readHead returns the last link; known is false if there is none.
func readHead(path string) (l link, known bool, err error) {
	text, err := os.ReadFile(path)
	if errors.Is(err, os.ErrNotExist) {
		return link{}, false, nil
	}
	if err != nil {
		return link{}, false, err
	}
	l, known = parseLink(string(text))
	return l, known, nil
}

// writeHead writes the last link. The text always has the same length.
func writeHead(path string, l link) error {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE, fileMode)
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
