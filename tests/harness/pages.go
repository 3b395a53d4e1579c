package harness

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// A Page is a Markdown file of the repository, by its path from the root.
type Page struct{ Path, Text string }

// Pages returns all Markdown files of the repository.
func Pages(t testing.TB) []Page {
	t.Helper()
	var all []Page
	err := walk(func(root, path string) error {
		if filepath.Ext(path) != ".md" {
			return nil
		}
		text, err := os.ReadFile(filepath.Join(root, path))
		all = append(all, Page{path, string(text)})
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// A Block is a fenced code block of a page, with its first line.
type Block struct {
	Language, Text string
	Line           int
}

var fence = regexp.MustCompile("(?ms)^```([a-z]+)[^\n]*\n(.*?)^```$")

// Blocks returns the code blocks of a page in order.
func Blocks(p Page) []Block {
	var all []Block
	for _, m := range fence.FindAllStringSubmatchIndex(p.Text, -1) {
		all = append(all, Block{
			Language: p.Text[m[2]:m[3]], Text: p.Text[m[4]:m[5]], Line: 1 + strings.Count(p.Text[:m[0]], "\n"),
		})
	}
	return all
}

// Prose returns the text of a page without its code blocks.
func Prose(text string) string { return fence.ReplaceAllString(text, "") }
