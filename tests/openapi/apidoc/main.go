// Command apidoc writes docs/api.md and demo/page/index.html from docs/openapi.yaml.
//
//	cd tests/openapi && go run ./apidoc
package main

import (
	"fmt"
	"os"
	"path/filepath"

	"github.com/card-gateway/card-gateway/tests/openapi/document"
)

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, "apidoc:", err)
		os.Exit(1)
	}
}

func run() error {
	root, err := document.Root()
	if err != nil {
		return err
	}
	made, err := Make()
	if err != nil {
		return err
	}
	for path, text := range made {
		if err := os.WriteFile(filepath.Join(root, path), []byte(text), 0o644); err != nil { //nolint:gosec // pages for everybody
			return err
		}
	}
	return nil
}

// Make returns the text of each generated file, by its path from the root.
func Make() (map[string]string, error) {
	d, err := document.Load()
	if err != nil {
		return nil, err
	}
	page, err := demoPage(d)
	if err != nil {
		return nil, err
	}
	return map[string]string{"docs/api.md": newReference(d).text(), "demo/page/index.html": page}, nil
}
