// Package document reads docs/openapi.yaml for the tests that hold it against the
// gateway, and for the page that is made from it.
package document

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/pb33f/go-yaml"
	"github.com/pb33f/libopenapi"
	v3 "github.com/pb33f/libopenapi/datamodel/high/v3"
	"github.com/pb33f/libopenapi/orderedmap"
)

// Path is where the document is, from the root of the repository.
const Path = "docs/openapi.yaml"

// A Document is the whole description.
type Document struct {
	libopenapi.Document
	Model      *v3.Document
	Operations []Operation // as they are ordered in the document
}

// An Operation is one method of one path.
type Operation struct {
	*v3.Operation
	Name          string // of the gateway's operation
	Method, Path  string
	Scope         string // empty: none is needed
	Limit         string // the built-in limit of a key
	MaxBody       string // the largest body; empty: what the site allows
	PathOrigin    string // published, gateway, example or sandbox
	PayloadOrigin string
}

// Root returns the directory of the repository. Whoever asks runs below it.
func Root() (string, error) {
	dir, err := os.Getwd()
	for err == nil {
		if _, err = os.Stat(filepath.Join(dir, Path)); err == nil {
			return dir, nil
		}
		if up := filepath.Dir(dir); up != dir {
			dir, err = up, nil
		}
	}
	return "", fmt.Errorf("looking for %s: %w", Path, err)
}

// Load reads the document.
func Load() (*Document, error) {
	root, err := Root()
	if err != nil {
		return nil, err
	}
	text, err := os.ReadFile(filepath.Join(root, Path))
	if err != nil {
		return nil, err
	}
	parsed, err := libopenapi.NewDocument(text)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", Path, err)
	}
	model, err := parsed.BuildV3Model()
	if err != nil {
		return nil, fmt.Errorf("%s: %w", Path, err)
	}
	d := &Document{Document: parsed, Model: &model.Model}
	for path, item := range d.Model.Paths.PathItems.FromOldest() {
		for method, operation := range item.GetOperations().FromOldest() {
			made := newOperation(operation)
			made.Method, made.Path = strings.ToUpper(method), path
			d.Operations = append(d.Operations, made)
		}
	}
	if len(d.Operations) == 0 {
		return nil, errors.New(Path + " has no operations")
	}
	return d, nil
}

func newOperation(o *v3.Operation) Operation {
	made := Operation{Operation: o, Name: Text(o.Extensions, "x-operation")}
	if made.Name == "" {
		made.Name = o.OperationId
	}
	made.Scope, made.Limit, made.MaxBody = Text(o.Extensions, "x-scope"), Text(o.Extensions, "x-rate-limit"), Text(o.Extensions, "x-max-body")
	made.PathOrigin, made.PayloadOrigin = Text(o.Extensions, "x-path-origin"), Text(o.Extensions, "x-payload-origin")
	return made
}

// Text returns the text of an extension, or "".
func Text(extensions *orderedmap.Map[string, *yaml.Node], name string) string {
	if node := extensions.GetOrZero(name); node != nil {
		return node.Value
	}
	return ""
}
