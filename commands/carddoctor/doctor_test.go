package carddoctor

import (
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/card-gateway/card-gateway/store"
	"github.com/card-gateway/card-gateway/tests/scripts"
)

func TestMain(m *testing.M) { scripts.Main(m) }

func TestScripts(t *testing.T) {
	scripts.Run(t, func(*testscript.Env) error { return nil }, nil)
}

// What the kernel says of the clock is what the line says. Faults that need a gateway are
// in tests/doctor.
func TestClock(t *testing.T) {
	t.Cleanup(func(before func() (bool, error)) func() { return func() { synchronised = before } }(synchronised))
	for _, c := range []struct {
		right bool
		err   error
		state string
		says  string
	}{
		{true, nil, stateOK, ""},
		{false, nil, stateFound, "timedatectl"},
		{false, errors.New("not permitted"), stateNotChecked, "not permitted"},
	} {
		synchronised = func() (bool, error) { return c.right, c.err }
		if l := result("time", "", synchronisation(t.Context())); l.State != c.state || !strings.Contains(l.Text, c.says) {
			t.Errorf("%v, %v: %v", c.right, c.err, l)
		}
	}
}

// Whatever was not looked at is not fine, and of a machine without a configuration that is
// most.
func TestExitStatus(t *testing.T) {
	unasked := findingError(store.Finding{Problem: "NOPERM", Unasked: true})
	for _, c := range []struct {
		want int
		of   []error
	}{
		{0, []error{nil, nil}},
		{exitFound, []error{nil, errors.New("wrong"), unasked}},
		{exitNotChecked, []error{nil, unasked}},
		{exitNotChecked, []error{notCheckedError("no such file"), errors.New("wrong")}},
	} {
		var lines []line
		for _, err := range c.of {
			lines = append(lines, result("", "", err))
		}
		if got := exitStatus(lines); got != c.want {
			t.Errorf("%v: exit status %d, want %d", lines, got, c.want)
		}
	}
}

// A certificate of a year is found in its last 14 days.
func TestEnding(t *testing.T) {
	for days, says := range map[int]string{20: "", 13: "ends in 12 days", -1: "has ended"} {
		end := time.Now().AddDate(0, 0, days)
		if got := result("", "", ending(&x509.Certificate{NotBefore: end.AddDate(-1, 0, 0), NotAfter: end})); (says == "") != (got.State == stateOK) || !strings.Contains(got.Text, says) {
			t.Errorf("%d days: %v", days, got)
		}
	}
}

// A check that never ends is left behind.
func TestBounded(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	hangs := one("disk", "/mnt", func(context.Context) error { select {} })
	if lines := hangs.bounded(ctx); len(lines) != 1 || lines[0].State != stateFound || !strings.Contains(lines[0].Text, "no answer") {
		t.Errorf("%v", lines)
	}
}

// A credential of the unit must be where the unit says, and not be readable by everybody,
// though the gateway sees a copy.
func TestCredentials(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string, mode os.FileMode) {
		path := filepath.Join(dir, name)
		if err := errors.Join(os.WriteFile(path, []byte(text), mode), os.Chmod(path, mode)); err != nil {
			t.Fatal(err)
		}
	}
	write("systemctl", "#!/bin/sh\necho FragmentPath="+dir+"/unit\n", 0o700)
	var unit strings.Builder
	unit.WriteString("[Service]\n")
	for name, mode := range map[string]os.FileMode{"good": 0o600, "open": 0o644} {
		write(name, "secret", mode)
		fmt.Fprintf(&unit, "LoadCredential=%s:%s/%s\n", name, dir, name)
	}
	fmt.Fprintf(&unit, "LoadCredential=none:%s/none\n", dir)
	write("unit", unit.String(), 0o600)
	t.Setenv("PATH", dir+":"+os.Getenv("PATH"))
	var found []string
	for _, l := range all(t.Context(), credentials()) {
		found = append(found, filepath.Base(l.Place)+" "+l.State)
	}
	slices.Sort(found)
	if want := []string{"good ok", "none found", "open found"}; !slices.Equal(found, want) {
		t.Errorf("%q, want %q", found, want)
	}
}
