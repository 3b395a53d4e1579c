package house

import (
	"go/parser"
	"go/token"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// mapped finds a line of a package comment that lists files by their job.
var mapped = regexp.MustCompile(`(?m)^ +- ([a-z_*]+(?:, [a-z_*]+)*): `)

// TestMapsNameFiles checks that every file in the list of a package comment
// exists.
func TestMapsNameFiles(t *testing.T) {
	packages := goList(t, "./...")
	maps := 0
	for _, p := range packages {
		for _, name := range p.GoFiles {
			file, err := parser.ParseFile(token.NewFileSet(), filepath.Join(p.Dir, name), nil, parser.ParseComments|parser.PackageClauseOnly)
			if err != nil {
				t.Fatal(err)
			}
			lines := mapped.FindAllStringSubmatch(file.Doc.Text(), -1)
			maps += min(len(lines), 1)
			for _, line := range lines {
				for part := range strings.SplitSeq(line[1], ", ") {
					if found, err := filepath.Glob(filepath.Join(p.Dir, part+".go")); err != nil || len(found) == 0 {
						t.Errorf("%s: the package comment lists %s, which is no file", p.ImportPath, part)
					}
				}
			}
		}
	}
	if maps < 4 {
		t.Errorf("only %d package comments list files: the test does not find them", maps)
	}
}
