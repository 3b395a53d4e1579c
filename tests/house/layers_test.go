package house

import (
	"encoding/json"
	"errors"
	"go/ast"
	"go/importer"
	"go/parser"
	"go/token"
	"go/types"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// circles are the packages whose files may need each other, and why. Everywhere
// else the files of a package have an order in which each can be read with only
// those before it in mind.
var circles = map[string]string{
	"caddymodule/signcmd": "a request is read, printed and sent by the same command",
	"forward":             "a connection and its issuer know each other, and so do an exchange and its answer, and a forwarder and its checks",
	"keys":                "the files are the subjects of one service, which change, audit and look up through each other",
	"sandbox/issuer":      "the files are the resources of one issuer, which show parts of each other",
	"store/file":          "the files are the subjects of one state under one lock",
	"store/storetest":     "the files are the subjects of one suite with the world that it tests in",
	"tests/harness":       "the files are parts of one gateway under test",
}

// TestFilesHaveAnOrder finds files that need each other: what one names, fields
// and methods included, leads through others back to itself. The type before a
// method's name is no such reference, since a method says only where it belongs.
func TestFilesHaveAnOrder(t *testing.T) {
	packages, exports := listPackages(t)
	lookup := func(path string) (io.ReadCloser, error) {
		if exports[path] == "" {
			return nil, errors.New("no export data of " + path)
		}
		return os.Open(exports[path])
	}
	for _, p := range packages {
		fset := token.NewFileSet()
		found := fileCircles(fileReferences(t, fset, p, importer.ForCompiler(fset, "gc", lookup)))
		dir := strings.TrimPrefix(strings.TrimPrefix(p.ImportPath, module), "/")
		switch reason := circles[dir]; {
		case len(found) > 0 && reason == "":
			t.Errorf("%s: these files need each other: %v; move what ties them to where both may look", dir, found)
		case len(found) == 0 && reason != "":
			t.Errorf("%s has no circle any more; drop its exception", dir)
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

// fileReferences returns, for each file of a package, the others that it names
// something of.
func fileReferences(t *testing.T, fset *token.FileSet, p listed, imports types.Importer) map[string][]string {
	t.Helper()
	var files []*ast.File
	for _, name := range p.GoFiles {
		file, err := parser.ParseFile(fset, filepath.Join(p.Dir, name), nil, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		files = append(files, file)
	}
	info := &types.Info{Uses: make(map[*ast.Ident]types.Object)}
	pkg, err := (&types.Config{Importer: imports}).Check(p.ImportPath, fset, files, info)
	if err != nil {
		t.Fatal(err)
	}
	fileOf := func(pos token.Pos) string { return filepath.Base(fset.Position(pos).Filename) }
	references := make(map[string][]string)
	for _, file := range files {
		from := fileOf(file.Pos())
		for _, decl := range file.Decls {
			if method, ok := decl.(*ast.FuncDecl); ok {
				method.Recv = nil
			}
			ast.Inspect(decl, func(n ast.Node) bool {
				id, _ := n.(*ast.Ident)
				if used := info.Uses[id]; used != nil && used.Pkg() == pkg {
					if to := fileOf(used.Pos()); to != from && !slices.Contains(references[from], to) {
						references[from] = append(references[from], to)
					}
				}
				return true
			})
		}
	}
	return references
}

// fileCircles returns the groups of files that can be reached from each other.
func fileCircles(references map[string][]string) [][]string {
	reached := func(from string) map[string]bool {
		seen := make(map[string]bool)
		for next := slices.Clone(references[from]); len(next) > 0; next = next[1:] {
			if !seen[next[0]] {
				seen[next[0]] = true
				next = append(next, references[next[0]]...)
			}
		}
		return seen
	}
	var found [][]string
	done := make(map[string]bool)
	for from := range references {
		if forward := reached(from); forward[from] && !done[from] {
			var circle []string
			for other := range forward {
				if reached(other)[from] {
					circle, done[other] = append(circle, other), true
				}
			}
			slices.Sort(circle)
			found = append(found, circle)
		}
	}
	return found
}

// A circle is found over several files, and none where all runs one way.
func TestFileCircles(t *testing.T) {
	found := fileCircles(map[string][]string{"a": {"b", "d"}, "b": {"c"}, "c": {"a"}, "d": {"e"}})
	if len(found) != 1 || strings.Join(found[0], "") != "abc" {
		t.Errorf("got %v", found)
	}
	if found := fileCircles(map[string][]string{"a": {"b", "c"}, "b": {"c"}}); found != nil {
		t.Errorf("got %v", found)
	}
}
