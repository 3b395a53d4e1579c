// Package doctor tests card-doctor on running gateways: each fault that an operator may
// meet is planted, and the line about it must say what to do.
package doctor

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/card-gateway/card-gateway/tests/harness"
)

// A fault is one thing that is wrong, and the line that the doctor must have about it.
type fault struct {
	name  string
	plant func(t *testing.T, n *node)
	check string
	says  string // more texts are separated by |
}

// faults are the faults that an operator may meet.
var faults = []fault{
	{"the Caddyfile has a syntax error", edit("card_gateway {", "card_gateway {{"), "configuration", "Caddyfile:"},
	{"the Caddyfile has an unknown directive", edit("card_health ready", "card_helth ready"), "configuration", "unrecognized directive: card_helth|Caddyfile:"},
	{"the file is not what runs", edit("grace_period 2s", "grace_period 3s"), "configuration", "systemctl reload"},

	{"the master key is missing", edit("/master.key", "/no.key"), "options", "no.key: no such file"},
	{"everybody can read the master key", file("master.key", harness.NewMasterKey(), 0o644), "options", "can be read by everybody|chmod 0600"},
	{"the master key has the wrong length", file("master.key", "c2hvcnQ=\n", 0o600), "options", "master_key|32"},
	{"the tokens are missing", edit("/tokens", "/no.tokens"), "options", "admin_token|no such file"},
	{"everybody can write the tokens", file("tokens", token, 0o666), "options", "admin_token|chmod 0640"},
	{"the Redis password is missing", edit("/redis.password", "/no.password"), "options", "redis password|no such file"},
	{"the store cannot make its directory", store("file /dev/null/store"), "options", "store|/dev/null/store"},
	{"everybody can write into the store's directory", openDirectory, "options", "store|everybody"},

	{"a log has no place", edit("/access.log", "/Caddyfile/access.log"), "log", "Caddyfile"},

	{"another program has the port", portTaken, "port", "another program|ss -ltnp"},
	{"the admin socket is missing", edit("/admin.sock", "/no.sock"), "admin", "start it with"},
	{"the admin socket is a file", socketIsFile, "admin", "not a socket"},
	{"nothing answers for the metrics", noMetrics, "metrics", "does not answer|connection refused"},

	{"the certificate is missing", edit("/cert", "/no.cert"), "certificate", "no.cert: no such file"},
	{"the certificate has ended", certificate(-time.Hour), "certificate", "ended|systemctl reload"},
	{"the certificate ends soon", certificate(13 * 24 * time.Hour), "certificate", "ends in 12 days|systemctl reload"},
	{"the gateway has not read the certificate", unreadCertificate, "certificate", "clients do not get the one of|systemctl reload"},
	{"the certificate has another key", otherKey, "certificate", "private key does not match"},

	{"Redis is not reachable", redisAt("redis://" + closedPort), "redis reach", "connection refused"},
	{"the Redis password is wrong", file("redis.password", "wrong", 0o600), "redis rights", "refuses the user|password"},
	{"Redis wants TLS", redisWantsTLS, "redis reach", "rediss://"},
	{"Redis has no TLS", redisHasNoTLS, "redis reach", "without TLS|redis://"},
	{"Redis lacks a right", redisUser("-evalsha"), "redis rights", "EVALSHA|ACL rule"},
	{"Redis evicts", redisSet("maxmemory-policy", "allkeys-lru"), "redis eviction", "noeviction"},
	{"Redis keeps nothing", redisSet("appendonly", "no"), "redis persistence", "appendonly yes"},
	{"Redis has a replica and needs none", replicaUnneeded, "redis replicas", "min-replicas-to-write"},
	{"Redis has another time", redisClock, "redis clock", "off ours"},
	{"Redis could not save", redisMisconf, "redis writes", "MISCONF"},
	{"Redis has too many clients", redisMaxClients, "redis reach", "maxclients"},
	{"Redis is a replica", redisReplica, "redis role", "replica|master"},
	{"Redis has no limit of memory", redisSet("maxmemory", "0"), "redis memory", "maxmemory"},

	{"the issuer is not reachable", issuerAt(closedPort), "issuer", "connection refused"},
	{"the issuer behind reverse_proxy is not reachable", func(t *testing.T, n *node) {
		edit("card_forward "+n.issuer, "reverse_proxy "+closedPort)(t, n)
	}, "issuer", "connection refused"},
	{"the issuer's name has no address", issuerAt("issuer.invalid:9000"), "issuer", "dial|does not resolve"},
	{"the issuer's certificate is not trusted", issuerUntrusted, "issuer", "certificate"},
	{"the issuer has another time", issuerClock, "issuer", "clock|timedatectl"},

	{"the gateway was killed", killed, "admin", "start it with"},
	{"the gateway is degraded", drained, "gateway", "drained|degraded.md"},
	{"the gateway is in dry run", edit("card_auth {", "card_auth {\ndry_run"), "protection", "dry_run"},
}

// unaskable are the rights without which a check cannot be made, and the checks. The
// doctor must not call them ok.
var unaskable = map[string][]string{
	"-acl|dryrun": {"redis rights", "redis persistence"},
	"-config|get": {"redis replicas"},
}

// A node is a gateway that runs and is fine, and how the doctor is run there.
type node struct {
	*harness.Gateway
	redis     *harness.RedisServer
	issuer    string
	caddyfile string   // path; empty: the one of the gateway with the edits
	edits     []string // pairs of texts
	around    []string // a command that runs the doctor
	flags     []string
}

// masterKey is that of all nodes on one store.
var masterKey = harness.NewMasterKey()

const redisPassword = "the-password-of-the-gateway"

const token = "tester keys 0123456789abcdef0123456789abcdef\n"

// edit replaces a text of the Caddyfile.
func edit(from, to string) func(*testing.T, *node) {
	return func(_ *testing.T, n *node) { n.edits = append(n.edits, from, to) }
}

// file replaces a file of the node by another one.
func file(name, text string, mode os.FileMode) func(*testing.T, *node) {
	return func(t *testing.T, n *node) {
		path := filepath.Join(t.TempDir(), name)
		if err := errors.Join(os.WriteFile(path, []byte(text), mode), os.Chmod(path, mode)); err != nil {
			t.Fatal(err)
		}
		n.edits = append(n.edits, n.Path(name), path)
	}
}

// A line is one of the doctor.
type line struct{ Check, Place, State, Text string }

// examine runs the doctor and returns its exit status, its lines, and all that it printed.
func (n *node) examine(t *testing.T) (status int, lines []line, said string) {
	t.Helper()
	path := n.caddyfile
	if path == "" {
		path = filepath.Join(t.TempDir(), "Caddyfile")
		text := n.ReadFile("Caddyfile")
		for i := 0; i < len(n.edits); i += 2 {
			if !strings.Contains(text, n.edits[i]) {
				t.Fatalf("the Caddyfile has no %q:\n%s", n.edits[i], text)
			}
			text = strings.Replace(text, n.edits[i], n.edits[i+1], 1)
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	cmd := n.Command(append([]string{"card-doctor", "--json", "--config", path}, n.flags...)...)
	if len(n.around) > 0 {
		around := exec.Command(n.around[0], append(n.around[1:], cmd.Args...)...)
		around.Env, around.Dir = cmd.Env, cmd.Dir
		cmd = around
	}
	out, err := cmd.Output()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		t.Fatal(err)
	}
	said = string(out)
	if exit != nil {
		said += string(exit.Stderr)
	}
	if err := json.Unmarshal(out, &lines); err != nil {
		t.Fatalf("%v: %s", err, said)
	}
	return cmd.ProcessState.ExitCode(), lines, said
}

// startNode returns a healthy node on the Redis server.
func startNode(t *testing.T, r *harness.RedisServer, url string) *node {
	t.Helper()
	up := harness.StartUpstream(t)
	up.Trusts("the doctor asks it, without a key")
	up.Does(func(*harness.Received) harness.Reply {
		return harness.Answer(200, "{}", "Date: "+time.Now().UTC().Format(time.RFC1123))
	})
	n := &node{redis: r, issuer: up.Addr}
	n.Gateway = harness.NewGateway(t, harness.Site{Upstream: up.Addr})
	cert, key, _ := (*harness.Authority)(nil).SignFor(t, "localhost", time.Now().Add(-time.Hour), time.Now().Add(365*24*time.Hour))
	n.WriteFile("cert", string(cert))
	n.WriteFile("key", string(key))
	n.WriteFile("tokens", token)
	n.WriteFile("master.key", masterKey)
	n.WriteFile("redis.password", redisPassword)
	n.Site.Store = "redis " + url + " {\nusername gateway\npassword file " + n.Path("redis.password") + "\nsettle_timeout 20s\nchange_timeout 20s\nio_timeout 10s\n}"
	n.Site.Global = "admin_token file " + n.Path("tokens")
	_, port, _ := net.SplitHostPort(harness.FreeAddress(t))
	n.Site.Sites = "https://localhost:" + port + " {\nbind 127.0.0.1\ntls " + n.Path("cert") + " " + n.Path("key") + "\ncard_refuse not_found\n}"
	n.Start()
	return n
}

// startRedis returns a server with the user of docs/redis.md and some of its rights.
func startRedis(t *testing.T, rights string, config ...string) *harness.RedisServer {
	t.Helper()
	r := harness.StartRedis(t, append([]string{"--appendonly", "yes", "--maxmemory", "1gb", "--maxmemory-policy", "noeviction"}, config...)...)
	setUser(t, r, rights)
	return r
}

func setUser(t *testing.T, r *harness.RedisServer, rights string) {
	t.Helper()
	page, err := os.ReadFile("../../docs/redis.md")
	if err != nil {
		t.Fatal(err)
	}
	_, rule, _ := strings.Cut(string(page), "\nACL SETUSER gateway ")
	rule, _, _ = strings.Cut(rule, "\n")
	words := []any{"ACL", "SETUSER", "gateway"}
	for word := range strings.FieldsSeq(strings.Replace(rule, ">PASSWORD", ">"+redisPassword, 1) + " " + rights) {
		words = append(words, word)
	}
	r.Do(words...)
}

// found returns the lines in a state other than ok, without that about the clock, which is
// the machine's own.
func found(lines []line) (bad []line) {
	for _, l := range lines {
		if l.State != "ok" && l.Check != "time" {
			bad = append(bad, l)
		}
	}
	return bad
}

// The doctor finds each fault, by a line that says what to do, and no fault on a healthy
// pair. It prints no secret.
func TestFaults(t *testing.T) {
	t.Parallel()
	r := startRedis(t, "")
	a, b := startNode(t, r, r.URL()), startNode(t, r, r.URL())
	for _, n := range []*node{a, b} {
		status, lines, said := n.examine(t)
		if bad := found(lines); len(bad) > 0 {
			t.Errorf("found on a healthy node: %v", bad)
		}
		if want := clockStatus(t, lines); status != want {
			t.Errorf("exit status %d, want %d: %s", status, want, said)
		}
		for _, name := range []string{"admin", "configuration", "options", "port", "metrics", "certificate", "redis reach", "redis rights", "redis clock", "issuer", "gateway", "protection"} {
			if !slices.ContainsFunc(lines, func(l line) bool { return l.Check == name }) {
				t.Errorf("nothing is said about %s", name)
			}
		}
	}
	for _, f := range faults {
		t.Run(f.name, func(t *testing.T) {
			n := *a
			f.plant(t, &n)
			status, lines, said := n.examine(t)
			if status != 1 {
				t.Errorf("exit status %d, want 1", status)
			}
			if !slices.ContainsFunc(lines, func(l line) bool { return l.State == "found" && l.Check == f.check && hasAll(l.Text, f.says) }) {
				t.Errorf("no line of %s says %q:\n%s", f.check, f.says, said)
			}
			for _, secret := range []string{strings.TrimSpace(masterKey), "0123456789abcdef0123456789abcdef", redisPassword} {
				if strings.Contains(said, secret) {
					t.Errorf("it prints a secret: %s", said)
				}
			}
		})
	}
}

// Without a configuration that can be read, one line says so and what to do, and the rest is
// looked at: the gateway if its address is given.
func TestWithoutConfiguration(t *testing.T) {
	t.Parallel()
	r := startRedis(t, "")
	n := startNode(t, r, r.URL())
	for says, plant := range map[string]func(*testing.T, *node){
		"no such file|--config":                          func(_ *testing.T, n *node) { n.caddyfile = n.Path("elsewhere") },
		"permission denied|run it as root, by card-unit": unreadable,
	} {
		for _, flags := range [][]string{nil, {"--address", "unix/" + n.Path("admin.sock")}} {
			n := *n
			plant(t, &n)
			n.flags = flags
			status, lines, said := n.examine(t)
			want := map[string]string{"configuration": "not checked", "admin": "not checked"}
			if flags != nil {
				want["admin"], want["gateway"] = "ok", "ok"
			}
			if status != 2 || !hasAll(lines[0].Text, says) {
				t.Errorf("%q: exit status %d, want 2 and a line that says %q: %s", flags, status, says, said)
			}
			for _, l := range lines {
				if state := want[l.Check]; l.Check != "time" && state != l.State {
					t.Errorf("%q: %s is %s, want %q: %s", flags, l.Check, l.State, state, said)
				}
				delete(want, l.Check)
			}
			if len(want) > 0 || len(lines) < 3 {
				t.Errorf("%q: nothing is said about %v: %s", flags, want, said)
			}
		}
	}
}

// What a restricted user may not ask is not checked, and never ok.
func TestNotChecked(t *testing.T) {
	t.Parallel()
	r := startRedis(t, "")
	n := startNode(t, r, r.URL())
	for right, checks := range unaskable {
		t.Run(right, func(t *testing.T) {
			other := startRedis(t, right)
			replica(t, other)
			n := *n
			edit(r.URL(), other.URL())(t, &n)
			_, lines, said := n.examine(t)
			for _, check := range checks {
				at := slices.IndexFunc(lines, func(l line) bool { return l.Check == check })
				if at < 0 || lines[at].State != "not checked" || lines[at].Text == "" {
					t.Errorf("%s: %s", check, said)
				}
			}
		})
	}
}

func hasAll(text, parts string) bool {
	for part := range strings.SplitSeq(parts, "|") {
		if !strings.Contains(text, part) {
			return false
		}
	}
	return true
}

// TestChangesNothing: a store that was never used, and a directory without one, are as
// before.
func TestChangesNothing(t *testing.T) {
	t.Parallel()
	r := startRedis(t, "")
	n := startNode(t, r, r.URL())
	unused := startRedis(t, "")
	dir := t.TempDir()
	onRedis, onFile := *n, *n
	edit(r.URL(), unused.URL())(t, &onRedis)
	edit("/access.log", "/never.log")(t, &onRedis)
	store("file "+filepath.Join(dir, "store"))(t, &onFile)
	before := listing(t, n.Dir)
	for _, n := range []*node{&onRedis, &onFile} {
		_, _, said := n.examine(t)
		if size := unused.Do("DBSIZE"); size != int64(0) {
			t.Errorf("the doctor has written %v keys: %s", size, said)
		}
		if made := listing(t, dir); len(made) != 1 {
			t.Errorf("the doctor has made %q", made)
		}
		if after := listing(t, n.Dir); !slices.Equal(after, before) {
			t.Errorf("the directory of the gateway has %q, and had %q", after, before)
		}
	}
}

// listing returns the paths below a directory.
func listing(t *testing.T, dir string) (paths []string) {
	t.Helper()
	if err := filepath.WalkDir(dir, func(path string, _ fs.DirEntry, err error) error {
		paths = append(paths, path)
		return err
	}); err != nil {
		t.Fatal(err)
	}
	return paths
}

// clockStatus returns the exit status of a machine on which all else is fine: the line
// about the clock must say what the kernel says.
func clockStatus(t *testing.T, lines []line) int {
	t.Helper()
	var clock syscall.Timex
	_, err := syscall.Adjtimex(&clock)
	state, status := "ok", 0
	if err != nil {
		state, status = "not checked", 2
	} else if clock.Maxerror >= 16_000_000 {
		state, status = "found", 1
	}
	if !slices.ContainsFunc(lines, func(l line) bool { return l.Check == "time" && l.State == state }) {
		t.Errorf("no line says of the clock %q: %v", state, lines)
	}
	return status
}

const closedPort = "127.0.0.1:1"

func unreadable(t *testing.T, n *node) {
	if os.Getuid() == 0 { // whom no mode keeps out
		n.around = []string{"setpriv", "--bounding-set=-dac_override,-dac_read_search"}
	}
	n.caddyfile = filepath.Join(t.TempDir(), "Caddyfile")
	if err := os.WriteFile(n.caddyfile, nil, 0); err != nil {
		t.Fatal(err)
	}
}

// store replaces the store.
func store(arguments string) func(*testing.T, *node) {
	return func(_ *testing.T, n *node) { n.edits = append(n.edits, "store "+n.Site.Store, "store "+arguments) }
}

func openDirectory(t *testing.T, n *node) {
	dir := t.TempDir()
	if err := os.Chmod(dir, 0o777); err != nil {
		t.Fatal(err)
	}
	store("file "+dir)(t, n)
}

func portTaken(t *testing.T, n *node) {
	other := httptest.NewServer(http.NotFoundHandler())
	t.Cleanup(other.Close)
	_, port, _ := net.SplitHostPort(n.Addr)
	_, taken, _ := net.SplitHostPort(other.Listener.Addr().String())
	edit("http://:"+port, "http://:"+taken)(t, n)
}

func socketIsFile(t *testing.T, n *node) { file("admin.sock", "", 0o600)(t, n) }

func noMetrics(t *testing.T, n *node) {
	_, port, _ := net.SplitHostPort(n.Addr)
	_, free, _ := net.SplitHostPort(harness.FreeAddress(t))
	edit("http://:"+port, "http://:"+free)(t, n)
}

// certificate replaces the certificate by one that has a year behind it, and some time
// left.
func certificate(left time.Duration) func(*testing.T, *node) {
	return func(t *testing.T, n *node) {
		cert, key, _ := (*harness.Authority)(nil).SignFor(t, "localhost", time.Now().Add(-365*24*time.Hour), time.Now().Add(left))
		file("cert", string(cert), 0o600)(t, n)
		file("key", string(key), 0o600)(t, n)
	}
}

func otherKey(t *testing.T, n *node) {
	_, key, _ := (*harness.Authority)(nil).Sign(t, "localhost")
	file("key", string(key), 0o600)(t, n)
}

// redisAt leads the node to another server.
func redisAt(url string) func(*testing.T, *node) {
	return func(t *testing.T, n *node) { edit(n.redis.URL(), url)(t, n) }
}

// redisWith leads the node to a server of its own, in which something was changed.
func redisWith(change func(t *testing.T, r *harness.RedisServer), config ...string) func(*testing.T, *node) {
	return func(t *testing.T, n *node) {
		r := startRedis(t, "", config...)
		change(t, r)
		redisAt(r.URL())(t, n)
	}
}

func redisUser(rights string) func(*testing.T, *node) {
	return redisWith(func(t *testing.T, r *harness.RedisServer) { setUser(t, r, rights) })
}

func redisSet(name, value string) func(*testing.T, *node) {
	return redisWith(func(_ *testing.T, r *harness.RedisServer) { r.Do("CONFIG", "SET", name, value) })
}

// redisTLS starts a server with TLS alone, and returns its address and its authority.
func redisTLS(t *testing.T) (address, authority string) {
	r := startRedis(t, "")
	dir, port := t.TempDir(), strconv.Itoa(harness.FreePort(t))
	cert, key, _ := (*harness.Authority)(nil).Sign(t, "localhost")
	for name, text := range map[string][]byte{"cert": cert, "key": key} {
		if err := os.WriteFile(filepath.Join(dir, name), text, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	r.Do("CONFIG", "SET", "tls-cert-file", filepath.Join(dir, "cert"), "tls-key-file", filepath.Join(dir, "key"),
		"tls-ca-cert-file", filepath.Join(dir, "cert"), "tls-auth-clients", "no", "tls-port", port)
	return "localhost:" + port, filepath.Join(dir, "cert")
}

func redisWantsTLS(t *testing.T, n *node) {
	address, _ := redisTLS(t)
	redisAt("redis://"+address)(t, n)
}

func redisHasNoTLS(t *testing.T, n *node) {
	r := startRedis(t, "")
	redisAt("rediss://localhost:"+r.ListenTCP())(t, n)
	edit("io_timeout 10s", "io_timeout 1s")(t, n) // it waits for the rest of a command
}

// replica starts a replica of a server.
func replica(t *testing.T, master *harness.RedisServer) *harness.RedisServer {
	t.Helper()
	r := startRedis(t, "", "--replicaof", "127.0.0.1 "+master.ListenTCP(), "--repl-diskless-sync-delay", "0")
	harness.Eventually(t, "the replica follows", func() bool {
		return strings.Contains(fmt.Sprint(master.Do("INFO", "replication")), "state=online")
	})
	return r
}

func replicaUnneeded(t *testing.T, n *node) {
	r := startRedis(t, "")
	replica(t, r)
	redisAt(r.URL())(t, n)
}

func redisReplica(t *testing.T, n *node) { redisAt(replica(t, startRedis(t, "")).URL())(t, n) }

func redisClock(t *testing.T, n *node) {
	clock := harness.NewClock(t)
	r := harness.NewRedis(t, "--appendonly", "yes", "--maxmemory", "1gb", "--maxmemory-policy", "noeviction")
	r.Env = clock.RedisEnv()
	r.Start()
	setUser(t, r, "")
	clock.Shift(time.Minute)
	redisAt(r.URL())(t, n)
}

// redisMisconf makes the server fail to save, as it does on a full disk.
func redisMisconf(t *testing.T, n *node) {
	dir := filepath.Join(t.TempDir(), "gone")
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	r := startRedis(t, "", "--dir", dir, "--save", "3600 1")
	if err := os.RemoveAll(dir); err != nil {
		t.Fatal(err)
	}
	r.Do("BGSAVE")
	harness.Eventually(t, "the save has failed", func() bool {
		return strings.Contains(fmt.Sprint(r.Do("INFO", "persistence")), "rdb_last_bgsave_status:err")
	})
	redisAt(r.URL())(t, n)
}

func redisMaxClients(t *testing.T, n *node) {
	r := startRedis(t, "")
	port := r.ListenTCP()
	r.Do("CONFIG", "SET", "maxclients", "1") // the test's own is the one
	redisAt("redis://127.0.0.1:"+port)(t, n)
}

// issuerAt leads the node to another issuer.
func issuerAt(address string) func(*testing.T, *node) {
	return func(t *testing.T, n *node) { edit("card_forward "+n.issuer, "card_forward "+address)(t, n) }
}

func issuerUntrusted(t *testing.T, n *node) {
	server := httptest.NewTLSServer(http.NotFoundHandler())
	server.Config.ErrorLog = log.New(io.Discard, "", 0)
	t.Cleanup(server.Close)
	edit("card_forward "+n.issuer+" {", "card_forward "+server.Listener.Addr().String()+" {\ntls {\n}")(t, n)
}

func issuerClock(t *testing.T, n *node) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Date", time.Now().Add(-time.Minute).UTC().Format(http.TimeFormat))
	}))
	t.Cleanup(server.Close)
	issuerAt(server.Listener.Addr().String())(t, n)
}

func killed(t *testing.T, n *node) {
	*n = *startNode(t, n.redis, n.redis.URL())
	n.Kill()
}

// unreadCertificate writes a new certificate over the files, without a reload.
func unreadCertificate(t *testing.T, n *node) {
	*n = *startNode(t, n.redis, n.redis.URL())
	cert, key, _ := (*harness.Authority)(nil).Sign(t, "localhost")
	n.WriteFile("cert", string(cert))
	n.WriteFile("key", string(key))
}

func drained(t *testing.T, n *node) {
	*n = *startNode(t, n.redis, n.redis.URL())
	if status, answer := n.Admin(http.MethodPost, "/card-gateway/drain", "application/json", "{}"); status != http.StatusOK {
		t.Fatalf("drain: %d %s", status, answer)
	}
}
