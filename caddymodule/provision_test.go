package caddymodule

import (
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/caddyconfig"
)

// configFor returns the configuration of a gateway on the store, with a master
// key in a file and no listener.
func configFor(t *testing.T, store string) string {
	t.Helper()
	return configFrom(t, store, "", "http://127.0.0.1:0 {\ncard_auth\nrespond 204\n}\n")
}

// configFrom returns the same with further global options and other sites.
func configFrom(t *testing.T, store, global, sites string) string {
	t.Helper()
	return loggingConfig(t, store, "log {\noutput discard\n}\n"+global, sites)
}

// loggingConfig is configFrom with logs as the global options say.
func loggingConfig(t *testing.T, store, global, sites string) string {
	t.Helper()
	key := filepath.Join(t.TempDir(), "master.key")
	if err := os.WriteFile(key, []byte("MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3ODlhYmNkZWY=\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	text := "{\nadmin off\ncard_gateway {\nstore " + store + "\nmaster_key file " + key + "\n}\n" + global + "\n}\n" + sites
	config, _, err := caddyconfig.GetAdapter("caddyfile").Adapt([]byte(text), nil)
	if err != nil {
		t.Fatal(err)
	}
	return string(config)
}

// validated runs what `caddy validate` runs.
func validated(t *testing.T, config string) error {
	t.Helper()
	var c caddy.Config
	if err := caddy.StrictUnmarshalJSON([]byte(config), &c); err != nil {
		t.Fatal(err)
	}
	return caddy.Validate(&c)
}

// A configuration is valid even if Redis cannot be reached, and validating it uses
// no network: a gateway must start while Redis is down.
func TestValidateTouchesNoNetwork(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var connections atomic.Int64
	done := make(chan struct{})
	go func() {
		defer close(done)
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			connections.Add(1)
			_ = conn.Close()
		}
	}()
	err = validated(t, configFor(t, "redis redis://"+listener.Addr().String()+"/0"))
	_ = listener.Close()
	<-done
	if err != nil || connections.Load() != 0 {
		t.Errorf("validating made %d connections: %v", connections.Load(), err)
	}
}

// Validating finds a store and an audit record that this process cannot write, before
// the start would.
func TestValidateFindsWhatCannotBeWritten(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	config := func(store, audit string) string {
		text := configFrom(t, "file "+store, "", "")
		return strings.Replace(text, `"master_key":`, `"audit":{"file":"`+audit+`"},"master_key":`, 1)
	}
	in := t.TempDir()
	if err := validated(t, config(in+"/new/store", in+"/audit.log")); err != nil {
		t.Error(err)
	}
	for bad, config := range map[string]string{
		"store: the user":           config(file+"/store", in+"/audit.log"),
		"cannot be an audit file":   config(in+"/store", file+"/audit.log"),
		"no such file or directory": config(in+"/store", in+"/none/audit.log"),
	} {
		if err := validated(t, config); err == nil || !strings.Contains(err.Error(), bad) {
			t.Errorf("%v, want an error with %q", err, bad)
		}
	}
	if left, err := os.ReadDir(in); err != nil || len(left) > 0 {
		t.Errorf("validating left %v, %v", left, err)
	}
}

// Caddy shows and saves its JSON, so a password in it is refused like one in
// the Caddyfile, and the refusal does not repeat it.
func TestRedisPasswordInJSON(t *testing.T) {
	config := configFor(t, "redis redis://localhost:6379/0")
	err := validated(t, strings.Replace(config, "redis://localhost", "redis://:hunter2@localhost", 1))
	if err == nil || !strings.Contains(err.Error(), "password env NAME") || strings.Contains(err.Error(), "hunter2") {
		t.Errorf("a password in the URL: %v", err)
	}
}
