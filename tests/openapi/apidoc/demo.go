package main

import (
	_ "embed"
	"html/template"
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
	page, err := template.New("demo").Delims("[[", "]]").Parse(demoTemplate)
	if err != nil {
		return "", err
	}
	var b strings.Builder
	err = page.Execute(&b, groups)
	return b.String(), err
}
