package file

import (
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/gofrs/flock"
)

// The identity of a store is a random name in a file of its directory. Copies of the
// directory have the same, so that what happened to one is known to all.
const (
	identityName   = "identity"
	identityLength = 26 // of rand.Text
)

// identify returns the identity of the store in the directory. It makes one if there
// is none, and known is false then.
func identify(dir string, sync func(*os.File) error) (id string, known bool, err error) {
	path := filepath.Join(dir, identityName)
	b, err := readOwn(path)
	id = strings.TrimSpace(string(b))
	switch {
	case err == nil && len(id) == identityLength && !strings.ContainsFunc(id, notBase32):
		return id, true, nil
	case err != nil && !errors.Is(err, os.ErrNotExist):
		return "", false, fmt.Errorf("reading the identity of the store: %w", err)
	}
	id = rand.Text()
	if err := replaceFile(path, []byte(id+"\n"), sync); err != nil {
		return "", false, fmt.Errorf("writing the identity of the store: %w", err)
	}
	return id, false, nil
}

func notBase32(r rune) bool { return (r < 'A' || r > 'Z') && (r < '2' || r > '7') }

// holdIdentity locks the identity for this process. Two processes on copies of one
// directory would each accept what the other has accepted.
func holdIdentity(runtimeDir, id, dir string) (*flock.Flock, error) {
	if err := os.MkdirAll(runtimeDir, 0o700); err != nil {
		return nil, fmt.Errorf("making the runtime directory, for the high-water mark of the journal: %w", err)
	}
	lock := flock.New(filepath.Join(runtimeDir, markPrefix+id+".lock"), flock.SetPermissions(0o600))
	locked, err := lock.TryLock()
	switch {
	case err != nil:
		return nil, fmt.Errorf("locking the identity of the store, in the runtime directory: %w", err)
	case !locked:
		return nil, errors.Join(fmt.Errorf("%s is a copy of a store that another process uses, so that both would accept the same requests: stop that process first", dir), lock.Close())
	}
	return lock, nil
}
