// Package version reports which build of the gateway runs.
//
// Begin with [Current].
package version

import (
	"cmp"
	"runtime"
	"runtime/debug"

	"github.com/caddyserver/caddy/v2"
	"go.uber.org/zap/zapcore"

	"github.com/card-gateway/card-gateway/adminapi"
)

// Set by version.sh at link time, with -X. Empty in a plain `go build`.
var (
	version string
	commit  string
)

// A Build describes the running binary, as the admin API does.
type Build adminapi.Build

// modulePath is the path under which the gateway is built into a binary.
const modulePath = "github.com/card-gateway/card-gateway"

// Current returns the build of the running binary: the stamped values, else those
// that Go has written into the binary.
func Current() Build {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		info = new(debug.BuildInfo)
	}
	b := buildFrom(info)
	b.Version, b.Commit = cmp.Or(version, b.Version), cmp.Or(commit, b.Commit)
	return b
}

// buildFrom returns the values that Go has written. It ignores the version of a
// module that a directory replaces. The commit is the main module's.
func buildFrom(info *debug.BuildInfo) Build {
	b := Build{Version: "unknown", Commit: "unknown", Caddy: "unknown", Go: runtime.Version()}
	for _, dep := range info.Deps {
		switch {
		case dep.Path == caddy.ImportPath:
			b.Caddy = dep.Version
		case dep.Path == modulePath && dep.Replace == nil:
			b.Version = dep.Version
		}
	}
	if info.Main.Path != modulePath {
		return b
	}
	b.Version = cmp.Or(info.Main.Version, b.Version)
	dirty := ""
	for _, setting := range info.Settings {
		switch setting.Key {
		case "vcs.revision":
			b.Commit = setting.Value[:min(12, len(setting.Value))]
		case "vcs.modified":
			if setting.Value == "true" {
				dirty = "+dirty"
			}
		}
	}
	b.Commit += dirty
	return b
}

// String returns what the command `version` prints before Caddy's version.
func (b Build) String() string { return "card-gateway " + b.Version + " (" + b.Commit + "), Caddy" }

// MarshalLogObject writes the fields of the log line at the start.
func (b Build) MarshalLogObject(to zapcore.ObjectEncoder) error {
	to.AddString("version", b.Version)
	to.AddString("commit", b.Commit)
	to.AddString("caddy", b.Caddy)
	to.AddString("go", b.Go)
	return nil
}

func init() {
	if caddy.CustomVersion == "" { // a build may stamp its own
		caddy.CustomVersion = Current().String()
	}
}
