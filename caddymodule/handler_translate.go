package caddymodule

import (
	"bytes"
	"fmt"
	"net/http"
	"strconv"
	"time"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"

	"github.com/card-gateway/card-gateway/auth"
	"github.com/card-gateway/card-gateway/translate"
)

func init() {
	caddy.RegisterModule(Translate{})
}

// Translate is the handler card_translate. With it clients of every published
// customer variant can use an issuer that knows only one form. It checks and
// translates the bodies of create_customer and update_customer. It translates
// the answers to these, and to get_customer and list_customers, into the variant
// of the client, or the one in X-Card-Variant. All other operations pass
// unchanged.
//
// It needs card_auth before it.
type Translate struct {
	// How the upstream spells the fields of a customer: `snake_case`, with
	// date-times, or `camelCase`, with dates as YYYY-MM-DD.
	// Default: snake_case.
	Upstream string `json:"upstream,omitempty"`

	form     translate.Form
	unjudged unjudged
}

// CaddyModule returns the Caddy module information.
func (Translate) CaddyModule() caddy.ModuleInfo {
	return caddy.ModuleInfo{ID: "http.handlers.card_translate", New: func() caddy.Module { return new(Translate) }}
}

// Provision sets the default.
func (h *Translate) Provision(ctx caddy.Context) error {
	app, err := appOf(ctx, "card_translate", h)
	if err != nil {
		return err
	}
	h.unjudged = newUnjudged(app)
	if h.Upstream == "" {
		h.Upstream = translate.SnakeCase.String()
	}
	h.form, _ = translate.ParseForm(h.Upstream)
	return nil
}

// Validate checks the name of the form.
func (h *Translate) Validate() error {
	if err := validUpstream(h.Upstream); err != nil {
		return fmt.Errorf("card_translate: %w", err)
	}
	return nil
}

func validUpstream(name string) error {
	if _, ok := translate.ParseForm(name); !ok {
		return fmt.Errorf("upstream is %q; it must be snake_case or camelCase", name)
	}
	return nil
}

// translations holds the operations that are translated, by name, and what
// is done with their bodies.
var translations = map[string]translation{
	"create_customer": {body: true, operation: translate.Create},
	"update_customer": {body: true, operation: translate.Update},
	"get_customer":    {},
	"list_customers":  {list: true},
}

type translation struct {
	body      bool // the request carries a customer
	operation translate.Operation
	list      bool // the answer is a list
}

// translationOf returns the translation of an operation, which may be nil, and
// whether there is one.
func translationOf(operation *auth.Operation) (translation, bool) {
	if operation == nil {
		return translation{}, false
	}
	what, ok := translations[operation.Name]
	return what, ok
}

// translatedOperation reports whether bodies of the operation are translated.
func translatedOperation(name string) bool {
	_, ok := translations[name]
	return ok
}

func (h *Translate) ServeHTTP(w http.ResponseWriter, r *http.Request, next caddyhttp.Handler) error {
	info := infoFrom(r.Context())
	if info == nil {
		return h.unjudged.misplaced(w, r, "card_translate")
	}
	shape, refusal := takeShape(r)
	if refusal != nil {
		return refuse(w, r, refusal)
	}
	what, ok := translationOf(info.Operation)
	asked := keyVariant(info.Key)
	if what.body && jsonRequest(r) {
		if asked, refusal = h.request(r, info, what.operation); refusal != nil {
			return refuse(w, r, refusal)
		}
	}
	info.askIssuer(r)
	if !ok {
		return next.ServeHTTP(w, r)
	}
	if shape != translate.None {
		asked = shape
	}
	if asked == translate.None {
		observeTranslation(asked.String(), "answer", "unchanged")
		return next.ServeHTTP(w, r)
	}
	askPlainly(r)
	answer := newAnswerWriter(w, r, info, translate.ResponseOptions{
		Variant: asked, List: what.list, RequestID: info.RequestID,
	})
	answer.memory = info.reservation(info.answers)
	return serveTranslated(answer, r, next)
}

func keyVariant(key *auth.Key) translate.Variant {
	if key == nil {
		return translate.None
	}
	return translate.ParseVariant(key.CustomerVariant)
}

// request replaces the client's body by the translated one and returns the
// client's variant, or the refusal that lists the problems.
func (h *Translate) request(r *http.Request, info *requestInfo, op translate.Operation) (translate.Variant, *auth.Refusal) {
	// Two copies: a body in blocks in one piece, and the translated body.
	if refusal := info.body.reserveCopies(2); refusal != nil {
		return translate.None, refusal
	}
	before := info.body.contiguous()
	start := time.Now()
	defer func() { info.overhead += time.Since(start) }()
	span, result := info.spans.start(spanTranslate), "ok"
	body, asked, problems := translate.Request(before, translate.RequestOptions{
		Operation: op, Upstream: h.form, KeyVariant: keyVariant(info.Key),
	})
	switch {
	case len(problems) > 0:
		result = "invalid"
	case bytes.Equal(body, before):
		result = "unchanged"
	}
	observeTranslation(asked.String(), "request", result)
	span.translated(info.Operation.Name, asked.String(), "request", result)
	if len(problems) > 0 {
		return asked, invalidBody(problems)
	}
	if result == "ok" {
		setBody(r, body)
		info.asserting.bodyChanged(r, body)
	}
	return asked, nil
}

func invalidBody(problems []translate.Problem) *auth.Refusal {
	refusal := auth.Refuse(auth.InvalidBody, strconv.Itoa(len(problems))+" problems in the customer body")
	for _, p := range problems {
		refusal.Details = append(refusal.Details, auth.FieldError{Field: p.Field, Message: p.Message})
	}
	return refusal
}

// askPlainly changes the request so that the answer can be translated: complete,
// not compressed, and never 304, because the client's copy is a translation.
// If-Match and If-Unmodified-Since stay, and so does If-None-Match of a write:
// they are conditions on which the issuer must not act.
func askPlainly(r *http.Request) {
	h := r.Header
	h.Set("Accept-Encoding", "identity")
	for _, name := range []string{"Range", "If-Range", "If-Modified-Since"} { // they mean nothing to a write
		h.Del(name)
	}
	if r.Method == http.MethodGet || r.Method == http.MethodHead {
		h.Del("If-None-Match")
	}
}

// Interface guards
var (
	_ caddy.Provisioner           = (*Translate)(nil)
	_ caddy.Validator             = (*Translate)(nil)
	_ caddyhttp.MiddlewareHandler = (*Translate)(nil)
	_ caddyfile.Unmarshaler       = (*Translate)(nil)
)
