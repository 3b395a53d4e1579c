package tests

import (
	"encoding/base64"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// oneLine checks that a refusal to start says one thing in one line.
func oneLine(t testing.TB, said string, parts ...string) {
	t.Helper()
	var found []string
	for line := range strings.Lines(said) {
		if strings.Contains(line, `"level":"error"`) {
			found = append(found, line)
		}
	}
	if len(found) != 1 {
		t.Fatalf("%d lines say why the gateway does not start, want 1:\n%s", len(found), said)
	}
	for _, part := range parts {
		if !strings.Contains(found[0], part) {
			t.Errorf("the gateway says %q, want %q in it", found[0], part)
		}
	}
	if strings.Contains(said, "goroutine ") || strings.Contains(found[0], "no global option") {
		t.Errorf("the gateway misleads with:\n%s", said)
	}
}

// TestValidateBesideARunningGateway checks the configuration while another
// process uses the directory.
func TestValidateBesideARunningGateway(t *testing.T) {
	t.Parallel()
	u := startUpstream(t)
	g := startGateway(t, site{upstream: u.addr})
	key := g.newKey(nil)
	for range 2 {
		out, err := g.command("validate", "--config", g.path("Caddyfile"), "--adapter", "caddyfile").CombinedOutput()
		if err != nil || !strings.Contains(string(out), "Valid configuration") {
			t.Fatalf("validate: %v\n%s", err, out)
		}
		accepted(t, g.send(t, key.get()))
	}
	g.stop()
	g.start()
	accepted(t, g.send(t, key.get()))
}

// TestDirectoryInUse starts a second process on the same directory.
func TestDirectoryInUse(t *testing.T) {
	t.Parallel()
	u := startUpstream(t)
	g := startGateway(t, site{upstream: u.addr})
	key := g.newKey(nil)
	r := key.get()
	accepted(t, g.send(t, r))

	second := newGateway(t, site{upstream: u.addr})
	second.write("master.key", g.read("master.key"))
	if err := os.Symlink(g.path("data"), second.path("data")); err != nil {
		t.Fatal(err)
	}
	oneLine(t, second.refusesToStart(), "another process")

	unauthorized(t, g.send(t, r), replayed)
	accepted(t, g.send(t, key.get()))
	g.kill()
	second.start() // now it may
	unauthorized(t, second.send(t, r), replayed)
}

// TestMasterKeyRefusals starts with master keys that are none.
func TestMasterKeyRefusals(t *testing.T) {
	t.Parallel()
	u := startUpstream(t)
	g := startGateway(t, site{upstream: u.addr})
	key := g.newKey(nil)
	g.stop()
	good := g.read("master.key")
	short := base64.StdEncoding.EncodeToString([]byte("31 bytes that are not a key ..."))
	for name, c := range map[string]struct{ text, says string }{
		"another's":       {masterKey(), "master key does not open"},
		"short":           {short, "master_key"},
		"empty":           {"", "empty"},
		"no base64":       {"not base64 at all", "master_key"},
		"bad in a line":   {good + short, "master_key"},
		"all bytes alike": {base64.StdEncoding.EncodeToString(make([]byte, 32)), "master_key"},
	} {
		g.write("master.key", c.text)
		oneLine(t, g.refusesToStart(), c.says)
		if t.Failed() {
			t.Fatalf("with a master key that is %s", name)
		}
	}
	if err := os.Remove(g.path("master.key")); err != nil {
		t.Fatal(err)
	}
	oneLine(t, g.refusesToStart(), "master.key")

	g.write("master.key", good)
	g.start() // nothing was lost
	accepted(t, g.send(t, key.get()))
}

// TestMasterKeyRotation puts a new master key first.
func TestMasterKeyRotation(t *testing.T) {
	t.Parallel()
	u := startUpstream(t)
	g := startGateway(t, site{upstream: u.addr})
	old := g.newKey(nil)
	g.write("master.key", masterKey()+g.read("master.key"))
	s := g.site
	s.global += "\n# read the master key again\nlock_after 49"
	g.reload(s)
	accepted(t, g.send(t, old.get()))
	young := g.newKey(nil)
	accepted(t, g.send(t, young.get()))

	// A reload with a wrong master key changes nothing.
	g.write("master.key", masterKey())
	s.global += "\nwindow 4m"
	if err := g.tryReload(s); err == nil || !strings.Contains(err.Error(), "master key") {
		t.Errorf("a reload with a wrong master key says %v", err)
	}
	accepted(t, g.send(t, old.get()))
	accepted(t, g.send(t, young.get()))
}

// TestDamagedKeyFile starts on a key file that somebody has spoilt.
func TestDamagedKeyFile(t *testing.T) {
	t.Parallel()
	u := startUpstream(t)
	g := startGateway(t, site{upstream: u.addr})
	key := g.newKey(nil)
	g.stop()
	name, text := g.keyFile(key)
	for what, spoilt := range map[string]string{
		"cut":     text[:len(text)/2],
		"empty":   "",
		"garbage": "\x00\x01garbage" + text[9:],
		"edited":  strings.Replace(text, `"acme"`, `"ac`, 1),
	} {
		g.write(name, spoilt)
		oneLine(t, g.refusesToStart(), filepath.Base(name))
		if t.Failed() {
			t.Fatalf("with a key file that is %s", what)
		}
	}
	g.write(name, text)
	g.start()
	accepted(t, g.send(t, key.get()))
}

// keyFile returns the file of the data directory that holds the key.
func (g *gateway) keyFile(c credentials) (name, text string) {
	g.t.Helper()
	err := filepath.WalkDir(g.path("data"), func(path string, entry os.DirEntry, err error) error {
		if err == nil && entry.Type().IsRegular() {
			relative, _ := filepath.Rel(g.dir, path)
			if content := g.read(relative); strings.Contains(content, c.id) && strings.Contains(content, "acme") {
				name, text = relative, content
			}
		}
		return err
	})
	if err != nil || name == "" {
		g.t.Fatalf("no file of the data directory holds the key %s (%v)", c.id, err)
	}
	return name, text
}

// TestFilesArePrivate checks the modes of everything in the data directory.
func TestFilesArePrivate(t *testing.T) {
	t.Parallel()
	u := startUpstream(t)
	g := startGateway(t, site{upstream: u.addr})
	accepted(t, g.send(t, g.newKey(nil).get()))
	err := filepath.WalkDir(g.path("data"), func(path string, entry os.DirEntry, err error) error {
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

// TestRotation rotates a key and uses both secrets at once.
func TestRotation(t *testing.T) {
	t.Parallel()
	u := startUpstream(t)
	g := startGateway(t, site{upstream: u.addr})
	old := g.newKey(nil)
	accepted(t, g.send(t, old.get()))
	fresh := credentials{old.id, g.do(old, "rotate").Secret}
	accepted(t, g.send(t, fresh.get()))
	accepted(t, g.send(t, old.get()))
	last := credentials{old.id, g.keyCall(http.MethodPost, "/"+old.id+"/rotate", fields{"overlap": "0"}).Secret}
	unauthorized(t, g.send(t, fresh.get()), wrongSignature)
	unauthorized(t, g.send(t, old.get()), wrongSignature)
	accepted(t, g.send(t, last.get()))
	g.kill()
	g.start()
	accepted(t, g.send(t, last.get()))
	unauthorized(t, g.send(t, fresh.get()), wrongSignature)
}

// TestChangesHoldForTheNextRequest changes a key between two requests.
func TestChangesHoldForTheNextRequest(t *testing.T) {
	t.Parallel()
	u := startUpstream(t)
	g := startGateway(t, site{upstream: u.addr})
	key := g.newKey(nil)
	for range 20 {
		accepted(t, g.send(t, key.get()))
		g.do(key, "disable")
		unauthorized(t, g.send(t, key.get()), keyDisabled)
		g.do(key, "enable")
		accepted(t, g.send(t, key.get()))
		g.change(key, fields{"scopes": []string{"products:read"}})
		refused(t, g.send(t, key.get()), http.StatusForbidden, "FORBIDDEN")
		g.change(key, fields{"scopes": []string{"cards:read"}, "allowed_ips": []string{"203.0.113.7"}})
		unauthorized(t, g.send(t, key.get()), ipNotAllowed)
		g.change(key, fields{"allowed_ips": nil})
	}
	g.keyCall(http.MethodDelete, "/"+key.id, nil)
	unauthorized(t, g.send(t, key.get()), unknownKey)
}

// TestHelpNamesTheBinary reads the help, which must show what one can type.
func TestHelpNamesTheBinary(t *testing.T) {
	t.Parallel()
	for _, command := range []string{"card-keys", "card-sign"} {
		out, err := exec.Command(binary(t), command, "--help").CombinedOutput()
		if err != nil || !strings.Contains(string(out), "card-gateway "+command) {
			t.Errorf("%s --help: %v, want card-gateway %s in\n%s", command, err, command, out)
		}
	}
}
