package explaincmd

import (
	"encoding/json"
	"fmt"
	"strings"

	"github.com/card-gateway/card-gateway/auth"
	"github.com/card-gateway/card-gateway/caddymodule/cardlog"
	"github.com/card-gateway/card-gateway/caddymodule/keyadmin"
)

// print writes the report and returns whether a mistake was found.
func (r *report) print() (mistaken bool, err error) {
	if r.capture != nil {
		r.examine()
	} else {
		r.found, r.right = r.refusal.Findings, r.refusal.StringToSign
		if r.signed != nil && r.right != "" {
			r.wrong = cardlog.MaskLines(*r.signed) // as what arrived is
		}
	}
	if r.json {
		return len(r.found) > 0, r.printJSON()
	}
	var b strings.Builder
	r.describe(&b)
	for _, f := range r.found {
		name := f.Finding
		if name == "" {
			name = f.Field
		}
		fmt.Fprintf(&b, "\n%s: %s\n", name, f.Message)
	}
	for _, note := range r.notes {
		fmt.Fprintf(&b, "\nnote: %s\n", note)
	}
	if len(r.found) == 0 {
		b.WriteString("\nno mistake found\n")
	}
	_, err = fmt.Fprint(r.cmd.OutOrStdout(), b.String())
	return len(r.found) > 0, err
}

func (r *report) printJSON() error {
	out := json.NewEncoder(r.cmd.OutOrStdout())
	out.SetEscapeHTML(false)
	out.SetIndent("", "  ")
	return out.Encode(struct {
		StringToSign string            `json:"string_to_sign"`
		Signed       string            `json:"signed,omitempty"`
		Findings     []auth.FieldError `json:"findings"`
		Notes        []string          `json:"notes,omitempty"`
		Gateway      *keyadmin.Refusal `json:"gateway,omitempty"`
	}{r.right, r.wrong, r.found, r.notes, r.refusal})
}
