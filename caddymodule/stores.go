package caddymodule

import (
	"context"
	"fmt"
	"log/slog"
	"math"
	"path/filepath"
	"sync/atomic"
	"time"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"
	"go.uber.org/zap"
	"go.uber.org/zap/exp/zapslog"

	"github.com/card-gateway/card-gateway/keys"
	"github.com/card-gateway/card-gateway/store"
	"github.com/card-gateway/card-gateway/store/file"
)

func init() {
	caddy.RegisterModule(new(FileStore))
}

// pool has the stores that a configuration uses, by their places. Each is closed when
// none uses it any more.
var storePool = caddy.NewUsagePool()

// closeAfter is how long a backend that no configuration uses any more waits
// for the requests in flight.
const closeAfter = time.Minute

// storeModule is a module of the namespace card_gateway.stores.
type storeModule interface {
	caddy.Module
	// place names the state: two configurations with the same place share it.
	place() string
	// open returns the backend, without a lock or a connection. Files that must be
	// apart from its place are in runtimeDir, unless that is empty.
	open(runtimeDir string) (store.Backend, error)
	// maxWindow returns the longest window that the backend supports.
	maxWindow() time.Duration
}

// pooledStore is a backend with the number of requests that use it, and what the
// process has seen of its keys.
type pooledStore struct {
	name     string // of its module: `file` or `redis`
	backend  store.Backend
	versions *keys.VersionMemory
	requests atomic.Int64
}

func (p *pooledStore) acquire() { p.requests.Add(1) }
func (p *pooledStore) release() { p.requests.Add(-1) }

// Destruct closes the backend once no request uses it. Caddy calls it while
// requests of the old configuration may still be in flight.
func (p *pooledStore) Destruct() error {
	if p.requests.Load() == 0 {
		return p.backend.Close()
	}
	go func() {
		for deadline := time.Now().Add(closeAfter); p.requests.Load() > 0 && time.Now().Before(deadline); {
			time.Sleep(50 * time.Millisecond)
		}
		_ = p.backend.Close()
	}()
	return nil
}

// takeStore takes the module's store from the pool, or opens it. To release it,
// delete its place from the pool.
func takeStore(module storeModule, window time.Duration, runtimeDir string) (*pooledStore, error) {
	if longest := module.maxWindow(); window > longest {
		return nil, fmt.Errorf("window is %s; with this store it must be at most %s", window, longest)
	}
	dir := file.DefaultRuntimeDir()
	if runtimeDir != "" {
		var err error
		if dir, err = absolute("runtime_dir", runtimeDir); err != nil {
			return nil, err
		}
	}
	value, _, err := storePool.LoadOrNew(module.place(), func() (caddy.Destructor, error) {
		backend, err := module.open(dir)
		if err != nil {
			return nil, err
		}
		return &pooledStore{name: module.CaddyModule().ID.Name(), backend: backend, versions: keys.NewVersionMemory()}, nil
	})
	if err != nil {
		return nil, err
	}
	return value.(*pooledStore), nil
}

// absolute expands the placeholders of a path.
func absolute(name, path string) (string, error) {
	expanded, err := caddy.NewReplacer().ReplaceOrErr(path, true, true)
	if err != nil {
		return "", fmt.Errorf("%s %s: %w", name, path, err)
	}
	if expanded, err = filepath.Abs(expanded); err != nil {
		return "", fmt.Errorf("%s %s: %w", name, path, err)
	}
	return expanded, nil
}

// FileStore keeps the state of one node in a directory: keys in a file,
// everything else in memory with a journal beside it. One process can use a
// directory at a time.
type FileStore struct {
	// The directory; placeholders are expanded.
	// Default: card-gateway in Caddy's data directory.
	Dir string `json:"dir,omitempty"`
}

// CaddyModule returns the Caddy module information.
func (*FileStore) CaddyModule() caddy.ModuleInfo {
	return caddy.ModuleInfo{ID: "card_gateway.stores.file", New: func() caddy.Module { return new(FileStore) }}
}

// Provision resolves the directory.
func (s *FileStore) Provision(caddy.Context) error {
	if s.Dir == "" {
		s.Dir = filepath.Join(caddy.AppDataDir(), "card-gateway")
	}
	dir, err := absolute("directory", s.Dir)
	if err != nil {
		return err
	}
	s.Dir = dir
	return nil
}

func (s *FileStore) place() string { return "file:" + s.Dir }

func (s *FileStore) maxWindow() time.Duration { return math.MaxInt64 }

func (s *FileStore) open(runtimeDir string) (store.Backend, error) {
	return file.Open(s.Dir, file.Options{OnProblem: logStoreProblem, RuntimeDir: runtimeDir})
}

// storeLogger returns the logger for stores. A store outlives the configuration
// that opened it, so this is the logger of the current configuration.
func storeLogger() *zap.Logger { return caddy.Log().Named("card_gateway.store") }

// logStoreProblem logs a problem that the embedded store reports.
func logStoreProblem(err error) {
	storeLogger().Warn(err.Error())
}

// storeSlog is the same for a store that logs by slog: each record goes to the
// logger of the current configuration.
type storeSlog struct{}

func (storeSlog) current() slog.Handler {
	return zapslog.NewHandler(storeLogger().Core(), zapslog.WithName("card_gateway.store"), zapslog.AddStacktraceAt(slog.LevelError+1))
}

// Enabled is part of slog.Handler.
func (h storeSlog) Enabled(ctx context.Context, level slog.Level) bool {
	return h.current().Enabled(ctx, level)
}

// Handle is part of slog.Handler.
func (h storeSlog) Handle(ctx context.Context, record slog.Record) error {
	return h.current().Handle(ctx, record)
}

// WithAttrs is part of slog.Handler. The returned handler keeps the logger of
// this moment; stores do not use it, but add their attributes to each record.
func (h storeSlog) WithAttrs(attrs []slog.Attr) slog.Handler { return h.current().WithAttrs(attrs) }

// WithGroup is part of slog.Handler; see WithAttrs.
func (h storeSlog) WithGroup(name string) slog.Handler { return h.current().WithGroup(name) }

// UnmarshalCaddyfile reads `file [<directory>]`.
func (s *FileStore) UnmarshalCaddyfile(d *caddyfile.Dispenser) error {
	d.Next()
	if d.NextArg() {
		s.Dir = d.Val()
	}
	return noMore(d)
}

// Interface guards
var (
	_ caddyfile.Unmarshaler = (*FileStore)(nil)
)
