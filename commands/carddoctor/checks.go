package carddoctor

import (
	"bytes"
	"cmp"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/caddyserver/caddy/v2"
	"github.com/spf13/cobra"

	"github.com/card-gateway/card-gateway/adminapi"
	"github.com/card-gateway/card-gateway/caddymodule/issuer"
	"github.com/card-gateway/card-gateway/caddymodule/node"
	"github.com/card-gateway/card-gateway/caddymodule/stores"
	"github.com/card-gateway/card-gateway/commands/cardunit"
	"github.com/card-gateway/card-gateway/commands/cli"
	"github.com/card-gateway/card-gateway/forward"
	"github.com/card-gateway/card-gateway/keys"
	"github.com/card-gateway/card-gateway/platform"
	"github.com/card-gateway/card-gateway/secret"
	"github.com/card-gateway/card-gateway/store"
	"github.com/card-gateway/card-gateway/store/redis/masters"
)

// usualFile is where the packages and docs/deployment.md put the configuration.
const usualFile = "/etc/card-gateway/Caddyfile"

// A doctor looks at one machine.
type doctor struct {
	cmd     *cobra.Command
	text    []byte         // the configuration, in JSON
	file    *configuration // nil: it cannot be read
	running *configuration // nil: no gateway has answered
	absent  bool           // nobody listens on the admin endpoint
	status  adminapi.Status
}

// examine makes all checks. What the gateway answers is needed by those after it.
func (d *doctor) examine(ctx context.Context) []line {
	path := cmp.Or(cli.Flag(d.cmd, "config"), usualFile)
	lines := all(ctx, []check{one("configuration", path, func(context.Context) (err error) {
		d.text, d.file, err = readConfiguration(path, cli.Flag(d.cmd, "adapter"))
		return err
	})})
	address := cli.Flag(d.cmd, "address")
	if address == "" && d.file != nil {
		address = d.file.admin()
	}
	lines = append(lines, all(ctx, []check{one("admin", address, func(context.Context) error { return d.ask(address) })})...)
	if lines[0].State == stateOK && d.running != nil && !reflect.DeepEqual(d.running.raw, d.file.raw) {
		lines[0] = result("configuration", path, errors.New("the running gateway has another one: systemctl reload card-gateway"))
	}
	checks := []check{one("time", "this machine", synchronisation)}
	checks = append(checks, credentials()...)
	if d.file != nil {
		checks = slices.Concat([]check{one("options", path, d.validate)}, checks, d.servers(), d.logs(), d.certificates(), d.store(), d.issuers(), []check{{"protection", "", d.protection}})
	}
	if d.running != nil {
		checks = append(checks, check{"gateway", address, d.gateway})
	}
	return append(lines, all(ctx, checks)...)
}

// ask asks the running gateway for its configuration and its status.
func (d *doctor) ask(address string) error {
	switch {
	case address == "" && d.file == nil:
		return notCheckedError("its address is in the configuration: name it with --address")
	case address == "":
		return notCheckedError("the admin endpoint is off, so card-keys, card-status and this command reach no gateway")
	}
	if path, ok := strings.CutPrefix(address, "unix/"); ok {
		path, _, _ = strings.Cut(path, "|")
		if found, err := os.Stat(path); err == nil && found.Mode()&os.ModeSocket == 0 {
			d.absent = true
			return errors.New("it is not a socket, and a gateway cannot make one in its place: remove it, then systemctl restart card-gateway")
		}
	}
	text, err := cli.CallAt(d.cmd, address, cli.Request{Path: "/config/"}, new(any))
	if err == nil {
		_, err = cli.CallAt(d.cmd, address, cli.Request{Path: "/card-gateway/status"}, &d.status)
	}
	if err != nil {
		d.absent = strings.Contains(err.Error(), syscall.ENOENT.Error()) || strings.Contains(err.Error(), syscall.ECONNREFUSED.Error())
		return err
	}
	d.running, err = parse(credentialPath.ReplaceAll(text, nil))
	if d.file != nil {
		d.file.raw = nil
		_ = json.Unmarshal(credentialPath.ReplaceAll(d.text, nil), &d.file.raw) // it was parsed before
	}
	return err
}

// credentialPath is where systemd or card-unit puts the credentials of a process.
var credentialPath = regexp.MustCompile(`/[^" ]*/(credentials/[^/" ]+|card-unit-\d+)/`)

// errorLine is the line in which `validate` says why it fails: as a text, or through the
// log that the configuration has set up.
var errorLine = regexp.MustCompile(`(?m)^(?:Error: (.*)|\{"level":"error","ts":[0-9.]+,"msg":"(.*)"\})$`)

// ownOutputs are the outputs of logs that reach only the process itself.
var ownOutputs = []string{"stdout", "stderr", "discard", "card_queue"}

// validate runs `validate` in a process of its own, which can be ended. It writes no log of
// the gateway, and certificates that it makes are not kept.
func (d *doctor) validate(ctx context.Context) error {
	kept, err := os.MkdirTemp("", "card-doctor-")
	if err != nil {
		return notCheckedError(err.Error())
	}
	defer os.RemoveAll(kept)
	var top map[string]any
	binary, err := os.Executable()
	if err := errors.Join(err, json.Unmarshal(d.text, &top)); err != nil {
		return err
	}
	top["storage"] = map[string]string{"module": "file_system", "root": kept}
	for _, writer := range objects(top["logging"]) {
		if output, ok := writer["output"].(string); ok && !slices.Contains(ownOutputs, output) {
			clear(writer)
			writer["output"] = "stdout"
		}
	}
	text, _ := json.Marshal(top)                                         // it was JSON
	cmd := exec.CommandContext(ctx, binary, "validate", "--config", "-") //nolint:gosec // this program itself
	cmd.Stdin = bytes.NewReader(text)
	out, err := cmd.CombinedOutput()
	if said := errorLine.FindSubmatch(out); err != nil && said != nil {
		return errors.New(strings.ReplaceAll(string(said[1])+string(said[2]), `\"`, `"`))
	}
	return err
}

// synchronised is replaced by tests, which cannot set the clock of the machine.
var synchronised = platform.Synchronised

func synchronisation(context.Context) error {
	switch right, err := synchronised(); {
	case err != nil:
		return notCheckedError("the system does not say whether its clock is synchronised: " + err.Error())
	case !right:
		return errors.New("nothing keeps its clock right: start chrony or systemd-timesyncd, and see timedatectl")
	default:
		return nil
	}
}

// credentials returns the checks of the files that the unit gives to the service, which
// the gateway sees as copies.
func credentials() (checks []check) {
	paths, err := cardunit.Credentials()
	if err != nil {
		return []check{one("unit", "card-gateway", func(context.Context) error { return err })}
	}
	for _, path := range paths {
		checks = append(checks, one("credential", path, func(context.Context) error {
			if _, err := os.Stat(path); errors.Is(err, os.ErrPermission) {
				return notCheckedError(err.Error() + ": run it as root, by card-unit")
			} else if err != nil {
				return err
			}
			return secret.CheckMode(path)
		}))
	}
	return checks
}

// servers returns the checks of the ports, and of the certificates and metrics there.
func (d *doctor) servers() (checks []check) {
	var ours []string
	if d.running != nil {
		for _, s := range d.running.Apps.HTTP.Servers {
			for _, a := range s.listening() {
				ours = append(ours, a.String())
			}
		}
	}
	for _, s := range d.file.Apps.HTTP.Servers {
		for _, a := range s.listening() {
			checks = append(checks, one("port", a.String(), func(ctx context.Context) error {
				return d.port(ctx, a, slices.Contains(ours, a.String()))
			}))
			if d.running != nil && len(handlers(s.Routes, "metrics")) > 0 {
				checks = append(checks, one("metrics", a.String(), func(ctx context.Context) error { return metrics(ctx, s, a) }))
			}
			for _, name := range s.names() {
				if slices.Contains(ours, a.String()) && len(s.TLS) > 0 {
					checks = append(checks, one("certificate", strings.TrimSpace(a.String()+" "+name), func(ctx context.Context) error { return d.served(ctx, a, name) }))
				}
			}
		}
	}
	slices.SortStableFunc(checks, func(a, b check) int { return cmp.Compare(a.name+a.place, b.name+b.place) })
	return checks
}

// port looks whether an address is free for the gateway, or has its own.
func (d *doctor) port(ctx context.Context, a caddy.NetworkAddress, ours bool) error {
	conn, err := new(net.Dialer).DialContext(ctx, a.Network, a.JoinHostPort(0))
	if err == nil {
		_ = conn.Close()
	}
	switch {
	case ours && err != nil:
		return fmt.Errorf("the gateway runs and does not answer there: systemctl restart card-gateway (%w)", err)
	case !ours && err == nil && !d.absent && d.running == nil:
		return notCheckedError("something listens there; whether it is the gateway is known when its admin endpoint answers")
	case !ours && err == nil:
		return errors.New("another program listens there, so the gateway can neither start nor reload: `ss -ltnp` shows it; end it or change the port")
	default:
		return nil
	}
}

// toSelf returns the TLS of a connection to the gateway on this machine, whose certificate
// is looked at and not relied on: nothing secret is sent.
func toSelf(name string) *tls.Config {
	return &tls.Config{ServerName: name, InsecureSkipVerify: true} //nolint:gosec // see above
}

var client = &http.Client{Transport: &http.Transport{DisableKeepAlives: true, TLSClientConfig: toSelf("")}}

func metrics(ctx context.Context, s *server, a caddy.NetworkAddress) error {
	scheme := "http"
	if len(s.TLS) > 0 {
		scheme = "https"
	}
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, scheme+"://"+a.JoinHostPort(0)+"/metrics", http.NoBody)
	if err != nil {
		return err
	}
	answer, err := client.Do(r)
	if err != nil {
		return fmt.Errorf("/metrics does not answer, so Prometheus sees nothing: %w", err)
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(io.LimitReader(answer.Body, 8<<20))
	if err == nil && (answer.StatusCode != http.StatusOK || !bytes.Contains(text, []byte("card_gateway_"))) {
		err = fmt.Errorf("/metrics answers %s without the gateway's metrics: look at the site's routes", answer.Status)
	}
	return err
}

// logs returns the checks of the files that logs are written to.
func (d *doctor) logs() (checks []check) {
	whole, _ := d.file.raw.(map[string]any)
	for _, writer := range objects(whole["logging"]) {
		if path, ok := writer["filename"].(string); ok {
			checks = append(checks, one("log", path, func(context.Context) error { return platform.MayMake(filepath.Dir(expanded(path))) }))
		}
	}
	return checks
}

// certificates returns the checks of the certificates that the configuration names.
func (d *doctor) certificates() (checks []check) {
	for _, f := range d.file.Apps.TLS.Certificates.Files {
		checks = append(checks, one("certificate", f.Certificate, func(context.Context) error {
			leaf, err := f.leaf()
			if err != nil {
				return err
			}
			return ending(leaf)
		}))
	}
	return checks
}

// leaf returns the certificate of two files.
func (f *certificateFiles) leaf() (*x509.Certificate, error) {
	pair, err := tls.LoadX509KeyPair(expanded(f.Certificate), expanded(f.Key))
	if err != nil {
		return nil, err
	}
	return pair.Leaf, nil
}

// ending returns an error for a certificate that should have been renewed.
func ending(leaf *x509.Certificate) error {
	left := time.Until(leaf.NotAfter)
	if !node.Overdue(leaf, time.Now()) {
		return nil
	}
	when := fmt.Sprintf("ends in %d days", left/(24*time.Hour))
	if left < 0 {
		when = "has ended on " + leaf.NotAfter.UTC().Format(time.DateOnly)
	}
	return errors.New("it " + when + ": write a new one over the file, then systemctl reload card-gateway; for one that Caddy gets by itself, see docs/runbooks/certificate-overdue.md")
}

// served looks at the certificate that clients get for a name.
func (d *doctor) served(ctx context.Context, a caddy.NetworkAddress, name string) error {
	conn, err := (&tls.Dialer{Config: toSelf(name)}).DialContext(ctx, a.Network, a.JoinHostPort(0))
	if err != nil {
		return fmt.Errorf("clients get no certificate for this name: %w", err)
	}
	defer conn.Close()
	leaf, newer := conn.(*tls.Conn).ConnectionState().PeerCertificates[0], ""
	for _, f := range d.file.Apps.TLS.Certificates.Files {
		if found, err := f.leaf(); err == nil && found.Equal(leaf) {
			newer = ""
			break
		} else if err == nil && name != "" && found.VerifyHostname(name) == nil {
			newer = f.Certificate
		}
	}
	if newer != "" {
		return fmt.Errorf("clients do not get the one of %s: systemctl reload card-gateway", newer)
	}
	return ending(leaf)
}

// store returns the check of the servers that hold the state. The directory of an
// embedded store is validated with the options.
func (d *doctor) store() []check {
	ctx, cancel := caddy.NewContext(caddy.Context{Context: d.cmd.Context()})
	defer cancel()
	module, err := stores.Load(ctx, d.file.Apps.Gateway.Store)
	servers, ok := module.(*stores.RedisStore)
	if err != nil || !ok { // validation reports it
		return nil
	}
	return []check{{"redis reach", "the servers of the store", func(ctx context.Context) (lines []line) {
		found, err := servers.Examine(ctx)
		if err != nil {
			return []line{result("redis reach", "", err)}
		}
		for _, f := range found {
			lines = append(lines, result("redis "+f.Check, f.Server, findingError(f)))
		}
		return lines
	}}}
}

func findingError(f store.Finding) error {
	switch {
	case f.Problem == "":
		return nil
	case f.Unasked:
		return notCheckedError(f.Problem)
	}
	for _, r := range remedies {
		if r.says.MatchString(f.Problem) {
			return fmt.Errorf("%s (%s)", r.do, f.Problem)
		}
	}
	return errors.New(f.Problem)
}

// remedies are for errors of Redis and of the way to it whose text does not say what to do.
var remedies = []struct {
	says *regexp.Regexp
	do   string
}{
	{regexp.MustCompile("not look like a TLS handshake"), "the server has no TLS at this port: write redis:// in place of rediss://, or name its TLS port"},
	{regexp.MustCompile("one that wants TLS"), "the server wants TLS at this port: write rediss:// in place of redis://"},
	{regexp.MustCompile("certificate"), "the server's certificate is not trusted: ca_file must name its authority, and server_name the name in it"},
	{regexp.MustCompile("MISCONF"), "the server could not save its data: look at its log and its disk"},
	{regexp.MustCompile("max number of clients|EOF|broken pipe|reset by peer"), "the server ends the connection: it has as many clients as maxclients allows, or wants TLS at this port (rediss://)"},
	{regexp.MustCompile("timeout|deadline"), "the server does not answer in time: start it, correct the address, or open the firewall; a server without TLS does not answer at rediss://, write redis:// then"},
	{regexp.MustCompile("connection refused"), "no server listens there: start it, or correct the address"},
}

// issuers returns a check for each issuer. Those of reverse_proxy are only connected to.
func (d *doctor) issuers() (checks []check) {
	seen := make(map[string]bool)
	for _, s := range d.file.Apps.HTTP.Servers {
		for _, proxy := range handlers(s.Routes, "reverse_proxy") {
			for _, upstream := range objects(proxy["upstreams"]) {
				a, err := caddy.ParseNetworkAddress(expanded(fmt.Sprint(upstream["dial"])))
				if err != nil || seen[a.String()] {
					continue
				}
				seen[a.String()] = true
				checks = append(checks, one("issuer", a.String(), func(ctx context.Context) error {
					conn, err := new(net.Dialer).DialContext(ctx, a.Network, a.JoinHostPort(0))
					if err != nil {
						return fmt.Errorf("no connection can be made: %w; see docs/runbooks/upstream-errors.md", err)
					}
					return conn.Close()
				}))
			}
		}
		for _, options := range handlers(s.Routes, "card_forward") {
			text, _ := json.Marshal(options) // it was JSON
			var h issuer.Forward
			if seen[string(text)] || json.Unmarshal(text, &h) != nil {
				continue
			}
			seen[string(text)] = true
			forwarders, err := h.Forwarders()
			if err != nil { // validation reports it
				continue
			}
			for i, f := range forwarders {
				checks = append(checks, one("issuer", h.Issuers[i], func(ctx context.Context) error {
					defer f.Close()
					return askIssuer(ctx, f, &h)
				}))
			}
		}
	}
	return checks
}

// askIssuer asks an issuer for the path of its check, or for the head of its first page,
// and compares its clock.
func askIssuer(ctx context.Context, f *forward.Forwarder, h *issuer.Forward) error {
	r := &forward.Request{Method: http.MethodHead, Target: "/"}
	if h.Check != nil {
		r.Method, r.Target = http.MethodGet, h.Check.Path
	}
	answer, err := f.Do(ctx, r)
	if failed, ok := errors.AsType[*forward.Error](err); ok {
		return fmt.Errorf("%s: %s; see docs/runbooks/upstream-errors.md", failed.Kind, failed.Text)
	}
	defer answer.Close()
	if h.Check != nil && answer.Status/100 != 2 {
		return fmt.Errorf("it answers %d at %s, the path of its check, so no request goes there", answer.Status, h.Check.Path)
	}
	for _, field := range answer.Fields {
		if at, err := http.ParseTime(field.Value); field.Name == "Date" && err == nil {
			if off := time.Until(at); off.Abs() > masters.MaxSkew {
				return fmt.Errorf("its clock is %v off ours: timedatectl shows whether ours is synchronised", off.Round(time.Second))
			}
		}
	}
	return nil
}

// gateway returns what the running gateway reports of itself.
func (d *doctor) gateway(context.Context) (lines []line) {
	s, build := &d.status, d.status.Version
	if !s.Ready {
		lines = append(lines, result("gateway", build, errors.New("not ready: "+s.Reason)))
	}
	for _, what := range s.Degraded {
		why := map[string]string{"config": s.Loads.Refusal, "keys": s.Store.Details.NoRoomForChanges, "store": strings.Join(s.Store.Details.Degraded, "; ")}[what]
		if what == "audit" && s.Audit != nil {
			why = s.Audit.Trouble
		}
		lines = append(lines, result("gateway", build, errors.New(strings.TrimSuffix("degraded: "+what+", see docs/runbooks/degraded.md: "+why, ": "))))
	}
	if len(lines) == 0 {
		lines = append(lines, result("gateway", build, nil))
	}
	return lines
}

// protection returns what the gateway could protect against and does not: by its
// configuration, its keys and its store.
func (d *doctor) protection(context.Context) (lines []line) {
	found := d.status.Store.Details.Warnings
	for _, s := range d.file.Apps.HTTP.Servers {
		for _, options := range handlers(s.Routes, "card_auth") {
			if options["dry_run"] == true {
				found = append(found, "card_auth is in dry_run, so requests pass that it would refuse: see docs/runbooks/dry-run.md")
			}
		}
	}
	if n := d.status.Seals[keys.SealUnsealed]; n > 0 {
		found = append(found, fmt.Sprintf("%d keys have no seal: card-keys seal, then the option seal required", n))
	}
	for _, text := range found {
		lines = append(lines, result("protection", "", errors.New(text)))
	}
	if len(lines) == 0 {
		lines = append(lines, result("protection", "", nil))
	}
	return lines
}
