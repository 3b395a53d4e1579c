package matrix

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// TestShellHidesSecret: no program that card-request starts has the secret among
// its arguments or in its environment.
func TestShellHidesSecret(t *testing.T) {
	skipWithout(t, []string{"bash", "openssl", "curl"})
	upstream := startIssuer(t)
	dir, secret := t.TempDir(), "s3cr3t-of-the-key-0123456789"
	seen := filepath.Join(dir, "seen")
	for _, name := range []string{"openssl", "curl", "od", "tr", "awk", "date", "grep", "mktemp", "cat", "rm"} {
		path, err := exec.LookPath(name)
		if err != nil {
			t.Fatal(err)
		}
		spy := fmt.Sprintf("#!/bin/sh\n{ printf '%%s\\n' %s \"$@\"; %s -0 -n1 echo </proc/$$/environ; } >>'%s'\nexec %s \"$@\"\n",
			name, "/usr/bin/xargs", seen, path)
		if err := os.WriteFile(filepath.Join(dir, name), []byte(spy), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	cmd := exec.Command("bash", "../../../clients/shell/card-request", "POST", "http://"+upstream.Addr+"/api/v1/cards", "-d", "{}")
	cmd.Env = []string{"PATH=" + dir + ":" + os.Getenv("PATH"), "CARD_KEY_ID=ck_test_1", "CARD_SECRET=" + secret}
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	text, err := os.ReadFile(seen)
	if err != nil || !strings.Contains(string(text), "curl\n--silent") {
		t.Fatalf("the programs were not seen: %v\n%s", err, text)
	}
	if strings.Contains(string(text), secret) {
		t.Errorf("a program sees the secret:\n%s", text)
	}
}
