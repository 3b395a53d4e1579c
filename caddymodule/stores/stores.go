// Package stores opens the backends of the gateway, and keeps them over reloads.
//
// Begin with [Take]. [FileStore] and [RedisStore] are the modules that a configuration
// names.
package stores

import (
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"path/filepath"
	"sync/atomic"
	"time"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"
	"go.uber.org/zap/exp/zapslog"

	"github.com/card-gateway/card-gateway/caddymodule/directive"
	"github.com/card-gateway/card-gateway/caddymodule/node"
	"github.com/card-gateway/card-gateway/keys"
	"github.com/card-gateway/card-gateway/platform"
	"github.com/card-gateway/card-gateway/store"
	"github.com/card-gateway/card-gateway/store/file"
)

// pool has the stores that a configuration uses, by their places. Each is closed when
// none uses it any more.
var pool = caddy.NewUsagePool()

// closeAfter is how long a backend that no configuration uses any more waits
// for the requests in flight.
const closeAfter = time.Minute

// Module is a module of the namespace card_gateway.stores.
type Module interface {
	caddy.Module
	// Place names the state: two configurations with the same place share it.
	Place() string
	// Open returns the backend, without a lock or a connection. Files that must be
	// apart from its place are in runtimeDir, unless that is empty.
	Open(runtimeDir string) (store.Backend, error)
	// maxWindow returns the longest window that the backend supports.
	maxWindow() time.Duration
}

// Load returns the module of an option store, in JSON, outside of a configuration.
func Load(ctx caddy.Context, option json.RawMessage) (Module, error) {
	options := make(map[string]json.RawMessage)
	if err := json.Unmarshal(option, &options); err != nil {
		return nil, err
	}
	var kind string
	if err := json.Unmarshal(options["module"], &kind); err != nil {
		return nil, errors.New("the kind of the store is missing")
	}
	delete(options, "module")
	text, err := json.Marshal(options)
	if err != nil {
		return nil, err
	}
	module, err := ctx.LoadModuleByID("card_gateway.stores."+kind, text)
	if err != nil {
		return nil, err
	}
	chosen, ok := module.(Module)
	if !ok {
		return nil, fmt.Errorf("%T is not a store", module)
	}
	return chosen, nil
}

// Pooled is a backend with the number of requests that use it, and what the
// process has seen of its keys.
type Pooled struct {
	Name     string // of its module: `file` or `redis`
	Backend  store.Backend
	Versions *keys.VersionMemory
	requests atomic.Int64
}

// Acquire notes a request that uses the backend.
func (p *Pooled) Acquire() { p.requests.Add(1) }

// Release notes its end.
func (p *Pooled) Release() { p.requests.Add(-1) }

// Destruct closes the backend once no request uses it. Caddy calls it while
// requests of the old configuration may still be in flight.
func (p *Pooled) Destruct() error {
	if p.requests.Load() == 0 {
		return p.Backend.Close()
	}
	go func() {
		for deadline := time.Now().Add(closeAfter); p.requests.Load() > 0 && time.Now().Before(deadline); {
			time.Sleep(50 * time.Millisecond)
		}
		_ = p.Backend.Close()
	}()
	return nil
}

// Take takes the module's store from the pool, or opens it. Release gives it
// back.
func Take(module Module, window time.Duration, runtimeDir string) (*Pooled, error) {
	if longest := module.maxWindow(); window > longest {
		return nil, fmt.Errorf("window is %s; with this store it must be at most %s", window, longest)
	}
	dir := file.DefaultRuntimeDir(caddy.AppDataDir())
	if runtimeDir != "" {
		var err error
		if dir, err = Absolute("runtime_dir", runtimeDir); err != nil {
			return nil, err
		}
	}
	value, _, err := pool.LoadOrNew(module.Place(), func() (caddy.Destructor, error) {
		if f, ok := module.(*FileStore); ok && platform.MayMake(f.Dir) != nil {
			return nil, platform.MayMake(f.Dir)
		}
		backend, err := module.Open(dir)
		if err != nil {
			return nil, err
		}
		return &Pooled{Name: module.CaddyModule().ID.Name(), Backend: backend, Versions: keys.NewVersionMemory()}, nil
	})
	if err != nil {
		return nil, err
	}
	return value.(*Pooled), nil
}

// Release gives back a store that Take has returned, by its place. The store is closed
// when nothing uses it any more.
func Release(place string) error {
	_, err := pool.Delete(place)
	return err
}

// Absolute expands the placeholders of a path.
func Absolute(name, path string) (string, error) {
	expanded := path
	err := directive.Expand(&expanded)
	if err == nil {
		expanded, err = filepath.Abs(expanded)
	}
	if err != nil {
		return "", fmt.Errorf("%s: %w", name, err)
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
	dir, err := Absolute("directory", s.Dir)
	if err != nil {
		return err
	}
	s.Dir = dir
	return nil
}

// Place names the directory.
func (s *FileStore) Place() string { return "file:" + s.Dir }

func (s *FileStore) maxWindow() time.Duration { return math.MaxInt64 }

// Open returns the backend. It takes no lock.
func (s *FileStore) Open(runtimeDir string) (store.Backend, error) {
	return file.Open(s.Dir, file.Options{OnProblem: func(err error) { storeLog.Warn(err.Error()) }, RuntimeDir: runtimeDir})
}

// storeLog is for a store, which outlives the configuration that opened it.
var storeLog = slog.New(zapslog.NewHandler(node.Log.Core(), zapslog.WithName("card_gateway.store"), zapslog.AddStacktraceAt(slog.LevelError+1)))

// UnmarshalCaddyfile reads `file [<directory>]`.
func (s *FileStore) UnmarshalCaddyfile(d *caddyfile.Dispenser) error {
	d.Next()
	if d.NextArg() {
		s.Dir = d.Val()
	}
	return directive.NoMore(d)
}

// Interface guard
var _ caddyfile.Unmarshaler = (*FileStore)(nil)
