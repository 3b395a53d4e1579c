package headers

import (
	"maps"
	"net/http"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

func cleaned(rule *Rule, names ...string) http.Header {
	h := make(http.Header)
	for _, name := range names {
		h[name] = []string{"v"}
	}
	rule.Clean(h)
	return h
}

// lyingHeaders are names that proxies, authenticating servers, frameworks and
// meshes write or obey.
var lyingHeaders = strings.Fields(`
	Client-IP X-Client-IP True-Client-IP X-Real-IP X-Cluster-Client-IP CF-Connecting-IP CF-Connecting-IPv6 CF-IPCountry
	Fastly-Client-IP Fly-Client-IP X-Azure-ClientIP X-Azure-SocketIP X-ProxyUser-Ip WL-Proxy-Client-IP Proxy-Client-IP
	X-Originating-IP X-Remote-IP X-Remote-Addr Remote-Addr X-Host X-Source-IP X-Appengine-User-IP X-Nf-Client-Connection-Ip
	DO-Connecting-IP X-Envoy-External-Address X-Peer-Address X-Original-Forwarded-For X-Vercel-Forwarded-For Forwarded
	X-Forwarded X-Forwarded-For X-Forwarded-Host X-Forwarded-Proto X-Forwarded-Scheme X-Forwarded-Protocol X-Forwarded-Port
	X-Forwarded-Server X-Forwarded-By X-Forwarded-Ssl X-Forwarded-Path X-Forwarded-Prefix X-Forwarded-Uri X-Forwarded-Method
	X-Forwarded-User X-Forwarded-Email X-Forwarded-Groups X-Forwarded-Preferred-Username X-Forwarded-Access-Token
	X-Forwarded-Client-Cert X-Forwarded-Tls-Client-Cert X-Forwarded-Tls-Client-Cert-Info Forwarded-For Forwarded-Proto Via X-Via
	Max-Forwards X-Scheme X-Url-Scheme X-Original-Proto Front-End-Https X-Https X-SSL X-TLS-Version X-Original-Host X-Http-Host-Override
	X-Hostname X-Server-Name X-Server-Port X-Original-URL X-Original-URI X-Rewrite-URL X-Rewrite-URI X-Override-URL X-Request-URI
	X-Original-Method X-HTTP-Method X-HTTP-Method-Override X-Method-Override X-Method X-Envoy-Original-Path X-Envoy-Original-Host
	X-Envoy-Internal X-Envoy-Upstream-Rq-Timeout-Ms X-Envoy-Decorator-Operation X-Script-Name Script-Name X-Path-Info X-Base-Path
	X-Context-Path X-Replaced-Path X-Matched-Path X-Invoke-Path X-Invoke-Query X-Original-Query-String X-Waws-Unencoded-Url
	X-Cf-Forwarded-Url X-CF-Proxy-Signature Remote-User X-Remote-User X-Remote-Group X-Remote-Email Remote-Groups Remote-Name X-Auth-User
	X-Auth-Request-User X-Auth-Request-Email X-Auth-Request-Groups X-Auth-Username X-Auth-Token X-Authenticated-User
	X-Authenticated-Userid X-Authenticated-Scope X-Consumer-Id X-Consumer-Username X-Consumer-Custom-Id X-Credential-Identifier
	X-User X-User-Id X-Username X-User-Email X-User-Roles X-Roles X-Groups X-Tenant X-Tenant-Id X-Org-Id X-Scope-OrgID X-Principal
	X-Webauth-User X-WEBAUTH-USER Impersonate-User Impersonate-Group Impersonate-Uid X-Goog-Authenticated-User-Email
	X-Goog-Authenticated-User-Id X-Goog-Iap-Jwt-Assertion X-Amzn-Oidc-Identity X-Amzn-Oidc-Data X-Amzn-Oidc-Accesstoken
	X-MS-Client-Principal X-MS-Client-Principal-Id X-MS-Client-Principal-Name X-MS-Token-AAD-Id-Token X-Access-Token X-Id-Token
	X-JWT-Payload X-Jwt-Claims X-Client-Id X-Api-Key-Id Api-Key Authorization Proxy-Authorization X-Authorization From
	Client-Cert Client-Cert-Chain X-Client-Cert X-SSL-Client-Cert X-SSL-Client-Verify X-SSL-Client-S-DN SSL-Client-Cert
	SSL-Client-Verify X-Client-Verify X-Client-DN X-ARR-ClientCert X-ARR-SSL X-TLS-Client-Cert X-Client-Certificate X-Ssl-Cipher X-JA3-Fingerprint
	X-Certificate-Thumbprint Proxy Proxy-Connection X-Accel-Redirect X-Accel-Buffering X-Accel-Expires X-Accel-Mapping
	X-Sendfile X-Send-File X-Sendfile-Type X-LIGHTTPD-send-file X-Lighttpd-Send-Tempfile X-Litespeed-Location X-Reproxy-URL
	X-Middleware-Subrequest X-Middleware-Rewrite X-Now-Route-Matches X-Nextjs-Data X-Backend X-Upstream X-Route-To X-Debug X-Amz-Target
	L5d-Dst-Override Surrogate-Capability Surrogate-Control Destination Overwrite Depth X-Internal X-Bypass-Cache X-Appengine-Inbound-Appid
	Connection Keep-Alive TE Trailer Transfer-Encoding Upgrade HTTP2-Settings Expect Early-Data Content_Length
	On-Behalf-Of X-On-Behalf-Of X-Delegated-By X-Masquerade X-Realm Iv-Creds SM_UNIVERSALID SM_AUTHTYPE SM_AUTHDIRNAME SM_SERVERSESSIONID
	Eppn X-Upn X-Client-CN X-Caller X-Caller-Id X-Gid X-Acl X-Trusted X-Privileged DPoP Signature Signature-Input X-Hub-Signature Hobareg
	X-UserType X-UserGuid X-UserLevel X-AuthLevel X-AuthType X-TenantKey X-TenantCode X-RoleType X-UserContext SSLClientCertStatus
	SSLClientCertSN SSLClientCertSerial SSLSESSIONID CF-Visitor Alt-Used Alt-Svc CDN-Loop SOAPAction X-Linkerd L5d-Ctx-Deadline
	Dapr-Caller-App-Id X-Ingress X-Mesh Grpc-Metadata-X-Gateway-Operation Grpcgateway-Anything
	X-API-Key X-Timestamp X-Nonce X-Body-Hash X-Signature X-Request-Id X-Gateway-Tenant X-Gateway-Key-Id X-Gateway-Anything X-Gateway`)

// passingNames are the headers of docs/configuration.md that pass without an option.
var passingNames = strings.Fields(`
	Accept Accept-Charset Accept-Encoding Accept-Language Cache-Control Content-Type Content-Encoding Content-Language
	Content-Disposition Content-Digest Repr-Digest User-Agent Idempotency-Key If-Match If-None-Match If-Modified-Since If-Unmodified-Since
	If-Range Range Last-Event-ID Prefer Traceparent Tracestate Baggage B3 X-B3-TraceId X-B3-SpanId X-B3-ParentSpanId X-B3-Sampled X-B3-Flags
	Uber-Trace-Id X-Correlation-Id X-Card-Variant`)

// spellings returns the spellings that the most lenient backends take for the
// name.
func spellings(name string) []string {
	return []string{
		name, http.CanonicalHeaderKey(name), strings.ToLower(name), strings.ToUpper(name),
		strings.ReplaceAll(name, "-", "_"), strings.ReplaceAll(name, "-", "."), strings.ToLower(strings.ReplaceAll(name, "-", "_")),
		"_" + name, name + "-", strings.ReplaceAll(name, "-", "--"), strings.Replace(name, "-", "_", 1),
	}
}

// A header that lies reaches the issuer in no spelling.
func TestLyingHeadersAreDropped(t *testing.T) {
	if len(lyingHeaders) < 200 {
		t.Fatalf("only %d names", len(lyingHeaders))
	}
	for _, name := range lyingHeaders {
		for _, spelling := range spellings(name) {
			if h := cleaned(new(Rule), spelling); len(h) > 0 {
				t.Errorf("%s is forwarded", spelling)
			}
		}
	}
}

// The headers of the list pass, in the form that net/http gives them, and nothing else
// does: names of words that nobody wrote down, and other spellings of those of the list.
func TestOnlyTheListPasses(t *testing.T) {
	listed := make(map[string]bool)
	for _, name := range passingNames {
		name = http.CanonicalHeaderKey(name)
		listed[name] = true
		if h := cleaned(new(Rule), name); len(h) != 1 {
			t.Errorf("%s is lost", name)
		}
		for _, spelling := range spellings(name) {
			if canonical := http.CanonicalHeaderKey(spelling); canonical != name && len(cleaned(new(Rule), canonical)) > 0 {
				t.Errorf("%s is forwarded beside %s", canonical, name)
			}
		}
	}
	word := rapid.OneOf(rapid.StringMatching(`[A-Za-z0-9]{1,12}`), rapid.SampledFrom(strings.FieldsFunc(strings.Join(append(passingNames, lyingHeaders...), "-"), func(r rune) bool { return r == '-' || r == '_' })))
	rapid.Check(t, func(t *rapid.T) {
		name := strings.Join(rapid.SliceOfN(word, 1, 4).Draw(t, "words"), rapid.SampledFrom([]string{"-", "_", "", ".", "--"}).Draw(t, "between"))
		name = http.CanonicalHeaderKey(name)
		if len(cleaned(new(Rule), name)) > 0 && !listed[name] {
			t.Fatalf("%s is forwarded", name)
		}
		rule := &Rule{PassHeader: []string{name}}
		if rule.Prepare() == nil && len(cleaned(rule, name)) != 1 {
			t.Fatalf("%s is named and lost", name)
		}
	})
}

// What was dropped is named, unless it is the gateway's or the connection's, or set aside.
func TestDroppedHeadersAreNamed(t *testing.T) {
	behind := &Rule{PassHeader: []string{"X-Aside"}}
	rule := new(Rule)
	if err := behind.Prepare(); err != nil {
		t.Fatal(err)
	}
	rule.SetAside(behind)
	h := http.Header{"Accept": {"a"}, "X-Aside": {"b"}, "Cookie": {"c"}, "X-Customer": {"d"}}
	for _, name := range []string{"X-Api-Key", "X_nonce", "Te", "Host", "X-Gateway-Tenant", "X_gateway", "Content-Length", "X-Forwarded-For"} {
		h[name] = []string{"e"}
	}
	aside, dropped := rule.Clean(h)
	slices.Sort(dropped)
	if !slices.Equal(dropped, []string{"Cookie", "X-Customer"}) || len(aside) != 1 || len(h) != 1 {
		t.Errorf("dropped %q, set aside %v, kept %v", dropped, aside, h)
	}
}

// What the gateway writes itself, and what it reads to know what a body is, does
// not pass in another spelling: the issuer would have two values to choose from.
func TestOwnHeadersHaveOneSpelling(t *testing.T) {
	for _, name := range []string{
		KeyID, Tenant, Scopes, Operation, Assertion, Forwarded, RequestID,
		"Content-Type", "Content-Encoding", "Content-Length", "Host",
	} {
		joined := strings.ReplaceAll(name, "-", "")
		for _, spelling := range append(spellings(name), spellings(joined)...) {
			if h := cleaned(new(Rule), spelling); len(h) > 0 && !describesBody(http.CanonicalHeaderKey(spelling)) {
				t.Errorf("%s is forwarded beside %s", spelling, name)
			}
			h := http.Header{spelling: {"1"}}
			if DropIdentity(h); len(h) > 0 && strings.HasPrefix(name, "X-Gateway") {
				t.Errorf("%s stays where no card_auth follows", spelling)
			}
		}
		rule := Rule{PassHeader: []string{joined}}
		if err := rule.Prepare(); err == nil {
			t.Errorf("pass_header %s is taken", joined)
		}
	}
}

// Headers that Connection names are removed; the others stay.
func TestConnectionNames(t *testing.T) {
	h := http.Header{
		"Connection": {"close, Prefer", " range ,,X-Gateway-Tenant"},
		"Prefer":     {"a"}, "Range": {"b"}, "Accept": {"c"}, "Close": {"d"},
	}
	new(Rule).Clean(h)
	if len(h) != 1 || h.Get("Accept") == "" {
		t.Errorf("left are %v", h)
	}
}

func TestHeaderRule(t *testing.T) {
	names := []string{"X-Forwarded-User", "X_forwarded_user", "Accept", "Content-Type", "Content-Encoding", "X-Card-Id", "Authorization", "X-Gateway-Tenant"}
	for _, c := range []struct {
		rule Rule
		want []string
	}{
		{Rule{}, []string{"Accept", "Content-Encoding", "Content-Type"}},
		{Rule{PassHeader: []string{"x-forwarded-user", "authorization", "x-card-id"}},
			[]string{"Accept", "Authorization", "Content-Encoding", "Content-Type", "X-Card-Id", "X-Forwarded-User"}},
		{Rule{OnlyHeaders: []string{"x-card-id"}}, []string{"Content-Encoding", "Content-Type", "X-Card-Id"}},
	} {
		if err := c.rule.Prepare(); err != nil {
			t.Fatal(err)
		}
		if got := slices.Sorted(maps.Keys(cleaned(&c.rule, names...))); !slices.Equal(got, c.want) {
			t.Errorf("%+v passes %v, want %v", c.rule, got, c.want)
		}
	}
	for _, name := range []string{"X-Gateway-Tenant", "x_request_id", "Connection", "X-Signature", "Content-Length", "Host", "", "a b", "X:", strings.Repeat("a", 64)} {
		for _, rule := range []Rule{{PassHeader: []string{name}}, {OnlyHeaders: []string{"Accept", name}}} {
			if err := rule.Prepare(); err == nil {
				t.Errorf("%+v is taken", rule)
			}
		}
	}
	both := Rule{PassHeader: []string{"A"}, OnlyHeaders: []string{"B"}}
	if err := both.Prepare(); err == nil {
		t.Error("both options together are taken")
	}
}

// Cleaning allocates nothing for headers that clients commonly send.
func TestCleanDoesNotAllocate(t *testing.T) {
	rule := new(Rule)
	if n := testing.AllocsPerRun(100, func() {
		for _, name := range passingNames {
			rule.passes(name)
		}
		for _, name := range lyingHeaders {
			rule.passes(name)
		}
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

func BenchmarkClean(b *testing.B) {
	rule := new(Rule)
	names := []string{"X-Api-Key", "X-Timestamp", "X-Nonce", "X-Body-Hash", "X-Signature", "Content-Type", "Content-Length", "Accept", "User-Agent", "Accept-Encoding", "X-Card-Id"}
	b.ReportAllocs()
	for b.Loop() {
		for _, name := range names {
			rule.passes(name)
		}
	}
}
