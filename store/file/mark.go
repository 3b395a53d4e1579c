package file

import (
	"crypto/sha256"
	"encoding/hex"
	"os"
	"path/filepath"
	"strings"

	"github.com/card-gateway/card-gateway/platform"
	"github.com/card-gateway/card-gateway/store/file/journal"
)

// DefaultRuntimeDir returns a directory for Options.RuntimeDir from the
// environment: the first of RUNTIME_DIRECTORY, XDG_RUNTIME_DIR and STATE_DIRECTORY
// that is a directory in which this process may write, otherwise the given one, or "" if
// that cannot be used: a default keeps nobody from starting. systemd sets the first and the
// last.
func DefaultRuntimeDir(otherwise string) string {
	for _, name := range []string{"RUNTIME_DIRECTORY", "XDG_RUNTIME_DIR", "STATE_DIRECTORY"} {
		dir, _, _ := strings.Cut(os.Getenv(name), ":")
		if info, err := os.Stat(dir); err == nil && info.IsDir() && platform.MayWrite(dir) == nil {
			return dir
		}
	}
	if platform.CheckOwnDir(otherwise) != nil || platform.MayMake(otherwise) != nil {
		return ""
	}
	return otherwise
}

const (
	markPrefix = "card-gateway-"
	markSuffix = ".mark"
)

// markPaths are where the marks of the store are: by its directory, and by its
// identity, which a copy of the directory has too. Without a runtime directory there
// are none.
func (s *Store) markPaths() []string {
	if s.opt.RuntimeDir == "" {
		return nil
	}
	sum := sha256.Sum256([]byte(s.dir))
	return []string{
		filepath.Join(s.opt.RuntimeDir, markPrefix+hex.EncodeToString(sum[:8])+markSuffix),
		filepath.Join(s.opt.RuntimeDir, markPrefix+s.identity+markSuffix),
	}
}

// markFault returns the reason why a mark of the store does not fit its journal, or "".
// A store that has just got its identity has no mark by it. What the marks say of the
// replay floor holds in any case.
func (s *Store) markFault(st *state, c *journal.Contents) (why string, err error) {
	for i, path := range s.markPaths() {
		if i > 0 && !s.identityKnown {
			break
		}
		reason, horizon, err := c.CheckMark(path)
		if err != nil {
			return "", err
		}
		st.raiseHorizon(horizon)
		if why == "" {
			why = reason
		}
	}
	return why, nil
}
