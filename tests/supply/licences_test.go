// Package supply tests what the production binary is made of.
package supply

import (
	"flag"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/card-gateway/card-gateway/tests/harness"
)

var update = flag.Bool("update", false, "write docs/licences.txt")

// allowed are the licences that a dependency may have, with a text that only they
// hold, in lower case and without line ends. The first that fits is taken. None
// of them asks for the source of the gateway.
var allowed = []struct{ name, text string }{
	{"Apache-2.0", "apache license version 2.0"},
	{"MPL-2.0", "mozilla public license version 2.0"},
	{"MPL-2.0", "mozilla public license, version 2.0"},
	{"BSD-3-Clause", "may be used to endorse or promote products"},
	{"BSD-2-Clause", "redistributions in binary form must reproduce"},
	{"ISC", "permission to use, copy, modify, and/or distribute this software for any purpose"},
	{"ISC", "permission to use, copy, modify, and distribute this software for any purpose"},
	{"MIT", "permission is hereby granted, free of charge"},
	{"Unlicense", "this is free and unencumbered software released into the public domain"},
	{"CC0-1.0", "cc0 1.0 universal"},
}

var (
	licenceFile = regexp.MustCompile(`(?i)^(licen[cs]e|copying|unlicense)([-._].*)?$`)
	notLetters  = regexp.MustCompile(`[^a-z0-9.,/]+`)
)

// licence returns the licence of a module by its files.
func licence(dir string) (string, error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return "", err
	}
	for _, entry := range entries {
		if entry.IsDir() || !licenceFile.MatchString(entry.Name()) {
			continue
		}
		text, err := os.ReadFile(filepath.Join(dir, entry.Name()))
		if err != nil {
			return "", err
		}
		plain := " " + notLetters.ReplaceAllString(strings.ToLower(string(text)), " ") + " "
		for _, a := range allowed {
			if strings.Contains(plain, a.text) {
				return a.name, nil
			}
		}
		return "", fmt.Errorf("%s is none of the licences that are allowed", entry.Name())
	}
	return "", fmt.Errorf("there is no licence file in %s", filepath.Base(dir))
}

// TestLicences requires that each module in the binary has an allowed licence, and
// that docs/licences.txt lists them.
func TestLicences(t *testing.T) {
	t.Parallel()
	harness.DependOnSources(t)
	cmd := exec.Command("go", "list", "-deps", "-f", "{{with .Module}}{{if not .Main}}{{.Path}} {{.Dir}}{{end}}{{end}}", ".")
	cmd.Dir = "../.."
	out, err := cmd.Output()
	if err != nil {
		t.Fatal(err)
	}
	of := make(map[string]string)
	for line := range strings.Lines(string(out)) {
		path, dir, found := strings.Cut(strings.TrimSpace(line), " ")
		if !found || of[path] != "" {
			continue
		}
		name, err := licence(dir)
		if err != nil {
			t.Errorf("%s: %v", path, err)
		}
		of[path] = name
	}
	var list strings.Builder
	for _, path := range slices.Sorted(maps.Keys(of)) {
		fmt.Fprintf(&list, "%s %s\n", path, of[path])
	}
	const file = "../../docs/licences.txt"
	if *update {
		if err := os.WriteFile(file, []byte(list.String()), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if written, err := os.ReadFile(file); err != nil || string(written) != list.String() {
		t.Errorf("docs/licences.txt is not what the binary is made of (%v); go test ./tests/supply -update writes it", err)
	}
	if len(of) < 50 {
		t.Errorf("%d modules were found", len(of))
	}
}
