package version

import (
	"runtime"
	"runtime/debug"
	"testing"
)

func TestBuildFrom(t *testing.T) {
	caddyDep := &debug.Module{Path: "github.com/caddyserver/caddy/v2", Version: "v2.11.9"}
	setting := func(key, value string) debug.BuildSetting { return debug.BuildSetting{Key: key, Value: value} }
	for name, c := range map[string]struct {
		info            debug.BuildInfo
		version, commit string
	}{
		"go build in the repository": {
			debug.BuildInfo{
				Main: debug.Module{Path: modulePath, Version: "v0.1.1-0.20261128000000-0123456789ab+dirty"}, Deps: []*debug.Module{caddyDep},
				Settings: []debug.BuildSetting{setting("vcs.revision", "0123456789abcdef0123456789abcdef01234567"), setting("vcs.modified", "true")},
			}, "v0.1.1-0.20261128000000-0123456789ab+dirty", "0123456789ab+dirty",
		},
		"without version control": {
			debug.BuildInfo{Main: debug.Module{Path: modulePath, Version: "(devel)"}, Deps: []*debug.Module{caddyDep}}, "(devel)", "unknown",
		},
		"somebody's own xcaddy": {
			debug.BuildInfo{
				Main: debug.Module{Path: "caddy"}, Deps: []*debug.Module{caddyDep, {Path: modulePath, Version: "v0.3.0"}},
				Settings: []debug.BuildSetting{setting("vcs.revision", "fedcba9876543210")},
			}, "v0.3.0", "unknown",
		},
		"a directory in the place of the module": {
			debug.BuildInfo{
				Main: debug.Module{Path: "caddy"},
				Deps: []*debug.Module{caddyDep, {Path: modulePath, Version: "v0.0.0", Replace: &debug.Module{Path: "/src"}}},
			}, "unknown", "unknown",
		},
	} {
		want := Build{Version: c.version, Commit: c.commit, Caddy: "v2.11.9", Go: runtime.Version()}
		if got := buildFrom(&c.info); got != want {
			t.Errorf("%s: got %+v, want %+v", name, got, want)
		}
	}
}
