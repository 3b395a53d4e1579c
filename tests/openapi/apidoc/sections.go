package main

import (
	"fmt"
	"slices"
	"strings"

	"github.com/pb33f/libopenapi/datamodel/high/base"
	"github.com/pb33f/libopenapi/orderedmap"

	"github.com/card-gateway/card-gateway/tests/openapi/document"
)

// operation writes the section of an operation.
func (r *reference) operation(o *document.Operation) {
	r.line("\n### %s\n\n```\n%s %s\n```\n", o.Summary, o.Method, o.Path)
	if o.Description != "" {
		r.line("%s\n", o.Description)
	}
	facts := []string{"Operation `" + o.Name + "`"}
	if o.Scope != "" {
		facts = append(facts, "scope `"+o.Scope+"`")
	}
	facts = append(facts, "limit "+o.Limit)
	if o.MaxBody != "" {
		facts = append(facts, "largest body "+o.MaxBody)
	}
	facts = append(facts, "path: "+o.PathOrigin, "payload: "+o.PayloadOrigin)
	r.line("%s.", strings.Join(facts, ", "))
	r.parameters(o)
	if o.RequestBody != nil {
		what := "Body"
		if o.RequestBody.Required == nil || !*o.RequestBody.Required {
			what = "Body, which may be left out"
		}
		r.examples(what, o.RequestBody.Content)
	}
	var others []string
	for status, response := range o.Responses.Codes.FromOldest() {
		switch {
		case strings.HasPrefix(status, "2"):
			r.line("\n**%s**: %s", status, response.Description)
			r.examples("Answer", response.Content)
		case !slices.Contains(r.everywhere, status) || o.Scope == "":
			others = append(others, fmt.Sprintf("%s: %s", status, strings.TrimSuffix(response.Description, ".")))
		}
	}
	if others != nil {
		r.line("\nOther answers: %s.", strings.Join(others, "; "))
	}
}

// parameters writes those of path and query.
func (r *reference) parameters(o *document.Operation) {
	first := true
	for _, p := range o.Parameters {
		if p.In == "header" && p.Name != "X-Card-Variant" {
			continue
		}
		if first {
			r.line("\n| parameter | in | type | |\n|---|---|---|---|")
			first = false
		}
		r.line("| `%s` | %s | %s | %s |", p.Name, p.In, r.typeOf(p.Schema), p.Description)
	}
}

// schemaLink returns a link to the schema of a body, if it has a name.
func (r *reference) schemaLink(proxy *base.SchemaProxy) string {
	if proxy == nil {
		return ""
	}
	if name := nameOf(proxy); name != "" {
		return fmt.Sprintf(", [%s](#%s)", name, anchor(name))
	}
	var links []string
	for _, one := range slices.Concat(proxy.Schema().OneOf, proxy.Schema().AnyOf) {
		links = append(links, fmt.Sprintf("[%s](#%s)", nameOf(one), anchor(nameOf(one))))
	}
	if links == nil {
		return ""
	}
	return ", one of " + strings.Join(links, ", ")
}

func nameOf(proxy *base.SchemaProxy) string {
	reference := proxy.GetReference()
	return reference[strings.LastIndexByte(reference, '/')+1:]
}

// schemas writes the fields of each schema.
func (r *reference) schemas() {
	r.line("\n## Schemas")
	for name, proxy := range r.d.Model.Components.Schemas.FromOldest() {
		schema := proxy.Schema()
		r.line("\n### %s\n\nDecided by: %s. %s", name, document.Text(schema.Extensions, "x-origin"), schema.Description)
		r.line("\n| field | type | |\n|---|---|---|")
		r.fields("", schema)
	}
}

// fields writes the rows of an object, and those of the objects in it that have no
// name of their own.
func (r *reference) fields(prefix string, schema *base.Schema) {
	for name, proxy := range schema.Properties.FromOldest() {
		field := proxy.Schema()
		notes := field.Description
		if slices.Contains(schema.Required, name) {
			notes = strings.TrimSpace("required. " + notes)
		}
		r.line("| `%s%s` | %s | %s |", prefix, name, r.typeOf(proxy), notes)
		inner := field
		if field.Items != nil && field.Items.A != nil && nameOf(field.Items.A) == "" {
			inner, name = field.Items.A.Schema(), name+"[]"
		}
		if nameOf(proxy) == "" && orderedmap.Len(inner.Properties) > 0 {
			r.fields(prefix+name+".", inner)
		}
	}
}

// typeOf returns the type of a value in words.
func (r *reference) typeOf(proxy *base.SchemaProxy) string {
	if name := nameOf(proxy); name != "" {
		return fmt.Sprintf("[%s](#%s)", name, anchor(name))
	}
	s := proxy.Schema()
	if s.Items != nil && s.Items.A != nil {
		return "list of " + r.typeOf(s.Items.A)
	}
	if len(s.AnyOf) > 0 {
		var all []string
		for _, one := range s.AnyOf {
			all = append(all, r.typeOf(one))
		}
		return strings.Join(all, " or ")
	}
	words := strings.Join(s.Type, " or ")
	if s.Format != "" {
		words += " (" + s.Format + ")"
	}
	if s.Const != nil {
		words = "always `" + s.Const.Value + "`"
	}
	var values []string
	for _, value := range s.Enum {
		values = append(values, "`"+value.Value+"`")
	}
	if values != nil {
		words = strings.Join(values, ", ")
	}
	if s.MaxLength != nil {
		words += fmt.Sprintf(", at most %d characters", *s.MaxLength)
	}
	return words
}
