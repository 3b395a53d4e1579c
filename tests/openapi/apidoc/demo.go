package main

import (
	_ "embed"
	"html/template"
	"net/url"
	"regexp"
	"strings"

	"github.com/card-gateway/card-gateway/tests/openapi/document"
)

//go:embed demo.html
var demoTemplate string

// demoPage returns the page of `make run`. The gateway puts its address in when it
// serves it.
func demoPage(d *document.Document) (string, error) {
	type group struct {
		Name       string
		Operations []document.Operation
	}
	var groups []group
	for _, tag := range d.Model.Tags {
		g := group{Name: tag.Name}
		for _, o := range d.Operations {
			if o.Tags[0] == tag.Name {
				g.Operations = append(g.Operations, o)
			}
		}
		groups = append(groups, g)
	}
	page, err := template.New("demo").Delims("[[", "]]").Funcs(template.FuncMap{"steps": stepsQuery}).Parse(demoTemplate)
	if err != nil {
		return "", err
	}
	var b strings.Builder
	err = page.Execute(&b, groups)
	return b.String(), err
}

var placeholder = regexp.MustCompile(`\{\w+\}`)

// stepsQuery returns the query with which the debugger signs a request of the
// operation, with the example of its body that the demo key has the variant of.
func stepsQuery(o document.Operation) template.URL {
	form := url.Values{"method": {o.Method}, "target": {placeholder.ReplaceAllString(o.Path, "00000000-0000-4000-8000-000000000001")}}
	if o.RequestBody != nil {
		if media := o.RequestBody.Content.GetOrZero("application/json"); media != nil {
			for name, example := range media.Examples.FromOldest() {
				if name == "B" || !form.Has("body") {
					form.Set("body", jsonOf(example.Value, ""))
				}
			}
		}
	}
	return template.URL(form.Encode()) //nolint:gosec // it is made of our own document, and encoded
}
