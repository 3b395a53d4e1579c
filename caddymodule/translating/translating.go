// Package translating is the handler card_translate, which lets clients of every
// customer variant use an issuer that knows only one form.
//
// Begin with [Translate]. The answer is held and translated in answer. Package translate
// has the rules.
package translating

import (
	"bytes"
	"cmp"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"

	"github.com/card-gateway/card-gateway/auth"
	"github.com/card-gateway/card-gateway/caddymodule/cardlog"
	"github.com/card-gateway/card-gateway/caddymodule/directive"
	"github.com/card-gateway/card-gateway/caddymodule/meter"
	"github.com/card-gateway/card-gateway/caddymodule/request"
	"github.com/card-gateway/card-gateway/headers"
	"github.com/card-gateway/card-gateway/held"
	"github.com/card-gateway/card-gateway/translate"
)

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
	unjudged request.Unjudged
}

// CaddyModule returns the Caddy module information.
func (Translate) CaddyModule() caddy.ModuleInfo {
	return caddy.ModuleInfo{ID: "http.handlers.card_translate", New: func() caddy.Module { return new(Translate) }}
}

// Provision sets the default.
func (h *Translate) Provision(ctx caddy.Context) error {
	app, err := request.Join(ctx, "card_translate", h)
	if err != nil {
		return err
	}
	h.unjudged = app.Unjudged()
	h.Upstream = cmp.Or(h.Upstream, translate.SnakeCase.String())
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

// TranslatedOperation reports whether bodies of the operation are translated.
func TranslatedOperation(name string) bool {
	_, ok := translations[name]
	return ok
}

func (h *Translate) ServeHTTP(w http.ResponseWriter, r *http.Request, next caddyhttp.Handler) error {
	info := request.From(r.Context())
	if info == nil {
		return h.unjudged.Misplaced(w, r, "card_translate")
	}
	shape, refusal := takeShape(r)
	if refusal != nil {
		return request.Refuse(w, r, refusal)
	}
	what, ok := translationOf(info.Operation)
	asked := keyVariant(info.Key)
	if what.body && jsonRequest(r) {
		if asked, refusal = h.request(r, info, what.operation); refusal != nil {
			return request.Refuse(w, r, refusal)
		}
	}
	if !ok {
		return info.HandOn(next, w, r)
	}
	if shape != translate.None {
		asked = shape
	}
	if asked == translate.None {
		meter.ObserveTranslation(asked.String(), "answer", "unchanged")
		return info.HandOn(next, w, r)
	}
	askPlainly(r)
	answer := newAnswerWriter(w, r, info, translate.ResponseOptions{
		Variant: asked, List: what.list, RequestID: info.RequestID,
	})
	info.Copies = 3 // as received, in one piece, and translated
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
func (h *Translate) request(r *http.Request, info *request.Info, op translate.Operation) (translate.Variant, *auth.Refusal) {
	// Two copies: a body in blocks in one piece, and the translated body.
	if refusal := info.Body.ReserveCopies(2); refusal != nil {
		return translate.None, refusal
	}
	before := info.Body.Contiguous()
	start := time.Now()
	defer func() { info.Overhead += time.Since(start) }()
	span, result := info.Spans.Start(meter.SpanTranslate), "ok"
	body, asked, problems := translate.Request(before, translate.RequestOptions{
		Operation: op, Upstream: h.form, KeyVariant: keyVariant(info.Key),
	})
	switch {
	case len(problems) > 0:
		result = "invalid"
	case bytes.Equal(body, before):
		result = "unchanged"
	}
	meter.ObserveTranslation(asked.String(), "request", result)
	span.Translated(info.Operation.Name, asked.String(), "request", result)
	if len(problems) > 0 {
		return asked, invalidBody(problems)
	}
	if result == "ok" {
		held.SetBody(r, body)
		info.Asserting.BodyChanged(r, body)
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

// Interface guard
var _ caddy.Validator = (*Translate)(nil)

// takeShape removes X-Card-Variant from the request, in every spelling that a
// backend may fold into it, and returns the variant that it asks for; None
// without the header. The refusal is for any value but A, B and C.
func takeShape(r *http.Request) (translate.Variant, *auth.Refusal) {
	shape, ok := translate.AskedVariant(headers.TakeShape(r.Header))
	if !ok {
		const message = headers.Shape + " must be sent once, and be A, B or C"
		return translate.None, &auth.Refusal{Reason: auth.MalformedRequest, Message: message, Log: message}
	}
	return shape, nil
}

// decoder returns what decompresses the body of an upstream that uses gzip although
// identity was asked for; nil if the body is not compressed. The error is for any
// other encoding.
func decoder(body io.Reader, h http.Header) (io.Reader, error) {
	switch encoding := strings.ToLower(strings.Join(h["Content-Encoding"], ",")); encoding {
	case "", "identity":
		return nil, nil
	case "gzip", "x-gzip":
		return gzip.NewReader(body)
	default:
		return nil, errAnswerEncoded
	}
}

// dropValidators removes headers that describe the bytes of the upstream's body, or
// by which a client would ask whether its copy of them is still right, because
// translation changes them.
func dropValidators(h http.Header) {
	for _, name := range []string{"Etag", "Last-Modified", "Content-Md5", "Digest", "Content-Digest", "Repr-Digest", "Accept-Ranges", "Content-Range", "Trailer"} {
		h.Del(name)
	}
}

// dropTrailers removes the upstream's trailers. The head has not been sent yet,
// so they would become headers.
func dropTrailers(h http.Header) {
	for _, names := range h["Trailer"] {
		for name := range strings.SplitSeq(names, ",") {
			h.Del(strings.TrimSpace(name))
		}
	}
	for name := range h {
		if strings.HasPrefix(name, http.TrailerPrefix) {
			delete(h, name)
		}
	}
}

// jsonAnswer reports whether the Content-Type of an answer is JSON.
func jsonAnswer(h http.Header) bool {
	media, _, err := mime.ParseMediaType(h.Get("Content-Type"))
	return (err == nil || errors.Is(err, mime.ErrInvalidMediaParameter)) &&
		(media == "application/json" || strings.HasSuffix(media, "+json"))
}

// TypeFault returns what is wrong with the type of a body that ought to be JSON
// in UTF-8 without an encoding; nil for such a body, and for none.
func TypeFault(r *http.Request) []auth.FieldError {
	if r.ContentLength == 0 {
		return nil
	}
	for _, encoding := range r.Header["Content-Encoding"] {
		if encoding != "" && !strings.EqualFold(encoding, "identity") {
			return request.Detail("content_encoding", "The body has a Content-Encoding; send it as it is")
		}
	}
	types := r.Header["Content-Type"]
	if len(types) != 1 {
		return request.Detail("content_type", "Content-Type must be present exactly once; write application/json")
	}
	media, params, err := mime.ParseMediaType(types[0])
	if err != nil || media != "application/json" && !strings.HasSuffix(media, "+json") {
		return request.Detail("content_type", "Content-Type is not that of JSON; write application/json")
	}
	charset, given := params["charset"]
	if !given && !strings.Contains(strings.ToLower(types[0]), "charset") {
		return nil
	}
	// mime drops a charset* (RFC 8187) that it cannot decode, and the issuer may not.
	if !strings.EqualFold(charset, "utf-8") && !strings.EqualFold(charset, "utf8") {
		return request.Detail("charset", "The charset of Content-Type is not utf-8; send UTF-8 and leave the charset out")
	}
	return nil
}

// jsonRequest reports whether the body is JSON in UTF-8 without an encoding,
// or there is no body.
func jsonRequest(r *http.Request) bool { return TypeFault(r) == nil }

// Reasons why an answer cannot be translated, besides errors in its text.
var (
	errAnswerCutOff  = cardlog.PlainError("the upstream closed the connection in the middle of the answer")
	errAnswerEncoded = cardlog.PlainError("the answer has a content encoding other than gzip, although identity was asked for")
	errAnswerPartial = cardlog.PlainError("the answer holds a part of the document only")
)

// UnmarshalCaddyfile reads:
//
//	card_translate {
//	    upstream snake_case|camelCase
//	}
func (h *Translate) UnmarshalCaddyfile(d *caddyfile.Dispenser) error {
	return directive.Handler(d, "card_translate", []directive.Option{{Name: "upstream", Read: func(d *caddyfile.Dispenser) (err error) {
		if h.Upstream, err = directive.OneArg(d, "snake_case or camelCase"); err != nil {
			return err
		}
		if err := validUpstream(h.Upstream); err != nil {
			return d.WrapErr(err)
		}
		return nil
	}}})
}
