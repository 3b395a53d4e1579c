// Package issuer is a small card issuer to try the gateway with. It answers all
// operations that the published interface names, from memory and bounded, and
// accepts every body that the interface allows. It uses net/http and does not
// import Caddy; package sandbox makes a Caddy handler of it.
//
// It trusts the gateway as a real issuer would. A request without the gateway's
// identity headers is refused with 403. A tenant sees only what it has created.
// The same calls result in the same ids, card numbers and transactions, so that
// documentation can show calls with their answers.
//
// Begin with the handler of an operation in the file of its subject.
package issuer

import (
	"fmt"
	"net/http"
	"strings"
	"sync"
	"time"
)

// HeaderAnswered is on every answer of the sandbox, with the value card_sandbox:
// an answer without it is the gateway's own.
const HeaderAnswered = "X-Sandbox"

// The headers in which the gateway names the caller. All are required.
const (
	HeaderKeyID     = "X-Gateway-Key-Id"
	HeaderTenant    = "X-Gateway-Tenant"
	HeaderScopes    = "X-Gateway-Scopes"
	HeaderOperation = "X-Gateway-Operation"
	HeaderRequestID = "X-Request-Id"
)

var identityHeaders = []string{HeaderKeyID, HeaderTenant, HeaderScopes, HeaderOperation, HeaderRequestID}

// Options are the bounds of an [Issuer]; zero values take the defaults.
type Options struct {
	// MaxCustomers is the largest number of customers of all tenants together.
	// To create one more is answered with 507. Default: 10,000.
	MaxCustomers int
	// MaxCards is the largest number of cards, as above. Default: 10,000.
	MaxCards int
	// MaxRecords is the largest number of documents, top-ups and webhook endpoints
	// together, as above. Default: 10,000.
	MaxRecords int
	// Now is the clock of created_at and the like. Default: time.Now.
	Now func() time.Time
}

func (o Options) withDefaults() Options {
	if o.MaxCustomers <= 0 {
		o.MaxCustomers = 10_000
	}
	if o.MaxCards <= 0 {
		o.MaxCards = 10_000
	}
	if o.MaxRecords <= 0 {
		o.MaxRecords = 10_000
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	return o
}

// An Issuer answers the card API from memory. It is an [http.Handler] and safe
// for use by many requests at once.
type Issuer struct {
	routes *http.ServeMux

	mu        sync.Mutex
	opt       Options
	tenants   map[string]*tenant
	customers int // of all tenants
	cards     int // of all tenants
	records   int // documents, top-ups and webhook endpoints of all tenants
}

// A tenant is everything that one client organisation has created. Order is
// the order of creation.
type tenant struct {
	customers     map[string]*customer
	customerOrder []*customer
	emails        map[string]bool // lower case
	cards         map[string]*card
	cardOrder     []*card
	topUps        map[string]*topUp
	documents     map[string]*document
	webhookOrder  []*webhook
}

// New returns an issuer without customers.
func New(opt Options) *Issuer {
	i := &Issuer{opt: opt.withDefaults(), tenants: map[string]*tenant{}, routes: http.NewServeMux()}
	for _, r := range i.operations() {
		i.routes.Handle(r.pattern, i.serve(&r))
	}
	return i
}

// SetBounds replaces the bounds of a running issuer. Customers and cards that
// exist stay, even if there are more than the new bounds.
func (i *Issuer) SetBounds(opt Options) {
	i.mu.Lock()
	defer i.mu.Unlock()
	opt.Now = i.opt.Now
	i.opt = opt.withDefaults()
}

// ServeHTTP answers one request. Paths are matched without regard to case,
// because clients write both /Customers and /customers, and without regard to one
// slash at the end, as the gateway matches them.
func (i *Issuer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	w.Header().Set(HeaderAnswered, "card_sandbox")
	if p := checkIdentity(r.Header); p != nil {
		writeProblem(w, p)
		return
	}
	forced, p := parseForce(r.Header)
	if p != nil {
		writeProblem(w, p)
		return
	}
	lower := r.Clone(r.Context())
	lower.URL.Path, lower.URL.RawPath = strings.TrimSuffix(strings.ToLower(r.URL.Path), "/"), ""
	if _, pattern := i.routes.Handler(lower); pattern == "" {
		writeProblem(w, &problem{
			status: http.StatusNotFound, code: "NOT_FOUND",
			message: fmt.Sprintf("the sandbox issuer has no %s %s", r.Method, r.URL.Path),
		})
		return
	}
	forced.serve(i.routes, w, lower)
}

// checkIdentity returns a problem unless each of the gateway's headers is present
// exactly once and is not empty.
func checkIdentity(h http.Header) *problem {
	var wrong []string
	for _, name := range identityHeaders {
		if values := h.Values(name); len(values) != 1 || values[0] == "" {
			wrong = append(wrong, name)
		}
	}
	if wrong == nil {
		return nil
	}
	return &problem{
		status: http.StatusForbidden, code: "NOT_FROM_GATEWAY",
		message: "this issuer serves requests that come through the gateway only; missing or repeated: " +
			strings.Join(wrong, ", "),
	}
}

// tenantLocked returns the tenant of the name. If it has created nothing yet, the
// result is a new empty tenant that is not stored.
func (i *Issuer) tenantLocked(name string) *tenant {
	if t := i.tenants[name]; t != nil {
		return t
	}
	return &tenant{
		customers: map[string]*customer{}, emails: map[string]bool{}, cards: map[string]*card{},
		topUps: map[string]*topUp{}, documents: map[string]*document{},
	}
}

// keepLocked stores the tenant, which has created something, and counts a record.
// It returns a problem if there are too many.
func (i *Issuer) keepLocked(name string, t *tenant, what string) *problem {
	if i.records >= i.opt.MaxRecords {
		return full(what)
	}
	i.tenants[name] = t
	i.records++
	return nil
}
