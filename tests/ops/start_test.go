package ops

import (
	"encoding/base64"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/card-gateway/card-gateway/tests/harness"
)

// TestValidateBesideARunningGateway checks the configuration while another
// process uses the directory.
func TestValidateBesideARunningGateway(t *testing.T) {
	t.Parallel()
	u := harness.StartUpstream(t)
	g := harness.StartGateway(t, harness.Site{Upstream: u.Addr})
	key := g.NewKey(nil)
	for range 2 {
		out, err := g.Command("validate", "--config", g.Path("Caddyfile"), "--adapter", "caddyfile").CombinedOutput()
		if err != nil || !strings.Contains(string(out), "Valid configuration") {
			t.Fatalf("validate: %v\n%s", err, out)
		}
		harness.WantAccepted(t, g.Send(t, key.Get()))
	}
	g.Stop()
	g.Start()
	harness.WantAccepted(t, g.Send(t, key.Get()))
}

// TestDirectoryInUse starts a second process on the same directory.
func TestDirectoryInUse(t *testing.T) {
	t.Parallel()
	u := harness.StartUpstream(t)
	g := harness.StartGateway(t, harness.Site{Upstream: u.Addr})
	key := g.NewKey(nil)
	r := key.Get()
	harness.WantAccepted(t, g.Send(t, r))

	second := harness.NewGateway(t, harness.Site{Upstream: u.Addr})
	second.WriteFile("master.key", g.ReadFile("master.key"))
	if err := os.Symlink(g.Path("data"), second.Path("data")); err != nil {
		t.Fatal(err)
	}
	harness.WantStartError(t, second.RefusesToStart(), "another process")

	harness.WantUnauthorized(t, g.Send(t, r), harness.Replayed)
	harness.WantAccepted(t, g.Send(t, key.Get()))
	g.Kill()
	second.Start() // now the directory is free
	harness.WantUnauthorized(t, second.Send(t, r), harness.Replayed)
}

// TestMasterKeyRefusals starts with master keys that are not valid.
func TestMasterKeyRefusals(t *testing.T) {
	t.Parallel()
	u := harness.StartUpstream(t)
	g := harness.StartGateway(t, harness.Site{Upstream: u.Addr})
	key := g.NewKey(nil)
	g.Stop()
	good := g.ReadFile("master.key")
	short := base64.StdEncoding.EncodeToString([]byte("31 bytes that are not a key ..."))
	for name, c := range map[string]struct{ text, says string }{
		"another's":       {harness.NewMasterKey(), "master key does not open"},
		"short":           {short, "master_key"},
		"empty":           {"", "empty"},
		"no base64":       {"not base64 at all", "master_key"},
		"bad in a line":   {good + short, "master_key"},
		"all bytes alike": {base64.StdEncoding.EncodeToString(make([]byte, 32)), "master_key"},
	} {
		g.WriteFile("master.key", c.text)
		harness.WantStartError(t, g.RefusesToStart(), c.says)
		if t.Failed() {
			t.Fatalf("with a master key that is %s", name)
		}
	}
	if err := os.Remove(g.Path("master.key")); err != nil {
		t.Fatal(err)
	}
	harness.WantStartError(t, g.RefusesToStart(), "master.key")

	g.WriteFile("master.key", good)
	g.Start() // nothing was lost
	harness.WantAccepted(t, g.Send(t, key.Get()))
}

// TestMasterKeyRotation puts a new master key first.
func TestMasterKeyRotation(t *testing.T) {
	t.Parallel()
	u := harness.StartUpstream(t)
	g := harness.StartGateway(t, harness.Site{Upstream: u.Addr})
	old := g.NewKey(nil)
	g.WriteFile("master.key", harness.NewMasterKey()+g.ReadFile("master.key"))
	s := g.Site
	s.Global += "\n# read the master key again\nlock_after 49"
	g.Reload(s)
	harness.WantAccepted(t, g.Send(t, old.Get()))
	young := g.NewKey(nil)
	harness.WantAccepted(t, g.Send(t, young.Get()))

	// A reload with a wrong master key changes nothing.
	g.WriteFile("master.key", harness.NewMasterKey())
	s.Global += "\nwindow 4m"
	if err := g.TryReload(s); err == nil || !strings.Contains(err.Error(), "master key") {
		t.Errorf("a reload with a wrong master key says %v", err)
	}
	harness.WantAccepted(t, g.Send(t, old.Get()))
	harness.WantAccepted(t, g.Send(t, young.Get()))
}

// TestDamagedKeyFile starts on a damaged key file.
func TestDamagedKeyFile(t *testing.T) {
	t.Parallel()
	u := harness.StartUpstream(t)
	g := harness.StartGateway(t, harness.Site{Upstream: u.Addr})
	key := g.NewKey(nil)
	g.Stop()
	name, text := keyFile(g, key)
	for what, spoilt := range map[string]string{
		"cut":     text[:len(text)/2],
		"empty":   "",
		"garbage": "\x00\x01garbage" + text[9:],
		"edited":  strings.Replace(text, `"acme"`, `"ac`, 1),
	} {
		g.WriteFile(name, spoilt)
		harness.WantStartError(t, g.RefusesToStart(), filepath.Base(name))
		if t.Failed() {
			t.Fatalf("with a key file that is %s", what)
		}
	}
	g.WriteFile(name, text)
	g.Start()
	harness.WantAccepted(t, g.Send(t, key.Get()))
}

// keyFile returns the file of the data directory that holds the key.
func keyFile(g *harness.Gateway, c harness.Credentials) (name, text string) {
	g.T.Helper()
	err := filepath.WalkDir(g.Path("data"), func(path string, entry os.DirEntry, err error) error {
		if err == nil && entry.Type().IsRegular() {
			relative, _ := filepath.Rel(g.Dir, path)
			if content := g.ReadFile(relative); strings.Contains(content, c.ID) && strings.Contains(content, "acme") {
				name, text = relative, content
			}
		}
		return err
	})
	if err != nil || name == "" {
		g.T.Fatalf("no file of the data directory holds the key %s (%v)", c.ID, err)
	}
	return name, text
}

// TestFilesArePrivate checks the modes of everything in the data directory.
func TestFilesArePrivate(t *testing.T) {
	t.Parallel()
	u := harness.StartUpstream(t)
	g := harness.StartGateway(t, harness.Site{Upstream: u.Addr})
	harness.WantAccepted(t, g.Send(t, g.NewKey(nil).Get()))
	err := filepath.WalkDir(g.Path("data"), func(path string, entry os.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := entry.Info()
		if err == nil && info.Mode().Perm()&0o077 != 0 {
			t.Errorf("%s has the mode %v", path, info.Mode())
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}

// TestRotation rotates a key and uses both secrets at the same time.
func TestRotation(t *testing.T) {
	t.Parallel()
	u := harness.StartUpstream(t)
	g := harness.StartGateway(t, harness.Site{Upstream: u.Addr})
	old := g.NewKey(nil)
	harness.WantAccepted(t, g.Send(t, old.Get()))
	fresh := harness.Credentials{ID: old.ID, Secret: g.Do(old, "rotate").Secret}
	harness.WantAccepted(t, g.Send(t, fresh.Get()))
	harness.WantAccepted(t, g.Send(t, old.Get()))
	last := harness.Credentials{ID: old.ID, Secret: g.KeyCall(http.MethodPost, "/"+old.ID+"/rotate", harness.Fields{"overlap": "0"}).Secret}
	harness.WantUnauthorized(t, g.Send(t, fresh.Get()), harness.WrongSignature)
	harness.WantUnauthorized(t, g.Send(t, old.Get()), harness.WrongSignature)
	harness.WantAccepted(t, g.Send(t, last.Get()))
	g.Kill()
	g.Start()
	harness.WantAccepted(t, g.Send(t, last.Get()))
	harness.WantUnauthorized(t, g.Send(t, fresh.Get()), harness.WrongSignature)
}

// TestChangesHoldForTheNextRequest changes a key between two requests.
func TestChangesHoldForTheNextRequest(t *testing.T) {
	t.Parallel()
	u := harness.StartUpstream(t)
	g := harness.StartGateway(t, harness.Site{Upstream: u.Addr})
	key := g.NewKey(nil)
	for range 20 {
		harness.WantAccepted(t, g.Send(t, key.Get()))
		g.Do(key, "disable")
		harness.WantUnauthorized(t, g.Send(t, key.Get()), harness.KeyDisabled)
		g.Do(key, "enable")
		harness.WantAccepted(t, g.Send(t, key.Get()))
		g.Change(key, harness.Fields{"scopes": []string{"products:read"}})
		harness.WantRefused(t, g.Send(t, key.Get()), http.StatusForbidden, "FORBIDDEN")
		g.Change(key, harness.Fields{"scopes": []string{"cards:read"}, "allowed_ips": []string{"203.0.113.7"}})
		harness.WantUnauthorized(t, g.Send(t, key.Get()), harness.IPNotAllowed)
		g.Change(key, harness.Fields{"allowed_ips": nil})
	}
	g.KeyCall(http.MethodDelete, "/"+key.ID, nil)
	harness.WantUnauthorized(t, g.Send(t, key.Get()), harness.UnknownKey)
}

// TestHelpNamesTheBinary reads the help, whose lines must work when they are typed.
func TestHelpNamesTheBinary(t *testing.T) {
	t.Parallel()
	for _, command := range []string{"card-keys", "card-sign"} {
		out, err := exec.Command(harness.Binary(t), command, "--help").CombinedOutput()
		if err != nil || !strings.Contains(string(out), "card-gateway "+command) {
			t.Errorf("%s --help: %v, want card-gateway %s in\n%s", command, err, command, out)
		}
	}
}
