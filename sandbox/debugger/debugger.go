// Package debugger registers the Caddy handler card_sandbox_debugger: a page for the
// browser that says what is wrong with a pasted request, by the command card-explain,
// and shows each step of a signature. demo/page.caddyfile uses it; it is never part of
// a production build.
//
// Begin with Handler. steps.go signs a request step by step, page.html is the page.
package debugger

import (
	"bytes"
	_ "embed"
	"errors"
	"fmt"
	"html/template"
	"net"
	"net/http"
	"os"
	"strings"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"
	"github.com/caddyserver/caddy/v2/caddyconfig/httpcaddyfile"
	caddycmd "github.com/caddyserver/caddy/v2/cmd"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
	"github.com/spf13/cobra"
)

func init() {
	caddy.RegisterModule(Handler{})
	httpcaddyfile.RegisterHandlerDirective("card_sandbox_debugger", func(h httpcaddyfile.Helper) (caddyhttp.MiddlewareHandler, error) {
		parsed := new(Handler)
		return parsed, parsed.UnmarshalCaddyfile(h.Dispenser)
	})
	httpcaddyfile.RegisterDirectiveOrder("card_sandbox_debugger", httpcaddyfile.After, "file_server")
}

// Handler answers every request with the page, to this machine alone: over loopback,
// under a name of it, and to no form of another site. It knows one key, and reads no
// file that a pasted command names. It never calls the next handler.
type Handler struct {
	// KeyFile holds the id of the key, on a line.
	KeyFile string `json:"key_file"`

	// SecretFile holds the secret of the key. It is read for each request, because a
	// demo makes its key after the gateway has started.
	SecretFile string `json:"secret_file"`
}

// CaddyModule returns the Caddy module information.
func (Handler) CaddyModule() caddy.ModuleInfo {
	return caddy.ModuleInfo{ID: "http.handlers.card_sandbox_debugger", New: func() caddy.Module { return new(Handler) }}
}

// UnmarshalCaddyfile reads
//
//	card_sandbox_debugger {
//		key_file    <path>
//		secret_file <path>
//	}
func (h *Handler) UnmarshalCaddyfile(d *caddyfile.Dispenser) error {
	d.Next() // the directive itself
	for d.NextBlock(0) {
		into := map[string]*string{"key_file": &h.KeyFile, "secret_file": &h.SecretFile}[d.Val()]
		if into == nil || !d.AllArgs(into) {
			return d.Errf("card_sandbox_debugger takes the lines key_file PATH and secret_file PATH, not %q", d.Val())
		}
	}
	if h.KeyFile == "" || h.SecretFile == "" {
		return d.Err("card_sandbox_debugger needs the lines key_file PATH and secret_file PATH")
	}
	return nil
}

const (
	// maxForm is the largest form, in bytes; a HAR file is large.
	maxForm = 16 << 20
	policy  = "default-src 'none'; style-src 'self'; img-src data:; base-uri 'none'; form-action 'self'; frame-ancestors 'none'"
)

//go:embed page.html
var page string

var pageTemplate = template.Must(template.New("page").Parse(page))

// A view is what the page shows.
type view struct {
	KeyID                string
	Request, Explanation string // as pasted, and what card-explain says
	Method, Target, Body string // to be signed
	Signed               *signed
	Problem              string // why it is not signed
}

// ServeHTTP answers with the page, filled in as the form was.
func (h *Handler) ServeHTTP(w http.ResponseWriter, r *http.Request, _ caddyhttp.Handler) error {
	if err := admit(r); err != nil {
		return caddyhttp.Error(http.StatusForbidden, err)
	}
	r.Body = http.MaxBytesReader(w, r.Body, maxForm)
	if err := r.ParseForm(); err != nil {
		return caddyhttp.Error(http.StatusBadRequest, err)
	}
	// A form sends CR LF for each line end that was typed; no request is written so.
	field := func(name string) string { return strings.ReplaceAll(r.Form.Get(name), "\r\n", "\n") }
	v := view{Request: field("request"), Method: field("method"), Target: field("target"), Body: field("body")}
	id, err := os.ReadFile(h.KeyFile)
	if err != nil {
		return caddyhttp.Error(http.StatusServiceUnavailable, fmt.Errorf("reading the id of the key: %w", err))
	}
	v.KeyID = strings.TrimSpace(string(id))
	if v.Request != "" {
		v.Explanation = h.explain(v.KeyID, v.Request)
	}
	if v.Target != "" {
		if v.Signed, err = h.sign(r, &v); err != nil {
			v.Problem = err.Error()
		}
	}
	var text bytes.Buffer
	if err := pageTemplate.Execute(&text, v); err != nil {
		return err
	}
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.Header().Set("Content-Security-Policy", policy)
	w.Header().Set("Cache-Control", "no-store")
	w.Header().Set("X-Content-Type-Options", "nosniff")
	_, err = w.Write(text.Bytes())
	return err
}

// admit refuses who is not on this machine, and pages of other sites: those that send
// a form, and those whose name leads here.
func admit(r *http.Request) error {
	from, _, err := net.SplitHostPort(r.RemoteAddr)
	if err != nil || !net.ParseIP(from).IsLoopback() {
		return errors.New("the debugger answers on loopback only")
	}
	name := r.Host
	if host, _, err := net.SplitHostPort(r.Host); err == nil {
		name = host
	}
	if name != "localhost" && !net.ParseIP(strings.Trim(name, "[]")).IsLoopback() {
		return errors.New("the debugger answers for localhost and 127.0.0.1 only")
	}
	return new(http.CrossOriginProtection).Check(r)
}

// explain returns what the command card-explain prints about a request. It gets the
// secret for a request that names the key.
func (h *Handler) explain(keyID, request string) string {
	command, found := caddycmd.Commands()["card-explain"]
	if !found {
		return "this binary has no card-explain"
	}
	cmd := &cobra.Command{Use: command.Name, SilenceUsage: true}
	command.CobraFunc(cmd)
	args := []string{"-", "--no-files"}
	if strings.Contains(request, keyID) {
		args = append(args, "--secret-file", h.SecretFile)
	}
	var said strings.Builder
	cmd.SetArgs(args)
	cmd.SetIn(strings.NewReader(request))
	cmd.SetOut(&said)
	cmd.SetErr(&said)
	_ = cmd.Execute() // it prints the error
	return strings.TrimSpace(said.String())
}

// Interface guards.
var (
	_ caddyfile.Unmarshaler       = (*Handler)(nil)
	_ caddyhttp.MiddlewareHandler = (*Handler)(nil)
)
