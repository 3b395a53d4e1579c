package main

import (
	"archive/tar"
	"bytes"
	"io"
	"os"
	"path/filepath"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/google/go-containerregistry/pkg/v1/types"
)

// user is the one that the image runs as.
const user = 65532

// imageConfig is what ops/Containerfile says of the image, for those who have no
// daemon that builds it. A test compares the two.
var imageConfig = v1.Config{
	User:    "65532:65532",
	Volumes: map[string]struct{}{"/data": {}},
	Env: []string{
		"HOME=/data",
		"GOGC=400",
		"CARD_GATEWAY_DATA=/data/store",
		"CARD_GATEWAY_AUDIT=/data/audit.log",
		"CADDY_ADMIN=unix//run/card-gateway/admin.sock",
		"CARD_GATEWAY_METRICS_BIND=0.0.0.0",
		"XDG_DATA_HOME=/data",
		"XDG_CONFIG_HOME=/data",
	},
	ExposedPorts: map[string]struct{}{"8080/tcp": {}, "9180/tcp": {}},
	StopSignal:   "SIGTERM",
	Healthcheck: &v1.HealthConfig{
		Test:     []string{"CMD", "/usr/local/bin/card-gateway", "card-status", "--live"},
		Interval: 30 * time.Second, Timeout: 5 * time.Second, StartPeriod: 30 * time.Second,
	},
	Entrypoint: []string{"/usr/local/bin/card-gateway"},
	Cmd:        []string{"run", "--config", "/etc/card-gateway/Caddyfile", "--adapter", "caddyfile"},
}

// buildImage writes an OCI layout, a directory that skopeo, podman, crane and
// kubernetes tools read. It returns the directory and the image's digest.
func buildImage(s *source, out string) (string, error) {
	files, err := s.files()
	if err != nil {
		return "", err
	}
	text, err := archive(files)
	if err != nil {
		return "", err
	}
	opener := func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(text)), nil }
	layer, err := tarball.LayerFromOpener(opener, tarball.WithMediaType(types.OCILayer))
	if err != nil {
		return "", err
	}
	image, err := mutate.AppendLayers(mutate.MediaType(mutate.ConfigMediaType(empty.Image, types.OCIConfigJSON), types.OCIManifestSchema1), layer)
	if err != nil {
		return "", err
	}
	config := imageConfig
	config.Labels = map[string]string{
		"org.opencontainers.image.title":    "Card Gateway",
		"org.opencontainers.image.licenses": "Apache-2.0",
		"org.opencontainers.image.source":   "https://github.com/card-gateway/card-gateway",
		"org.opencontainers.image.version":  s.version,
		"org.opencontainers.image.revision": s.commit,
	}
	image, err = mutate.ConfigFile(image, &v1.ConfigFile{
		Architecture: "amd64", OS: "linux", Created: v1.Time{Time: packed}, Config: config,
		RootFS: rootFS(image), History: []v1.History{{Created: v1.Time{Time: packed}, CreatedBy: "make packages"}},
	})
	if err != nil {
		return "", err
	}
	dir := filepath.Join(out, "card-gateway-"+s.version+".oci")
	if err := os.RemoveAll(dir); err != nil {
		return "", err
	}
	at, err := layout.Write(dir, empty.Index)
	if err != nil {
		return "", err
	}
	if err := at.AppendImage(image, layout.WithAnnotations(map[string]string{"org.opencontainers.image.ref.name": s.version})); err != nil {
		return "", err
	}
	digest, err := image.Digest()
	return dir + " " + digest.String(), err
}

// rootFS returns what the image says of its layers.
func rootFS(image v1.Image) v1.RootFS {
	file, err := image.ConfigFile()
	if err != nil { // of an image in memory
		panic(err)
	}
	return file.RootFS
}

// A file of the image: a directory when its name ends with a slash, a link when it
// names a target.
type file struct {
	name, target string
	text         []byte
	mode         int64
	owner        int
}

// files returns what is in the image. Parents come before what is in them.
func (s *source) files() ([]file, error) {
	files := []file{
		{name: "data/", mode: 0o700, owner: user},
		{name: "etc/", mode: 0o755},
		{name: "etc/card-gateway/", mode: 0o755},
		{name: "etc/group", mode: 0o644, text: []byte("card-gateway:x:65532:\n")},
		{name: "etc/passwd", mode: 0o644, text: []byte("card-gateway:x:65532:65532::/data:/\n")},
		{name: "etc/ssl/", mode: 0o755},
		{name: "etc/ssl/certs/", mode: 0o755},
		{name: "run/", mode: 0o755},
		{name: "run/card-gateway", target: "/data", mode: 0o777},
		{name: "usr/", mode: 0o755},
		{name: "usr/local/", mode: 0o755},
		{name: "usr/local/bin/", mode: 0o755},
	}
	for _, from := range []struct {
		path, name string
		mode       int64
	}{
		{s.binary, "usr/local/bin/card-gateway", 0o755},
		{s.path("Caddyfile.example"), "etc/card-gateway/Caddyfile", 0o644},
		{"/etc/ssl/certs/ca-certificates.crt", "etc/ssl/certs/ca-certificates.crt", 0o644},
	} {
		text, err := os.ReadFile(from.path)
		if err != nil {
			return nil, err
		}
		files = append(files, file{name: from.name, text: text, mode: from.mode})
	}
	return files, nil
}

// archive returns files as tar.
func archive(files []file) ([]byte, error) {
	var text bytes.Buffer
	w := tar.NewWriter(&text)
	for _, f := range files {
		head := tar.Header{
			Typeflag: tar.TypeReg, Name: f.name, Mode: f.mode, Size: int64(len(f.text)),
			Uid: f.owner, Gid: f.owner, ModTime: packed, Format: tar.FormatPAX,
		}
		switch {
		case f.target != "":
			head.Typeflag, head.Linkname = tar.TypeSymlink, f.target
		case f.name[len(f.name)-1] == '/':
			head.Typeflag = tar.TypeDir
		}
		if err := w.WriteHeader(&head); err != nil {
			return nil, err
		}
		if _, err := w.Write(f.text); err != nil {
			return nil, err
		}
	}
	err := w.Close() // writes the end
	return text.Bytes(), err
}
