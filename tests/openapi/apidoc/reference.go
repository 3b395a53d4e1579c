package main

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	v3 "github.com/pb33f/libopenapi/datamodel/high/v3"
	"github.com/pb33f/libopenapi/orderedmap"

	"github.com/card-gateway/card-gateway/tests/openapi/document"
)

const intro = `<!-- Made from docs/openapi.yaml by make docs; do not edit. -->

# The card API

For developers who call the card API through Card Gateway: every operation with its path, body and answers. The same in a form for
programs is [openapi.yaml](openapi.yaml). How to sign is in [signing](signing.md), what a refusal means in [errors](errors.md), and the
issuer that you try against in [sandbox](sandbox.md).

`

// reference writes docs/api.md.
type reference struct {
	strings.Builder
	d *document.Document
	// everywhere are the statuses that every operation of the issuer answers.
	everywhere []string
}

func newReference(d *document.Document) *reference {
	r := &reference{d: d}
	counts, issuers := make(map[string]int), 0
	for _, o := range d.Operations {
		if o.Scope == "" {
			continue
		}
		issuers++
		for status := range o.Responses.Codes.FromOldest() {
			counts[status]++
		}
	}
	for status, n := range counts {
		if n == issuers {
			r.everywhere = append(r.everywhere, status)
		}
	}
	slices.Sort(r.everywhere)
	return r
}

func (r *reference) line(format string, args ...any) {
	fmt.Fprintf(r, format, args...)
	fmt.Fprintln(r)
}

func (r *reference) text() string {
	fmt.Fprint(r, intro)
	_, marks, _ := strings.Cut(r.d.Model.Info.Description, "\n\n")
	r.line("%s", strings.TrimSpace(marks))
	r.overview()
	r.headers()
	r.refusals()
	for _, tag := range r.d.Model.Tags {
		r.line("\n## %s\n\n%s", tag.Name, tag.Description)
		for _, o := range r.d.Operations {
			if slices.Contains(o.Tags, tag.Name) {
				r.operation(&o)
			}
		}
		if tag.Name == "Webhooks" {
			for _, item := range r.d.Model.Webhooks.FromOldest() {
				r.line("\n### Notifications\n\n%s", item.Post.Description)
			}
		}
	}
	r.schemas()
	return r.String()
}

func (r *reference) overview() {
	r.line("\n## All operations\n\n| operation | request | scope | limit of a key | path | payload |\n|---|---|---|---|---|---|")
	for _, o := range r.d.Operations {
		scope := "none"
		if o.Scope != "" {
			scope = "`" + o.Scope + "`"
		}
		r.line("| [`%s`](#%s) | `%s %s` | %s | %s | %s | %s |", o.OperationId, anchor(o.Summary), o.Method, o.Path, scope, o.Limit, o.PathOrigin, o.PayloadOrigin)
	}
}

func (r *reference) headers() {
	c := r.d.Model.Components
	r.line("\n## Headers\n\nOf every request:\n\n| header | value |\n|---|---|")
	for _, s := range c.SecuritySchemes.FromOldest() {
		r.line("| `%s` | %s |", s.Name, s.Description)
	}
	r.line("\nOf a request, if you like:\n\n| header | value | decided by |\n|---|---|---|")
	for _, p := range c.Parameters.FromOldest() {
		if p.In == "header" {
			r.line("| `%s` | %s | %s |", p.Name, p.Description, document.Text(p.Extensions, "x-origin"))
		}
	}
	r.line("\nOf answers:\n\n| header | value | decided by |\n|---|---|---|")
	shown := make(map[string]bool)
	for _, o := range r.d.Operations {
		for _, response := range o.Responses.Codes.FromOldest() {
			for name, h := range response.Headers.FromOldest() {
				if !shown[name] {
					shown[name] = true
					r.line("| `%s` | %s | %s |", name, h.Description, document.Text(h.Extensions, "x-origin"))
				}
			}
		}
	}
}

// refusals lists the errors, each response once, with a row for each code and its
// messages.
func (r *reference) refusals() {
	r.line("\n## Errors\n\n| status | code | message | when |\n|---|---|---|---|")
	done := make(map[string]bool)
	for _, o := range r.d.Operations {
		for status, response := range o.Responses.Codes.FromOldest() {
			name := response.GoLow().GetReference()
			if name == "" || done[name] {
				continue
			}
			done[name] = true
			for _, media := range response.Content.FromOldest() {
				r.examplesOfErrors(status, response, media)
			}
		}
	}
	r.line("\nA refusal of the gateway has the schema [GatewayError](#gatewayerror), an error of the sandbox [IssuerProblem](#issuerproblem).")
	r.line("Every operation of the issuer may answer %s. The sections below name the others.", strings.Join(r.everywhere, ", "))
}

func (r *reference) examplesOfErrors(status string, response *v3.Response, media *v3.MediaType) {
	messages := make(map[string][]string) // of each row
	var rows []string
	for _, example := range media.Examples.FromOldest() {
		var body struct {
			Code, Detail string
			Error        struct{ Code, Message string }
		}
		if example.Value.Decode(&body) != nil {
			continue
		}
		code, message := "`"+body.Error.Code+"`", body.Error.Message
		if body.Error.Code == "" {
			code, message = "sandbox: `"+body.Code+"`", body.Detail
		}
		row := fmt.Sprintf("| %s | %s | %%s | %s |", status, code, cmp.Or(example.Summary, response.Description))
		if !slices.Contains(rows, row) {
			rows = append(rows, row)
		}
		if !slices.Contains(messages[row], message) {
			messages[row] = append(messages[row], message)
		}
	}
	for _, row := range rows {
		r.line(row, strings.Join(messages[row], "<br>"))
	}
}

// anchor is the name that GitHub gives a heading.
func anchor(heading string) string {
	return strings.Map(func(c rune) rune {
		switch {
		case c == ' ':
			return '-'
		case c == '-' || c == '_' || c >= '0' && c <= '9' || c >= 'a' && c <= 'z':
			return c
		case c >= 'A' && c <= 'Z':
			return c + 'a' - 'A'
		default:
			return -1
		}
	}, heading)
}

// examples writes the examples of a body, each in a block.
func (r *reference) examples(what string, content *orderedmap.Map[string, *v3.MediaType]) {
	for kind, media := range content.FromOldest() {
		if orderedmap.Len(media.Examples) == 0 {
			r.line("\n%s, `%s`%s", what, kind, r.schemaLink(media.Schema))
		}
		for name, example := range media.Examples.FromOldest() {
			title := what
			if name != "example" {
				title += " (" + name + ")"
			}
			r.line("\n%s%s:\n\n```json\n%s\n```", title, r.schemaLink(media.Schema), jsonOf(example.Value, ""))
		}
	}
}
