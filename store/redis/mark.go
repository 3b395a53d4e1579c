package redis

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"
)

// A mark keeps what a gateway must know after its process has ended: which servers
// it has used, and until when it has accepted requests on them. It is a small
// file in the runtime directory. The servers cannot keep it: if a gateway was cut
// off together with an old master, it could write only there, and that write is
// lost with the nonces.
//
// One process uses a mark. The file holds a moment a little in the future, so that
// it is written a few times a second and not with every request.
type mark struct {
	path string // empty: there is no runtime directory
	log  *slog.Logger

	until   atomic.Int64 // as in the file
	problem atomic.Pointer[string]

	mu   sync.Mutex // guards what follows
	kept marked
}

// marked is the content of the file.
type marked struct {
	Accepted int64             `json:"accepted"` // no later acceptance was made; server's clock, microseconds
	Servers  map[string]string `json:"servers"`  // their slots by their identities
}

// markAhead is how far the moment in the file is after an acceptance.
const markAhead = 250 * time.Millisecond

func newMark(opt *Options) *mark {
	m := &mark{log: opt.Logger}
	m.problem.Store(new(string))
	if opt.RuntimeDir != "" {
		sum := sha256.Sum256([]byte(opt.place() + " " + opt.Prefix))
		m.path = filepath.Join(opt.RuntimeDir, "card-gateway-redis-"+hex.EncodeToString(sum[:8])+".mark")
	}
	return m
}

// read returns the content of the file from the process before. A missing or
// damaged file counts as if there had been no process before.
func (m *mark) read() marked {
	var found marked
	if m.path == "" {
		return found
	}
	text, err := os.ReadFile(m.path)
	if errors.Is(err, os.ErrNotExist) {
		return found
	}
	if err == nil {
		err = json.Unmarshal(text, &found)
	}
	if err == nil && found.Accepted > time.Now().Add(maxFloorAhead).UnixMicro() {
		err = fmt.Errorf("%s has the moment %d (microseconds), which no gateway writes", m.path, found.Accepted)
	}
	if err != nil {
		m.report(fmt.Errorf("reading what this gateway has accepted on redis: %w", err))
		return marked{}
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.kept = found
	m.until.Store(found.Accepted)
	return found
}

// accepted notes an acceptance at now, in microseconds. If now is after the moment
// in the file, it writes the file before the request is answered.
func (m *mark) accepted(now int64) {
	if now <= m.until.Load() || m.path == "" {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if now > m.until.Load() {
		m.kept.Accepted = now + markAhead.Microseconds()
		m.writeLocked()
		m.until.Store(m.kept.Accepted)
	}
}

// used writes the servers that are used from now on.
func (m *mark) used(masters []serverInfo) {
	if m.path == "" {
		return
	}
	served := make(map[string]string, len(masters))
	for i := range masters {
		served[masters[i].identity] = masters[i].slots.String()
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if !maps.Equal(m.kept.Servers, served) {
		m.kept.Servers = served
		m.writeLocked()
	}
}

// writeLocked replaces the file as a whole.
func (m *mark) writeLocked() {
	text, err := json.Marshal(m.kept)
	if err == nil {
		err = os.WriteFile(m.path+".new", text, 0o600)
	}
	if err == nil {
		err = os.Rename(m.path+".new", m.path)
	}
	m.report(err)
}

// report notes the current problem of the file; nil clears it.
func (m *mark) report(err error) {
	text := ""
	if err != nil {
		text = fmt.Sprintf("what this gateway accepts is not known after its end: %v", err)
	}
	if before := m.problem.Swap(&text); *before != text && text != "" {
		m.log.Error("the runtime directory cannot be used", "problem", text)
	}
}
