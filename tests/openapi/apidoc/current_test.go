package main

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/card-gateway/card-gateway/tests/openapi/document"
)

// TestPagesAreCurrent compares what is made from the document with what is stored.
func TestPagesAreCurrent(t *testing.T) {
	root, err := document.Root()
	if err != nil {
		t.Fatal(err)
	}
	made, err := Make()
	if err != nil {
		t.Fatal(err)
	}
	for path, want := range made {
		if got, err := os.ReadFile(filepath.Join(root, path)); err != nil || string(got) != want {
			t.Errorf("%s is not what %s says now (%v); make docs writes it", path, document.Path, err)
		}
	}
}
