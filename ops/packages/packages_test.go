package main

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/validate"
)

// packages builds everything from a binary that only says its version.
func packages(t *testing.T, version string) (made []string) {
	t.Helper()
	dir := t.TempDir()
	binary := filepath.Join(dir, "binary")
	if err := os.WriteFile(binary, []byte("#!/bin/sh\necho "+version+"\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	lines, err := build(&source{root: "../..", binary: binary, commit: "0123456789ab", version: version}, filepath.Join(dir, "out"))
	if err != nil {
		t.Fatal(err)
	}
	for _, line := range lines {
		path, _, _ := strings.Cut(line, " ")
		made = append(made, path)
	}
	return made
}

// TestInstall installs, upgrades, removes and purges the packages on a copy of this
// machine.
func TestInstall(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("only root may install packages")
	}
	old, next := packages(t, "0.1.0"), packages(t, "0.2.0-rc1")
	for i, format := range []string{"deb", "rpm"} {
		t.Run(format, func(t *testing.T) {
			out, err := exec.Command("./try.sh", format, old[i], next[i]).CombinedOutput()
			if err != nil {
				t.Fatalf("%v\n%s", err, out)
			}
		})
	}
}

// TestSame builds everything twice.
func TestSame(t *testing.T) {
	first, second := packages(t, "0.1.0"), packages(t, "0.1.0")
	for i := range first {
		if sum(t, first[i]) != sum(t, second[i]) {
			t.Errorf("%s is another one each time", filepath.Base(first[i]))
		}
	}
}

// sum returns what is in a file or a directory.
func sum(t *testing.T, path string) string {
	t.Helper()
	var all strings.Builder
	err := filepath.WalkDir(path, func(name string, entry os.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		text, err := os.ReadFile(name)
		all.WriteString(strings.TrimPrefix(name, path) + "\n" + string(text))
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return all.String()
}

// TestImage reads the layout back.
func TestImage(t *testing.T) {
	at, err := layout.FromPath(packages(t, "0.1.0")[2])
	if err != nil {
		t.Fatal(err)
	}
	index, err := at.ImageIndex()
	if err != nil {
		t.Fatal(err)
	}
	manifest, err := index.IndexManifest()
	if err != nil || len(manifest.Manifests) != 1 {
		t.Fatalf("%d images, %v", len(manifest.Manifests), err)
	}
	image, err := index.Image(manifest.Manifests[0].Digest)
	if err != nil {
		t.Fatal(err)
	}
	if err := validate.Image(image); err != nil {
		t.Fatal(err)
	}
	layers, err := image.Layers()
	if err != nil || len(layers) != 1 {
		t.Fatalf("%d layers, %v", len(layers), err)
	}
	files, err := layers[0].Uncompressed()
	if err != nil {
		t.Fatal(err)
	}
	list := exec.Command("tar", "-tv") // it complains of what Go's reader does not mind
	list.Stdin = files
	out, err := list.CombinedOutput()
	if err != nil || !strings.Contains(string(out), "run/card-gateway -> /data") {
		t.Errorf("%v\n%s", err, out)
	}
	config, err := image.ConfigFile()
	if err != nil {
		t.Fatal(err)
	}
	if config.Config.User != "65532:65532" || config.Config.Labels["org.opencontainers.image.revision"] != "0123456789ab" {
		t.Errorf("the image is %+v", config.Config)
	}
}

// TestContainerfile compares the image with what ops/Containerfile builds.
func TestContainerfile(t *testing.T) {
	text, err := os.ReadFile("../Containerfile")
	if err != nil {
		t.Fatal(err)
	}
	_, final, _ := strings.Cut(strings.ReplaceAll(string(text), "\\\n", " "), "FROM scratch")
	var got []string
	for line := range strings.Lines(final) {
		if words := strings.Fields(line); len(words) > 0 && !strings.HasPrefix(line, "#") && words[0] != "COPY" {
			got = append(got, strings.Join(words, " "))
		}
	}
	want := instructions(&imageConfig)
	if !slices.Equal(got, want) {
		t.Errorf("ops/Containerfile says\n%s\nand the image\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	var files bytes.Buffer
	for _, f := range []string{"etc/card-gateway/Caddyfile", "etc/ssl/certs/ca-certificates.crt", "etc/passwd", "etc/group", "/image/data", "/image/run/card-gateway"} {
		if !strings.Contains(string(text), f) {
			files.WriteString(f + " ")
		}
	}
	if files.Len() > 0 {
		t.Errorf("ops/Containerfile lacks %s", &files)
	}
}

// instructions writes a configuration as a Containerfile does.
func instructions(c *v1.Config) []string {
	list := func(words []string) string { return `["` + strings.Join(words, `", "`) + `"]` }
	ports := make([]string, 0, len(c.ExposedPorts))
	for port := range c.ExposedPorts {
		ports = append(ports, strings.TrimSuffix(port, "/tcp"))
	}
	slices.Sort(ports)
	check := c.Healthcheck
	return []string{
		"USER " + c.User,
		"VOLUME /data",
		"ENV " + strings.Join(c.Env, " "),
		"EXPOSE " + strings.Join(ports, " "),
		"STOPSIGNAL " + c.StopSignal,
		"HEALTHCHECK --interval=" + check.Interval.String() + " --timeout=" + check.Timeout.String() + " --start-period=" + check.StartPeriod.String() + " CMD " + list(check.Test[1:]),
		"ENTRYPOINT " + list(c.Entrypoint),
		"CMD " + list(c.Cmd),
	}
}

// TestNothingSecret looks for files that a package must not bring.
func TestNothingSecret(t *testing.T) {
	text, err := os.ReadFile("nfpm.yaml")
	if err != nil {
		t.Fatal(err)
	}
	if found := regexp.MustCompile(`(?i)dst: \S*(key|secret|password|token)\S*`).Find(text); found != nil {
		t.Errorf("a package brings %s", found)
	}
}
