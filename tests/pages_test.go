package tests

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// A Page is a Markdown file of the repository, by its path from the root.
type Page struct{ Path, Text string }

// madeHere are the directories of what is built and run, which git ignores.
var madeHere = map[string]bool{"bin": true, "data": true, "dist": true, "node_modules": true, "testdata": true}

// Pages returns what people read: everything in Markdown.
func Pages(t *testing.T) []Page {
	t.Helper()
	var all []Page
	err := filepath.WalkDir("..", func(path string, entry fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case entry.IsDir() && path != ".." && (strings.HasPrefix(entry.Name(), ".") || madeHere[entry.Name()]):
			return fs.SkipDir
		case entry.IsDir() || filepath.Ext(path) != ".md":
			return nil
		}
		text, err := os.ReadFile(path)
		rel, _ := filepath.Rel("..", path)
		all = append(all, Page{rel, string(text)})
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// A Block is a fenced code block and the line that it begins at.
type Block struct {
	Language, Text string
	Line           int
}

var fence = regexp.MustCompile("(?ms)^```([a-z]+)[^\n]*\n(.*?)^```$")

func Blocks(p Page) []Block {
	var all []Block
	for _, m := range fence.FindAllStringSubmatchIndex(p.Text, -1) {
		all = append(all, Block{
			Language: p.Text[m[2]:m[3]], Text: p.Text[m[4]:m[5]], Line: 1 + strings.Count(p.Text[:m[0]], "\n"),
		})
	}
	return all
}
