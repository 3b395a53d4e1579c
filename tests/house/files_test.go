package house

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"go/ast"
	"go/importer"
	"go/parser"
	"go/token"
	"go/types"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/card-gateway/card-gateway/tests/harness"
)

// layered are packages whose files use each other in one direction only, so
// that each can be read with no more than what is below it in mind.
var layered = []string{"store/redis"}

func TestFilesOfAPackageUseEachOtherInOneDirection(t *testing.T) {
	for _, dir := range layered {
		t.Run(dir, func(t *testing.T) {
			uses := fileUses(t, dir)
			for _, circle := range circles(uses) {
				t.Errorf("the files %s use each other in a circle:", strings.Join(circle, ", "))
				for _, from := range circle {
					for _, to := range circle {
						if names := uses[from][to]; len(names) > 0 {
							t.Errorf("  %s uses %s of %s", from, strings.Join(slices.Sorted(maps.Keys(names)), ", "), to)
						}
					}
				}
			}
		})
	}
}

// uses are the names that a file uses of another one: by user, by owner.
type uses map[string]map[string]map[string]bool

// fileUses type-checks the package in the directory and returns what its files use
// of each other.
func fileUses(t *testing.T, dir string) uses {
	t.Helper()
	harness.DependOnSources(t)
	p := listExports(t, dir)
	fset := token.NewFileSet()
	files := make([]*ast.File, len(p.GoFiles))
	for i, name := range p.GoFiles {
		var err error
		if files[i], err = parser.ParseFile(fset, filepath.Join("../..", dir, name), nil, parser.SkipObjectResolution); err != nil {
			t.Fatal(err)
		}
	}
	info := &types.Info{Uses: make(map[*ast.Ident]types.Object)}
	lookup := func(path string) (io.ReadCloser, error) { return os.Open(p.exports[path]) }
	config := types.Config{Importer: importer.ForCompiler(fset, "gc", lookup)}
	pkg, err := config.Check(p.ImportPath, fset, files, info)
	if err != nil {
		t.Fatal(err)
	}
	found := make(uses)
	for ident, object := range info.Uses {
		from, to := filepath.Base(fset.Position(ident.Pos()).Filename), filepath.Base(fset.Position(object.Pos()).Filename)
		if object.Pkg() != pkg || from == to {
			continue
		}
		if found[from] == nil {
			found[from] = make(map[string]map[string]bool)
		}
		if found[from][to] == nil {
			found[from][to] = make(map[string]bool)
		}
		found[from][to][ident.Name] = true
	}
	return found
}

// exported is what `go list -export` says of a package: its files, and where
// the compiler has left the types of those that it imports.
type exported struct {
	ImportPath, Export string
	GoFiles            []string
	exports            map[string]string // files by import path
}

func listExports(t *testing.T, dir string) exported {
	t.Helper()
	cmd := exec.Command("go", "list", "-export", "-deps", "-json=ImportPath,Export,GoFiles", "./"+dir)
	cmd.Dir = "../.."
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%v: %v\n%s", cmd, err, &stderr)
	}
	exports := make(map[string]string)
	var last exported // the package itself comes behind what it imports
	for dec := json.NewDecoder(bytes.NewReader(out)); ; {
		var p exported
		if err := dec.Decode(&p); errors.Is(err, io.EOF) {
			last.exports = exports
			return last
		} else if err != nil {
			t.Fatalf("reading the output of %v: %v", cmd, err)
		}
		exports[p.ImportPath], last = p.Export, p
	}
}

// circles returns the groups of files that use each other, straight or through
// others, each sorted.
func circles(all uses) [][]string {
	reach := make(map[string]map[string]bool)
	var walk func(from, at string)
	walk = func(from, at string) {
		for to := range all[at] {
			if !reach[from][to] {
				reach[from][to] = true
				walk(from, to)
			}
		}
	}
	for from := range all {
		reach[from] = make(map[string]bool)
		walk(from, from)
	}
	groups := make(map[string][]string)
	for file := range reach {
		if !reach[file][file] {
			continue
		}
		var group []string
		for other := range reach[file] {
			if reach[other][file] {
				group = append(group, other)
			}
		}
		slices.Sort(group)
		groups[fmt.Sprint(group)] = group
	}
	return slices.SortedFunc(maps.Values(groups), slices.Compare)
}
