package house

import (
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

// knotted are the packages whose files may need each other, and why. In all
// other packages the files use each other in one direction only. So a reader of
// a file needs to know only the files below it.
var knotted = map[string]string{
	"forward":         "a connection and its issuer know each other, and so do an exchange and its answer, and a forwarder and its checks",
	"keys":            "the files are the subjects of one service, which change, audit and look up through each other",
	"sandbox/issuer":  "the files are the resources of one issuer, which show parts of each other",
	"store/file":      "the files are the subjects of one state under one lock",
	"store/storetest": "the files are the subjects of one suite with the world that it tests in",
	"tests/harness":   "the files are parts of one gateway under test",
}

// TestFilesUseEachOtherInOneDirection checks every name of another file that a
// file uses, fields and methods included. The receiver type of a method does
// not count.
func TestFilesUseEachOtherInOneDirection(t *testing.T) {
	harness.DependOnSources(t)
	packages, exports := listPackages(t)
	lookup := func(path string) (io.ReadCloser, error) {
		if exports[path] == "" {
			return nil, errors.New("no export data of " + path)
		}
		return os.Open(exports[path])
	}
	for _, p := range packages {
		fset := token.NewFileSet()
		uses := fileUses(t, fset, p, importer.ForCompiler(fset, "gc", lookup))
		found := circles(uses)
		dir := strings.TrimPrefix(strings.TrimPrefix(p.ImportPath, module), "/")
		switch reason := knotted[dir]; {
		case len(found) == 0 && reason != "":
			t.Errorf("the files of %s use each other in one direction now; drop its exception", dir)
		case reason == "":
			for _, circle := range found {
				t.Errorf("%s: the files %s use each other in a circle; move what ties them to where both may look:", dir, strings.Join(circle, ", "))
				uses.report(t, circle)
			}
		}
	}
}

// uses are the names that a file uses of another one: by user, by owner.
type uses map[string]map[string]map[string]bool

func (u uses) add(from, to, name string) {
	if u[from] == nil {
		u[from] = make(map[string]map[string]bool)
	}
	if u[from][to] == nil {
		u[from][to] = make(map[string]bool)
	}
	u[from][to][name] = true
}

// report prints the names that the files of a circle use of each other.
func (u uses) report(t *testing.T, circle []string) {
	t.Helper()
	for _, from := range circle {
		for _, to := range circle {
			if names := u[from][to]; len(names) > 0 {
				t.Errorf("  %s uses %s of %s", from, strings.Join(slices.Sorted(maps.Keys(names)), ", "), to)
			}
		}
	}
}

// A listed is a package as the go command lists it.
type listed struct {
	ImportPath, Dir, Export string
	GoFiles                 []string
	Module                  *struct{ Main bool }
}

// listPackages returns the packages of the module, and where the export data of
// everything that they import is.
func listPackages(t *testing.T) (ours []listed, exports map[string]string) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "go", "list", "-deps", "-export", "-json=ImportPath,Dir,Export,GoFiles,Module", "./...")
	cmd.Dir, cmd.Stderr = filepath.Join("..", ".."), os.Stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	exports = make(map[string]string)
	for d := json.NewDecoder(out); ; {
		var p listed
		if err := d.Decode(&p); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			t.Fatal(err)
		}
		exports[p.ImportPath] = p.Export
		if p.Module != nil && p.Module.Main {
			ours = append(ours, p)
		}
	}
	if err := cmd.Wait(); err != nil {
		t.Fatal(err)
	}
	return ours, exports
}

// fileUses type-checks a package and returns what its files use of each other.
func fileUses(t *testing.T, fset *token.FileSet, p listed, imports types.Importer) uses {
	t.Helper()
	files := make([]*ast.File, len(p.GoFiles))
	for i, name := range p.GoFiles {
		var err error
		if files[i], err = parser.ParseFile(fset, filepath.Join(p.Dir, name), nil, parser.SkipObjectResolution); err != nil {
			t.Fatal(err)
		}
	}
	info := &types.Info{Uses: make(map[*ast.Ident]types.Object)}
	pkg, err := (&types.Config{Importer: imports}).Check(p.ImportPath, fset, files, info)
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		for _, decl := range file.Decls {
			if method, ok := decl.(*ast.FuncDecl); ok && method.Recv != nil {
				ast.Inspect(method.Recv, func(n ast.Node) bool {
					if ident, ok := n.(*ast.Ident); ok {
						delete(info.Uses, ident)
					}
					return true
				})
			}
		}
	}
	fileOf := func(pos token.Pos) string { return filepath.Base(fset.Position(pos).Filename) }
	found := make(uses)
	for ident, object := range info.Uses {
		if from, to := fileOf(ident.Pos()), fileOf(object.Pos()); object.Pkg() == pkg && from != to {
			found.add(from, to, ident.Name)
		}
	}
	return found
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

// A circle over several files is found, and there is none if all uses go one
// way.
func TestCircles(t *testing.T) {
	found := make(uses)
	for _, pair := range []string{"ab", "ad", "bc", "de", "fd"} {
		found.add(pair[:1], pair[1:], "x")
	}
	if got := circles(found); len(got) != 0 {
		t.Errorf("got %v, want none", got)
	}
	found.add("c", "a", "x")
	if got := circles(found); len(got) != 1 || strings.Join(got[0], "") != "abc" {
		t.Errorf("got %v, want a b c", got)
	}
}
