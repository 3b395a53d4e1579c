package main

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/goreleaser/nfpm/v2"
	_ "github.com/goreleaser/nfpm/v2/deb" // format
	_ "github.com/goreleaser/nfpm/v2/rpm" // format
)

// Everything in a package has this time, so that the same sources make the same
// bytes.
var packed = time.Unix(0, 0).UTC()

// buildPackage makes a deb or an rpm from nfpm.yaml. It returns the package's path.
func buildPackage(s *source, format, out string) (string, error) {
	work, err := os.MkdirTemp("", "packages")
	if err != nil {
		return "", err
	}
	defer os.RemoveAll(work)
	if err := unit(s, filepath.Join(work, "card-gateway.service")); err != nil {
		return "", err
	}
	names := map[string]string{"ROOT": s.root, "WORK": work, "BINARY": s.binary, "VERSION": s.version}
	config, err := nfpm.ParseFileWithEnvMapping(s.path("ops/packages/nfpm.yaml"), func(name string) string { return names[name] })
	if err != nil {
		return "", err
	}
	info, err := config.Get(format)
	if err != nil {
		return "", err
	}
	info.MTime = packed
	for _, script := range []*string{&info.Scripts.PostInstall, &info.Scripts.PreRemove, &info.Scripts.PostRemove} {
		*script = s.path("ops/packages/" + *script)
	}
	if err := nfpm.PrepareForPackager(nfpm.WithDefaults(info), format); err != nil {
		return "", err
	}
	packager, err := nfpm.Get(format)
	if err != nil {
		return "", err
	}
	var text bytes.Buffer
	if err := packager.Package(info, &text); err != nil {
		return "", err
	}
	file := filepath.Join(out, packager.ConventionalFileName(info))
	return file, os.WriteFile(file, text.Bytes(), 0o644)
}

// unit writes ops/card-gateway.service with the place that a package has for its
// binary: /usr/local is not for packages.
func unit(s *source, to string) error {
	text, err := os.ReadFile(s.path("ops/card-gateway.service"))
	if err != nil {
		return err
	}
	moved := strings.ReplaceAll(string(text), "/usr/local/bin/card-gateway", "/usr/bin/card-gateway")
	if moved == string(text) {
		return fmt.Errorf("ops/card-gateway.service starts no /usr/local/bin/card-gateway")
	}
	return os.WriteFile(to, []byte(moved), 0o644)
}
