// Packages builds what a node installs: a deb, an rpm, and an image as an OCI
// layout, all from one binary that xcaddy.sh has built.
package main

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

func main() {
	var s source
	flag.StringVar(&s.root, "root", "../..", "the `directory` of the repository")
	flag.StringVar(&s.binary, "binary", "", "the `file` that xcaddy.sh has built")
	flag.StringVar(&s.commit, "commit", "", "the commit that it was built from")
	flag.StringVar(&s.version, "version", "", "the version; the file VERSION says it otherwise")
	out := flag.String("out", "", "the `directory` for the packages")
	flag.Parse()
	if s.binary == "" || *out == "" || flag.NArg() > 0 {
		flag.Usage()
		os.Exit(2)
	}
	made, err := build(&s, *out)
	if err != nil {
		fmt.Fprintln(os.Stderr, "packages:", err)
		os.Exit(1)
	}
	for _, line := range made {
		fmt.Println(line)
	}
}

// A source is what packages are made of.
type source struct {
	root, binary, commit, version string
}

// path returns the path of a file of the repository.
func (s *source) path(name string) string {
	return filepath.Join(s.root, filepath.FromSlash(name))
}

// build makes all packages in the directory out. It returns a line for each: its
// path, and what it is.
func build(s *source, out string) ([]string, error) {
	if err := os.MkdirAll(out, 0o755); err != nil {
		return nil, err
	}
	if s.version == "" {
		text, err := os.ReadFile(s.path("VERSION"))
		if err != nil {
			return nil, err
		}
		s.version = strings.TrimSpace(string(text))
	}
	var made []string
	for _, format := range []string{"deb", "rpm"} {
		file, err := buildPackage(s, format, out)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", format, err)
		}
		made = append(made, file)
	}
	image, err := buildImage(s, out)
	if err != nil {
		return nil, fmt.Errorf("image: %w", err)
	}
	return append(made, image), nil
}
