// Package docs tests the documentation: examples, links, options.
package docs

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"regexp"
	"strings"
	"testing"
	"unicode"

	"github.com/card-gateway/card-gateway/tests/harness"
)

// adapt turns a Caddyfile into JSON with the gateway's own binary.
func adapt(t *testing.T, path string) (map[string]any, error) {
	t.Helper()
	cmd := exec.Command(harness.Binary(t), "adapt", "--adapter", "caddyfile", "--config", filepath.Base(path))
	cmd.Dir = filepath.Dir(path)
	out, err := cmd.Output()
	if exit := new(exec.ExitError); errors.As(err, &exit) {
		return nil, fmt.Errorf("%w: %s", err, exit.Stderr)
	} else if err != nil {
		return nil, err
	}
	var config map[string]any
	if err := json.Unmarshal(out, &config); err != nil {
		t.Fatalf("adapt %s prints no JSON: %v", path, err)
	}
	return config, nil
}

// adaptText adapts a Caddyfile, or a part of one: lines of the global block
// card_gateway, of the global options or of a site.
func adaptText(t *testing.T, text string) (map[string]any, error) {
	t.Helper()
	first := ""
	for line := range strings.Lines(text) {
		if line = strings.TrimSpace(line); line != "" && !strings.HasPrefix(line, "#") {
			first = line
			break
		}
	}
	shapes := []string{"{\ncard_gateway {\n%s\n}\n}\n", "{\n%s\n}\n", ":8080 {\n%s\n}\n", "{\nlog {\n%s\n}\n}\n"}
	word, _, _ := strings.Cut(first, " ")
	if strings.HasSuffix(first, "{") && strings.ContainsAny(word, "{:./*") {
		shapes = []string{"%s"} // a whole one
	}
	path := filepath.Join(t.TempDir(), "Caddyfile")
	var whys []string
	for _, shape := range shapes {
		if err := os.WriteFile(path, fmt.Appendf(nil, shape, text), 0o600); err != nil {
			t.Fatal(err)
		}
		config, err := adapt(t, path)
		if err == nil {
			return config, nil
		}
		whys = append(whys, err.Error())
	}
	return nil, fmt.Errorf("%s", strings.Join(whys, "or, as another part: "))
}

// TestCaddyfilesInDocsAdapt tries every block that is marked as a Caddyfile,
// whole or in part.
func TestCaddyfilesInDocsAdapt(t *testing.T) {
	t.Parallel()
	tried := 0
	for _, p := range harness.Pages(t) {
		for _, b := range harness.Blocks(p) {
			if b.Language != "caddyfile" {
				continue
			}
			tried++
			if _, err := adaptText(t, b.Text); err != nil {
				t.Errorf("%s:%d: %v", p.Path, b.Line, err)
			}
		}
	}
	if tried == 0 {
		t.Error("no page shows a Caddyfile any more")
	}
}

// TestExampleAsksForTheIssuersHost: a client's Host is not signed, so the example
// does not forward it. A card_forward without the option host sends the issuer's
// own.
func TestExampleAsksForTheIssuersHost(t *testing.T) {
	t.Parallel()
	config, err := adapt(t, "../../Caddyfile.example")
	if err != nil {
		t.Fatal(err)
	}
	text, err := json.Marshal(config)
	if err != nil || !strings.Contains(string(text), `"handler":"card_forward"`) || strings.Contains(string(text), `"host":"`) ||
		strings.Contains(string(text), `"handler":"reverse_proxy"`) {
		t.Errorf("Caddyfile.example does not forward by card_forward with the issuer's Host: %v", err)
	}
}

// TestShippedCaddyfilesAdapt adapts the Caddyfiles of the repository, and checks
// that they are formatted by Caddy's rules.
func TestShippedCaddyfilesAdapt(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("../../Caddyfile.example")
	if err != nil {
		t.Fatal(err)
	}
	production := strings.NewReplacer(
		":{$CARD_GATEWAY_PORT:8080} {", "cards.example.com {",
	).Replace(string(text))
	if _, err := adaptText(t, production); err != nil || strings.Count(production, "cards.example.com {") != 2 {
		t.Errorf("the production form of Caddyfile.example: %v", err)
	}
	for _, path := range []string{"../../Caddyfile.example", "../../demo/Caddyfile", "../../ops/kubernetes/Caddyfile", "../../ops/compose/Caddyfile"} {
		if _, err := adapt(t, path); err != nil {
			t.Errorf("%s: %v", path, err)
		}
		formatted(t, path)
	}
	formatted(t, "../../ops/two-nodes/Caddyfile") // adapted by TestDeploymentPage, with the operations that it imports
}

// formatted requires that a Caddyfile is as Caddy formats it.
func formatted(t *testing.T, path string) {
	t.Helper()
	// fmt ends with status 1 if it would change something.
	if out, err := exec.Command(harness.Binary(t), "fmt", path).CombinedOutput(); err != nil {
		t.Errorf("%s is not formatted; `make fmt` does it: %v\n%s", path, err, out)
	}
}

// TestJSONInDocsIsWhatTheCaddyfileMeans compares each block of JSON in the
// guide to the configuration with the Caddyfile block before it.
func TestJSONInDocsIsWhatTheCaddyfileMeans(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("../../docs/configuration.md")
	if err != nil {
		t.Fatal(err)
	}
	var before harness.Block
	compared := 0
	for _, b := range harness.Blocks(harness.Page{Path: "docs/configuration.md", Text: string(text)}) {
		switch b.Language {
		case "caddyfile":
			before = b
		case "json":
			compared++
			adapted, err := adaptText(t, before.Text)
			if err != nil {
				t.Errorf("docs/configuration.md:%d: %v", before.Line, err)
				continue
			}
			var shown map[string]any
			if err := json.Unmarshal([]byte(b.Text), &shown); err != nil {
				t.Errorf("docs/configuration.md:%d: %v", b.Line, err)
			} else if !reflect.DeepEqual(shown, adapted) {
				got, _ := json.MarshalIndent(adapted, "", "  ")
				t.Errorf("docs/configuration.md:%d: the Caddyfile before it means\n%s", b.Line, got)
			}
		}
	}
	if compared == 0 {
		t.Error("docs/configuration.md shows no JSON any more")
	}
}

// TestEveryOptionIsDocumented takes the options from the parser's error texts,
// which name all of them.
func TestEveryOptionIsDocumented(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("../../docs/configuration.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, directive := range []string{"card_gateway", "card_auth", "card_rate_limit", "card_forward issuer:9000"} {
		shape := ":8080 {\n%s {\nno_such_option\n}\n}\n"
		if directive == "card_gateway" {
			shape = "{\n%s {\nno_such_option\n}\n}\n"
		}
		path := filepath.Join(t.TempDir(), "Caddyfile")
		if err := os.WriteFile(path, fmt.Appendf(nil, shape, directive), 0o600); err != nil {
			t.Fatal(err)
		}
		_, err := adapt(t, path)
		if err == nil {
			t.Fatalf("%s takes an option that nobody knows", directive)
		}
		_, list, found := strings.Cut(err.Error(), "it takes ")
		list, _, _ = strings.Cut(strings.SplitN(list, "\n", 2)[0], ", at ")
		list, _, _ = strings.Cut(list, " (")
		if !found {
			t.Errorf("%s: the error names no options: %v", directive, err)
			continue
		}
		for name := range strings.FieldsFuncSeq(strings.ReplaceAll(list, " and ", " "), func(r rune) bool { return r == ' ' || r == ',' }) {
			if !strings.Contains(string(text), "`"+name) {
				t.Errorf("docs/configuration.md does not speak of %s, an option of %s", name, directive)
			}
		}
	}
}

var link = regexp.MustCompile(`\]\(([^)\s]+)\)`)

// TestLinksInDocsResolve checks the links inside the repository, with the heading.
func TestLinksInDocsResolve(t *testing.T) {
	t.Parallel()
	followed := 0
	for _, p := range harness.Pages(t) {
		prose := harness.Prose(p.Text)
		for _, m := range link.FindAllStringSubmatch(prose, -1) {
			target, err := url.Parse(m[1])
			if err != nil {
				t.Errorf("%s: %s: %v", p.Path, m[1], err)
				continue
			}
			if target.Scheme != "" {
				continue
			}
			followed++
			to := filepath.Join("../..", filepath.Dir(p.Path), target.Path)
			if target.Path == "" {
				to = filepath.Join("../..", p.Path)
			}
			text, err := os.ReadFile(to)
			if info, statErr := os.Stat(to); statErr == nil && info.IsDir() {
				continue
			}
			if err != nil {
				t.Errorf("%s links to %s: %v", p.Path, m[1], err)
			} else if target.Fragment != "" && !hasHeading(string(text), target.Fragment) {
				t.Errorf("%s links to %s, but there is no such heading", p.Path, m[1])
			}
		}
	}
	if followed == 0 {
		t.Error("no page links to another any more")
	}
}

var heading = regexp.MustCompile(`(?m)^#{1,6} (.*)$`)

// hasHeading reports whether a heading of the page has this anchor.
func hasHeading(text, anchor string) bool {
	for _, m := range heading.FindAllStringSubmatch(harness.Prose(text), -1) {
		slug := strings.Map(func(r rune) rune {
			switch {
			case r == ' ':
				return '-'
			case r == '-' || r == '_' || unicode.IsLetter(r) || unicode.IsDigit(r):
				return unicode.ToLower(r)
			default:
				return -1
			}
		}, strings.TrimSpace(m[1]))
		if slug == anchor {
			return true
		}
	}
	return false
}
