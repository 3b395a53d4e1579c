package caddymodule

import (
	"crypto/sha256"
	"crypto/tls"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"

	"github.com/card-gateway/card-gateway/auth"
	"github.com/card-gateway/card-gateway/forward"
	"github.com/card-gateway/card-gateway/headers"
	"github.com/card-gateway/card-gateway/held"
)

// Forward is the handler card_forward. It sends the request to one of the
// issuers, over HTTP/1.1 and at most once, and returns the answer. It replaces
// Caddy's reverse_proxy and needs card_auth before it.
//
// A request goes to another issuer only if no byte of it was sent, because no
// connection could be made. After that it is never repeated.
type Forward struct {
	// The issuers: `host:port`, or `unix/` and the path of a socket; 1 to 64.
	// Placeholders are expanded.
	Issuers []string `json:"issuers"`

	// How an issuer is chosen among those that are not out: `least` (of two
	// random ones, the one with fewer outstanding requests), `round_robin`, or
	// `first` (the first of the list). Default: least.
	Policy string `json:"policy,omitempty"`

	// The longest time for a new connection with its TLS handshake, and for the
	// wait until a connection is free. Default: 3s.
	DialTimeout caddy.Duration `json:"dial_timeout,omitempty"`

	// How long the issuer may take for the head of its answer, and to read each
	// 256 KiB of a body. Default: 30s.
	AnswerTimeout caddy.Duration `json:"answer_timeout,omitempty"`

	// How long an unused connection is kept. It must be shorter than the
	// issuer's own time. Otherwise a request fails if the issuer closes the
	// connection at the same moment. Default: 45s.
	KeepAlive caddy.Duration `json:"keepalive,omitempty"`

	// The most connections to each issuer. When all are in use, requests wait
	// for up to dial_timeout and are then answered with 503.
	// Default: no limit.
	MaxConnections int `json:"max_connections,omitempty"`

	// The Host that the issuer receives. `{client}` is the client's Host, which
	// is not signed. Default: the issuer's own name.
	Host string `json:"host,omitempty"`

	// How connections to the issuers are secured. Default: not at all.
	TLS *ForwardTLS `json:"tls,omitempty"`

	// How long an issuer is out after fail_after failures within that time. A
	// failure is a connection that cannot be made, a connection that breaks, or
	// an answer that cannot be read. Default: 10s.
	FailFor caddy.Duration `json:"fail_for,omitempty"`

	// How many failures take an issuer out; -1: failures never do. Default: 3.
	FailAfter int `json:"fail_after,omitempty"`

	// Check at intervals whether each issuer works. Default: no checks.
	Check *ForwardCheck `json:"check,omitempty"`

	// The headers that reach these issuers in addition to those that card_auth
	// passes, or only some of those.
	headers.Rule

	unjudged  unjudged
	poolKey   string // of the forwarder in the pool; empty until it is taken
	forwarder *forward.Forwarder
}

// ForwardTLS is how connections to the issuers are secured.
type ForwardTLS struct {
	// A file with the authorities, in PEM, that may sign an issuer's
	// certificate. Default: those of the system.
	CAFile string `json:"ca_file,omitempty"`
	// The name that the certificate must have. Default: the host of the
	// issuer's address.
	ServerName string `json:"server_name,omitempty"`
	// Files with the client certificate and its key, in PEM; both or neither.
	// A change of the files applies to the next connection. Default: none.
	Certificate string `json:"client_certificate,omitempty"`
	Key         string `json:"client_key,omitempty"`
	// The lowest version: `tls1.2` or `tls1.3`. Default: tls1.2.
	Min string `json:"min,omitempty"`
}

// ForwardCheck requests a path from each issuer. An issuer that does not answer
// with a status from 200 to 299 within 3 s is out until it does.
type ForwardCheck struct {
	// The path, which begins with a slash.
	Path string `json:"path"`
	// How often; at least 1s. Default: 5s.
	Every caddy.Duration `json:"every,omitempty"`
}

// clientHost is the value of the option host for the Host that the client wrote.
const clientHost = "{client}"

// CaddyModule returns the Caddy module information.
func (*Forward) CaddyModule() caddy.ModuleInfo {
	return caddy.ModuleInfo{ID: "http.handlers.card_forward", New: func() caddy.Module { return new(Forward) }}
}

func (h *Forward) ServeHTTP(w http.ResponseWriter, r *http.Request, _ caddyhttp.Handler) error {
	info := infoFrom(r.Context())
	if info == nil {
		return h.unjudged.misplaced(w, r, "card_forward")
	}
	out := newOutgoing()
	defer out.free()
	if out.Host = h.Host; h.Host == clientHost {
		out.Host = r.Host
	}
	if refusal := out.fill(r, info, &h.Rule); refusal != nil {
		return refusal
	}
	answer, err := h.forwarder.Do(r.Context(), &out.Request)
	info.body.Release() // it is no longer read
	info.spans.issuer.set("card_gateway.issuer", issuerOf(answer, err))
	if err != nil {
		return forwardRefusal(err)
	}
	sendAnswer(w, answer)
	return nil
}

// issuerOf returns the address of the issuer that answered or failed, or "" if none
// was chosen.
func issuerOf(answer *forward.Answer, err error) string {
	if err == nil {
		return answer.Issuer
	}
	if failed := (*forward.Error)(nil); errors.As(err, &failed) {
		return failed.Issuer
	}
	return ""
}

// sendAnswer sends the issuer's answer to the client. If the answer breaks off,
// it ends the client's connection, so that the client does not take the part for
// the whole.
func sendAnswer(w http.ResponseWriter, answer *forward.Answer) {
	defer func() { _ = answer.Close() }()
	h := w.Header()
	delete(h, "Server") // the issuer's passes; Caddy's is in Via
	// The values of all headers are in one piece of memory.
	values := make([]string, len(answer.Fields))
	for i, field := range answer.Fields {
		if before, set := h[field.Name]; set {
			h[field.Name] = append(before, field.Value)
			continue
		}
		values[i] = field.Value
		h[field.Name] = values[i : i+1 : i+1]
	}
	h["Via"] = append(h["Via"], via)
	w.WriteHeader(answer.Status)
	flush := func() error { return http.NewResponseController(w).Flush() }
	if _, err := answer.CopyTo(w, flush); err != nil {
		_ = flush() // the part that has arrived
		panic(http.ErrAbortHandler)
	}
}

// forwardRefusal returns the refusal of a request that could not be forwarded.
// Its log text is the gateway's own, without bytes from outside.
func forwardRefusal(err error) *auth.Refusal {
	var failed *forward.Error
	if !errors.As(err, &failed) {
		return &auth.Refusal{Reason: auth.InternalError, Cause: err}
	}
	refusal := auth.Refuse(auth.UpstreamError, failed.Kind.String()+": "+failed.Error())
	refusal.RetryAfter = failed.RetryAfter
	switch failed.Kind.Status() {
	case http.StatusInternalServerError:
		refusal.Reason = auth.InternalError
	case http.StatusGatewayTimeout:
		refusal.Reason = auth.UpstreamTimeout
	case forward.StatusClientGone:
		refusal.Reason = auth.ClientGone
	}
	if failed.Kind == forward.KindBusy {
		refusal.Reason = auth.OverBudget
	}
	return refusal
}

// Interface guard
var _ caddy.CleanerUpper = (*Forward)(nil)

// forwarderPool has the forwarders that a configuration uses, by their places. Each is
// closed when none uses it any more.
var forwarderPool = caddy.NewUsagePool()

// pooledForwarder is a forwarder in the pool.
type pooledForwarder struct{ *forward.Forwarder }

// Destruct closes the forwarder. Requests in flight are not stopped.
func (p pooledForwarder) Destruct() error {
	p.Close()
	return nil
}

// Provision joins the app, and opens the forwarder.
func (h *Forward) Provision(ctx caddy.Context) error {
	app, err := joinApp(ctx, "card_forward", h)
	if err != nil {
		return err
	}
	h.unjudged = app.Unjudged()
	if err := h.Open(); err != nil {
		return fmt.Errorf("card_forward: %w", err)
	}
	return nil
}

// Open takes the forwarder of the options from the pool, or makes it. Cleanup gives it
// back.
func (h *Forward) Open() error {
	if err := h.Rule.Prepare(); err != nil {
		return err
	}
	if h.Host != clientHost && strings.ContainsAny(h.Host, "{} \t") {
		return fmt.Errorf("host is %q; it must be a name, or %s", h.Host, clientHost)
	}
	if err := h.expand(); err != nil {
		return err
	}
	options, err := h.options()
	if err != nil {
		return err
	}
	key, err := h.place()
	if err != nil {
		return err
	}
	pooled, _, err := forwarderPool.LoadOrNew(key, func() (caddy.Destructor, error) {
		f, err := forward.New(options)
		return pooledForwarder{f}, err
	})
	if err != nil {
		return err
	}
	for _, issuer := range h.Issuers {
		upstreamConnections.WithLabelValues(issuer)
	}
	h.poolKey, h.forwarder = key, pooled.(pooledForwarder).Forwarder
	return nil
}

// Cleanup gives the forwarder back.
func (h *Forward) Cleanup() error {
	if h.poolKey == "" {
		return nil
	}
	_, err := forwarderPool.Delete(h.poolKey)
	return err
}

// expand replaces the placeholders of addresses and files.
func (h *Forward) expand() error {
	texts := make([]*string, 0, len(h.Issuers)+3)
	for i := range h.Issuers {
		texts = append(texts, &h.Issuers[i])
	}
	if h.TLS != nil {
		texts = append(texts, &h.TLS.CAFile, &h.TLS.Certificate, &h.TLS.Key)
	}
	replacer := caddy.NewReplacer()
	for _, text := range texts {
		expanded, err := replacer.ReplaceOrErr(*text, true, true)
		if err != nil {
			return fmt.Errorf("%s: %w", *text, err)
		}
		*text = expanded
	}
	return nil
}

// place returns the key of the forwarder in the pool: its options, and a hash of
// the authorities, which are read once.
func (h *Forward) place() (string, error) {
	place, err := json.Marshal(&Forward{
		Issuers: h.Issuers, Policy: h.Policy,
		DialTimeout: h.DialTimeout, AnswerTimeout: h.AnswerTimeout, KeepAlive: h.KeepAlive, MaxConnections: h.MaxConnections,
		TLS: h.TLS, FailFor: h.FailFor, FailAfter: h.FailAfter, Check: h.Check,
	})
	if err != nil || h.TLS == nil || h.TLS.CAFile == "" {
		return string(place), err
	}
	authorities, err := os.ReadFile(h.TLS.CAFile)
	if err != nil {
		return "", fmt.Errorf("reading the authorities: %w", err)
	}
	sum := sha256.Sum256(authorities)
	return string(place) + hex.EncodeToString(sum[:]), nil
}

// options returns the options of the forwarder.
func (h *Forward) options() (forward.Options, error) {
	o := forward.Options{
		DialTimeout: time.Duration(h.DialTimeout), AnswerTimeout: time.Duration(h.AnswerTimeout), IdleTimeout: time.Duration(h.KeepAlive),
		MaxConnections: h.MaxConnections, FailFor: time.Duration(h.FailFor), FailAfter: h.FailAfter,
		Observer: forward.Observer{Connections: countConnections, Problem: logIssuerProblem},
	}
	for _, issuer := range h.Issuers {
		if strings.Contains(issuer, "://") {
			return o, fmt.Errorf("issuer %q: write host:port; TLS is the option tls", issuer)
		}
		o.Issuers = append(o.Issuers, forward.Issuer{Address: issuer})
	}
	var err error
	if o.Policy, err = forwardPolicy(h.Policy); err != nil {
		return o, err
	}
	if h.Check != nil {
		o.Check = &forward.Check{Path: h.Check.Path, Every: time.Duration(h.Check.Every)}
	}
	if h.TLS == nil {
		return o, nil
	}
	o.TLS = &forward.TLS{CAFile: h.TLS.CAFile, ServerName: h.TLS.ServerName, CertificateFile: h.TLS.Certificate, KeyFile: h.TLS.Key}
	o.TLS.MinVersion, err = tlsVersion(h.TLS.Min)
	return o, err
}

func forwardPolicy(name string) (forward.Policy, error) {
	switch name {
	case "", "least":
		return forward.Least, nil
	case "round_robin":
		return forward.RoundRobin, nil
	case "first":
		return forward.First, nil
	default:
		return 0, fmt.Errorf("policy %q: write least, round_robin or first", name)
	}
}

func tlsVersion(name string) (uint16, error) {
	switch name {
	case "", "tls1.2":
		return tls.VersionTLS12, nil
	case "tls1.3":
		return tls.VersionTLS13, nil
	default:
		return 0, errors.New("min " + name + ": write tls1.2 or tls1.3")
	}
}

// UnmarshalCaddyfile reads:
//
//	card_forward <issuer>... {
//	    policy least|round_robin|first
//	    dial_timeout <time span>
//	    answer_timeout <time span>
//	    keepalive <time span>
//	    max_connections <n>
//	    host <name>|{client}
//	    tls {
//	        ca_file <path>
//	        server_name <name>
//	        client_certificate <certificate> <key>
//	        min tls1.2|tls1.3
//	    }
//	    fail_for <time span> after <failures> | never
//	    check <path> [every <time span>]
//	    pass_header <name>...
//	    headers only <name>...
//	}
func (h *Forward) UnmarshalCaddyfile(d *caddyfile.Dispenser) error {
	d.Next()
	if h.Issuers = d.RemainingArgs(); len(h.Issuers) == 0 {
		return d.Err("card_forward needs the address of an issuer, as host:port")
	}
	return readBlock(d, "card_forward", append([]option{
		{name: "policy", read: h.readPolicy},
		durationOption("dial_timeout", &h.DialTimeout),
		durationOption("answer_timeout", &h.AnswerTimeout),
		durationOption("keepalive", &h.KeepAlive),
		numberOption("max_connections", 1, &h.MaxConnections),
		textOption("host", "a name, or "+clientHost, &h.Host),
		{name: "tls", read: h.readTLS},
		{name: "fail_for", read: h.readFailFor},
		{name: "check", read: h.readCheck},
	}, headerOptions(&h.Rule)...))
}

func (h *Forward) readPolicy(d *caddyfile.Dispenser) (err error) {
	if h.Policy, err = oneArg(d, "least, round_robin or first"); err != nil {
		return err
	}
	if _, err := forwardPolicy(h.Policy); err != nil {
		return d.WrapErr(err)
	}
	return nil
}

func (h *Forward) readTLS(d *caddyfile.Dispenser) error {
	if err := noMore(d); err != nil {
		return err
	}
	h.TLS = new(ForwardTLS)
	return readBlock(d, "tls", []option{
		textOption("ca_file", "a path", &h.TLS.CAFile),
		textOption("server_name", "a name", &h.TLS.ServerName),
		{name: "client_certificate", read: func(d *caddyfile.Dispenser) error {
			if !d.Args(&h.TLS.Certificate, &h.TLS.Key) {
				return d.Err("client_certificate needs the paths of the certificate and of its key")
			}
			return noMore(d)
		}},
		{name: "min", read: func(d *caddyfile.Dispenser) (err error) {
			if h.TLS.Min, err = oneArg(d, "tls1.2 or tls1.3"); err != nil {
				return err
			}
			if _, err := tlsVersion(h.TLS.Min); err != nil {
				return d.WrapErr(err)
			}
			return nil
		}},
	})
}

// readFailFor reads `fail_for <time span> after <failures>`, or
// `fail_for never`.
func (h *Forward) readFailFor(d *caddyfile.Dispenser) (err error) {
	const expected = "fail_for needs: a time span, after, and a number of failures; or never"
	words := d.RemainingArgs()
	switch {
	case len(words) == 1 && words[0] == "never":
		h.FailAfter = -1
		return nil
	case len(words) != 3 || words[1] != "after":
		return d.Err(expected)
	}
	if h.FailFor, err = spanOf(d, words[0]); err != nil {
		return err
	}
	h.FailAfter, err = numberFrom1(d, words[2])
	return err
}

// readCheck reads `check <path> [every <time span>]`.
func (h *Forward) readCheck(d *caddyfile.Dispenser) (err error) {
	words := d.RemainingArgs()
	if len(words) != 1 && (len(words) != 3 || words[1] != "every") {
		return d.Err("check needs: a path, and perhaps every and a time span")
	}
	h.Check = &ForwardCheck{Path: words[0]}
	if len(words) == 3 {
		h.Check.Every, err = spanOf(d, words[2])
	}
	return err
}

// numberFrom1 parses a whole number of at least 1.
func numberFrom1(d *caddyfile.Dispenser, text string) (int, error) {
	n, err := strconv.Atoi(text)
	if err != nil || n < 1 {
		return 0, d.Errf("%q is not a number of at least 1", text)
	}
	return n, nil
}

// spanOf parses a time span above 0.
func spanOf(d *caddyfile.Dispenser, text string) (caddy.Duration, error) {
	span, err := caddy.ParseDuration(text)
	if err != nil || span <= 0 {
		return 0, d.Errf("%q is not a time span; write for example 10s", text)
	}
	return caddy.Duration(span), nil
}

// via is the name of the server in Via, the same as of Caddy's reverse proxy (RFC
// 9110, section 7.6.3).
const via = "1.1 Caddy"

// An outgoing is a request to an issuer.
type outgoing struct{ forward.Request }

var outgoings = sync.Pool{New: func() any { return new(outgoing) }}

func newOutgoing() *outgoing { return outgoings.Get().(*outgoing) }

// free returns the outgoing to its pool, without any data of the request.
func (o *outgoing) free() {
	fields := o.Fields
	clear(fields)
	o.Request = forward.Request{Fields: fields[:0]}
	outgoings.Put(o)
}

// fill makes the outgoing request from the request that the handlers before have
// left. It refuses a body of unknown length, which no handler of the gateway
// produces.
func (o *outgoing) fill(r *http.Request, info *requestInfo, rule *headers.Rule) *auth.Refusal {
	o.Method, o.Target = r.Method, r.URL.RequestURI()
	switch body := r.Body.(type) {
	case nil:
	case *held.Slice:
		o.Body = body.Bytes()
	case *held.Reader:
		if o.Body = body.Body().OnePiece(); o.Body == nil {
			o.Stream, o.Length = body.Once(), body.Body().Size()
		}
	default:
		if r.ContentLength < 0 {
			return auth.Refuse(auth.InternalError, "a handler before card_forward has put a body of unknown length in the place of the verified one")
		}
		if r.ContentLength > 0 {
			o.Stream, o.Length = body, r.ContentLength
		}
	}
	rule.Recall(r.Header, info.aside)
	for name, values := range r.Header {
		if forwardedNames[name] || !rule.Sends(name) {
			continue
		}
		for _, value := range values {
			o.add(name, value)
		}
	}
	o.addForwarded(r)
	return o.assert(r, info)
}

// assert adds the assertion of what is sent, if there is to be one. It refuses a
// body of which the gateway knows no hash.
func (o *outgoing) assert(r *http.Request, info *requestInfo) *auth.Refusal {
	a := &info.asserting
	if a.signer == nil {
		return nil
	}
	start := time.Now()
	digest := a.claims.Digest
	switch r.Body.(type) {
	case *held.Slice, *held.Reader:
	default:
		if o.length() > 0 {
			return auth.Refuse(auth.InternalError, "a handler before card_forward has put another body in the place of the verified one, which assert cannot vouch for")
		}
		digest = sha256.Sum256(nil)
	}
	o.add(headers.Assertion, a.sign(o.Method, o.Target, digest))
	info.overhead += time.Since(start)
	return nil
}

// length returns the number of bytes of the body.
func (o *outgoing) length() int64 { return int64(len(o.Body)) + o.Length }

func (o *outgoing) add(name, value string) {
	o.Fields = append(o.Fields, forward.Field{Name: name, Value: value})
}

// forwardedNames are the headers that addForwarded and assert write.
var forwardedNames = map[string]bool{
	headers.Assertion: true,
	"X-Forwarded-For": true, "X-Forwarded-Proto": true, "X-Forwarded-Host": true, "Via": true,
}

// addForwarded adds Via and X-Forwarded-For, -Proto and -Host as Caddy's reverse
// proxy does. Behind a trusted proxy it appends the address of the peer to
// X-Forwarded-For, and keeps the other two if card_auth has passed them.
func (o *outgoing) addForwarded(r *http.Request) {
	for _, value := range r.Header["Via"] {
		o.add("Via", value)
	}
	o.add("Via", via)
	if r.TLS != nil && !r.TLS.HandshakeComplete {
		o.add("Early-Data", "1") // RFC 8470, section 5.1
	}
	trusted := fromProxy(r)
	peer, _, err := net.SplitHostPort(r.RemoteAddr)
	if err != nil && (r.RemoteAddr != "@" || !trusted) {
		return // the address of the peer is not known
	}
	peer, _, _ = strings.Cut(peer, "%")
	scheme, host := "https", r.Host
	if r.TLS == nil {
		scheme = "http"
	}
	if trusted {
		if before := strings.Join(r.Header["X-Forwarded-For"], ", "); before != "" {
			peer = strings.TrimSuffix(before+", "+peer, ", ")
		}
		scheme = lastOr(r.Header["X-Forwarded-Proto"], scheme)
		host = lastOr(r.Header["X-Forwarded-Host"], host)
	}
	if peer != "" {
		o.add("X-Forwarded-For", peer)
	}
	o.add("X-Forwarded-Proto", scheme)
	o.add("X-Forwarded-Host", host)
}

// lastOr returns the last of the values, or otherwise if there is none or it is
// empty.
func lastOr(values []string, otherwise string) string {
	if len(values) == 0 || values[len(values)-1] == "" {
		return otherwise
	}
	return values[len(values)-1]
}

func countConnections(issuer string, delta int) {
	upstreamConnections.WithLabelValues(issuer).Add(float64(delta))
}

// A sampledLog writes to the log of the current configuration, because a
// forwarder outlives the configuration that made it. It shortens a flood of
// problems: of each kind it writes the first lines of every second, then one in
// many.
type sampledLog struct {
	mu       sync.Mutex
	base     *zap.Logger
	sampling *zap.Logger
}

func (l *sampledLog) current() *zap.Logger {
	now := caddy.Log()
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.base != now {
		l.base = now
		l.sampling = now.Named("card_gateway.issuers").WithOptions(zap.WrapCore(func(core zapcore.Core) zapcore.Core {
			return zapcore.NewSamplerWithOptions(core, time.Second, refusalsPerSecond, refusalsThen)
		}))
	}
	return l.sampling
}

var issuerLog sampledLog

// logIssuerProblem logs a problem of an issuer, with the gateway's own text.
func logIssuerProblem(e *forward.Error) {
	issuerLog.current().Warn("issuer: "+e.Kind.String(), zap.String("kind", e.Kind.String()),
		zap.String("issuer", e.Issuer), zap.String("detail", e.Text))
}
