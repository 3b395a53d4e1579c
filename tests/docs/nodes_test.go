//go:build linux

package docs

import (
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/card-gateway/card-gateway/tests/harness"
)

const (
	twoNodesBegin = "## Two nodes behind HAProxy, step by step"
	twoNodesEnd   = "## From one node to several"
)

// twoNodes goes from empty machines to two nodes behind a balancer, by the commands
// of the page alone and in its order. The heading of a block says on which machines
// it is run.
func twoNodes(t *testing.T, l *lab) {
	c := &cluster{walk: newWalk(t, l, severalNodesPage, twoNodesBegin, twoNodesEnd)}
	c.machines = l.boot(t, map[string]string{"node-a": nodeA, "node-b": nodeB, "redis": "10.0.0.21", "balancer": "10.0.0.4", "prometheus": monitor})
	c.fills = strings.NewReplacer("OPERATOR_PASSWORD", "operators-word", "ADMIN_PASSWORD", "admins-word", "PASSWORD", "gateways-word")
	c.prepare()
	i := startIssuer(t, issuer+":9000")

	for !c.follows("card-keys create") {
		b := c.next("")
		out := c.everywhere(b)
		if strings.Contains(b.Text, "systemctl enable --now") {
			c.want(b, out, "\nready\n")
		}
	}
	created := c.everywhere(c.next("card-keys create"))
	key := harness.Credentials{ID: printed(t, created, "id"), Secret: printed(t, created, "secret")}
	c.fills = strings.NewReplacer("ck_live_…", key.ID, "CARD_SECRET=…", "CARD_SECRET="+key.Secret)
	first := c.next("card-sign")
	c.want(first, c.everywhere(first), `"client_ip":"`+client+`"`, answerOfIssuer)

	a, b, balancer := c.site(nodeA+":8443"), c.site(nodeB+":8443"), c.site("cards.example.com")
	c.oneStore(a, b, balancer, key)
	c.maintenance(i, balancer)
	c.journal(b)
	c.everywhere(c.next("systemctl restart prometheus"))
	harness.Eventually(t, "Prometheus is ready", func() bool {
		return c.machines[monitor].command("curl", "-sf", "http://"+monitor+":9090/-/ready").Run() == nil
	})
	query := c.next("api/v1/query")
	harness.Eventually(t, "Prometheus reads both gateways", func() bool { return strings.Contains(c.everywhere(query), `"2"`) })
	c.runbooks(key.ID)
	if len(c.blocks) > 0 {
		t.Errorf("%s:%d: nobody has run this block", c.page, c.blocks[0].Line)
	}
}

// Addresses on the page.
const (
	nodeA = "10.0.0.11"
	nodeB = "10.0.0.12"

	monitor = "10.0.0.30" // with Prometheus
)

// A cluster is what the page builds.
type cluster struct {
	*walk
	machines map[string]*machine // by address
}

// prepare makes the reader's own machine: the sources, ssh to the others, and the
// name of the balancer.
func (c *cluster) prepare() {
	c.t.Helper()
	checkout := filepath.Join(c.lab.dir, "checkout")
	if err := os.Mkdir(checkout, 0o700); err != nil {
		c.t.Fatal(err)
	}
	c.checkout(checkout)
	command(c.t, "cp", "machine/ssh", "machine/git", c.lab.dir)
	hosts := filepath.Join(c.lab.dir, "hosts")
	if err := os.WriteFile(hosts, []byte("127.0.0.1 localhost\n10.0.0.4 cards.example.com\n"), 0o644); err != nil {
		c.t.Fatal(err)
	}
	if err := syscall.Mount(hosts, "/etc/hosts", "", syscall.MS_BIND, ""); err != nil {
		c.t.Fatal(err)
	}
}

// follows reports whether the next block has the words.
func (c *cluster) follows(words string) bool {
	return len(c.blocks) == 0 || strings.Contains(c.blocks[0].Text, words)
}

var anAddress = regexp.MustCompile(`\d+\.\d+\.\d+\.\d+`)

// everywhere runs a block on the machines that its heading names, else on the
// reader's own.
func (c *cluster) everywhere(b placed) (out string) {
	c.t.Helper()
	addresses := anAddress.FindAllString(b.heading, -1)
	if len(addresses) == 0 {
		return c.here(b)
	}
	for _, address := range addresses {
		m := c.machines[address]
		if m == nil {
			c.t.Fatalf("%s:%d (%s): there is no machine with the address %s", c.page, b.Line, b.heading, address)
		}
		out += c.on(m, b)
	}
	return out
}

// printed returns a field of a key that a command has printed.
func printed(t *testing.T, out, field string) string {
	t.Helper()
	found := regexp.MustCompile(`(?m)^` + field + ` +(\S+)$`).FindStringSubmatch(out)
	if found == nil {
		t.Fatalf("no %s is printed:\n%s", field, out)
	}
	return found[1]
}

// do runs a command of the test itself on a machine.
func (c *cluster) do(address string, words ...string) string {
	c.t.Helper()
	out, err := patiently(func() *exec.Cmd { return c.machines[address].command(words...) })
	if err != nil {
		c.t.Fatalf("%s on %s: %v\n%s", words, address, err, out)
	}
	return out
}

// key makes a key on a node.
func (c *cluster) key(address string, more ...string) harness.Credentials {
	c.t.Helper()
	out := c.do(address, append([]string{"card-gateway", "card-unit", "card-keys", "create", "--tenant", "test", "--scopes", "*"}, more...)...)
	return harness.Credentials{ID: printed(c.t, out, "id"), Secret: printed(c.t, out, "secret")}
}

// oneStore: what one node knows, the other knows. A request for which the store was
// too slow may have been charged all the same.
func (c *cluster) oneStore(a, b, balancer *site, key harness.Credentials) {
	c.t.Helper()
	for _, first := range []*site{a, b, balancer} {
		request, answer := first.send(c.t, key.Get)
		harness.WantAccepted(c.t, answer)
		again := func() *harness.Request { return request }
		for _, node := range []*site{a, b} {
			_, answer := node.send(c.t, again)
			harness.WantUnauthorized(c.t, answer, harness.Replayed)
		}
	}
	limited := c.key(nodeB, "--limit", "get_card=3/24h")
	_, answer := a.send(c.t, limited.Get)
	for answer.Status == http.StatusOK {
		_, answer = a.send(c.t, limited.Get)
	}
	for _, node := range []*site{a, b} {
		_, answer := node.send(c.t, limited.Get)
		harness.WantRefused(c.t, answer, http.StatusTooManyRequests, "RATE_LIMITED")
	}
	c.do(nodeA, "card-gateway", "card-unit", "card-keys", "disable", limited.ID)
	_, answer = b.send(c.t, limited.Get)
	harness.WantUnauthorized(c.t, answer, harness.KeyDisabled)
}

// maintenance: while clients send, the nodes are restarted one after the other, and
// one is taken out of service and put back. No request is lost.
func (c *cluster) maintenance(i *cardIssuer, balancer *site) {
	c.t.Helper()
	processes := func() (all [2]string) {
		for n, address := range []string{nodeA, nodeB} {
			all[n] = c.do(address, "systemctl", "show", "--property", "MainPID", "--value", "card-gateway")
		}
		return all
	}
	const plenty = "1000000/1m"
	busy := startTraffic(c.t, balancer, c.key(nodeA, "--limit", "total="+plenty, "--limit", "default="+plenty))
	before := processes()
	restart := c.next("systemctl restart card-gateway")
	c.everywhere(restart)
	if after := processes(); after[0] == before[0] || after[1] == before[1] {
		c.t.Errorf("%s:%d: the processes of the gateways were %q and are %q", c.page, restart.Line, before, after)
	}
	c.everywhere(c.next("card-node drain"))
	harness.Eventually(c.t, "the balancer sends the drained node nothing", func() bool { return i.took(c.t, 50)[nodeB] == 0 })
	c.everywhere(c.next("card-node undrain"))
	harness.Eventually(c.t, "the balancer sends to both nodes", func() bool { return i.took(c.t, 50)[nodeB] > 0 })
	served := busy.stop()
	if got := i.total(busyPath); got != served {
		c.t.Errorf("%d requests of the clients were served, and %d have reached the issuer", served, got)
	}
	c.t.Logf("%d requests were served", served)
}

// journal: the journal of a node is stopped and started, and the gateway's log goes on.
func (c *cluster) journal(node *site) {
	c.t.Helper()
	if c.lab.group == "" {
		return // no systemd
	}
	units := []string{"systemd-journald.socket", "systemd-journald-dev-log.socket", "systemd-journald.service"}
	c.do(nodeB, append([]string{"systemctl", "stop"}, units...)...)
	unsigned := func() *harness.Request { return &harness.Request{Method: http.MethodGet, Target: "/api/v1/cards"} }
	_, answer := node.send(c.t, unsigned)
	harness.WantUnauthorized(c.t, answer, harness.MissingHeaders)
	c.do(nodeB, append([]string{"systemctl", "start"}, units...)...)
	harness.Eventually(c.t, "the log of the gateway is in the journal again", func() bool {
		_, answer := node.send(c.t, unsigned)
		id := answer.Header.Get("X-Request-Id")
		return strings.Contains(c.do(nodeB, "journalctl", "-u", "card-gateway", "-o", "cat", "--since", "-1min"), id)
	})
}

// notHere are commands of the runbooks that cannot be run on an installation where all is
// well, by a text in them.
var notHere = map[string]string{
	"card-keys seal  ":       "it asks the operator",
	"card-keys seal ck_live": "it asks the operator",
	"card-keys restore":      "it needs a backup and asks the operator",
	"dump.rdb":               "it needs a backup",
}

// runbooks runs the commands of the runbooks on a node, as root. On an installation where
// all is well they find nothing, and none of them fails; a busy machine has some time.
func (c *cluster) runbooks(keyID string) {
	c.t.Helper()
	fills := strings.NewReplacer(
		"ck_live_…", keyID, "redis-cli …", "redis-cli -h 10.0.0.21 -p 6379 --tls --cacert /etc/card-gateway/ca.pem --user operator",
		"--latency-history -i 5", "--latency --raw -i 1", "https://YOUR-NAME", "--cacert secrets/ca.pem https://cards.example.com",
	)
	ran := 0
	for _, page := range harness.Pages(c.t) {
		if !strings.HasPrefix(page.Path, "docs/runbooks/") {
			continue
		}
	blocks:
		for _, b := range harness.Blocks(page) {
			for text := range notHere {
				if b.Language != "sh" || strings.Contains(b.Text, text) {
					continue blocks
				}
			}
			ran++
			problem := c.runbook(fills.Replace(b.Text))
			for deadline := time.Now().Add(harness.Patience); problem != "" && time.Now().Before(deadline); {
				problem = c.runbook(fills.Replace(b.Text))
			}
			if problem != "" {
				c.t.Errorf("%s:%d: %s", page.Path, b.Line, problem)
			}
		}
	}
	if ran < 25 {
		c.t.Errorf("%d blocks of the runbooks were run", ran)
	}
}

var notOK = regexp.MustCompile(`(?m)^(?:found|not checked) .*$`)

// runbook runs a block of a runbook, and returns what is wrong with that.
func (c *cluster) runbook(block string) string {
	// 1: something was found, or nothing.
	const traced = `set -E -o pipefail; trap 'code=$?; [ $code -le 1 ] || echo "status $code: $BASH_COMMAND" >&2' ERR; `
	script := traced + "export CADDY_ADMIN=unix//run/card-gateway/admin.sock REDISCLI_AUTH=operators-word; " + block
	cmd := c.machines[nodeA].command("bash", "-c", script)
	if strings.Contains(block, "https://cards.example.com") { // from outside
		cmd = exec.Command("bash", "-c", script)
		cmd.Dir = c.own
	}
	var stderr strings.Builder
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	said := strings.TrimSpace(strings.ReplaceAll(stderr.String(), "no such keys\n", ""))
	if said != "" || cmd.ProcessState.ExitCode() > 1 {
		return fmt.Sprintf("%v\n%s\n%s", err, said, out)
	}
	for _, line := range notOK.FindAllString(string(out), -1) {
		if !strings.Contains(line, "this machine: ") { // its clock is that of the machine that runs the test
			return "on an installation where all is well card-doctor says: " + line
		}
	}
	if strings.Contains(block, "card-doctor") && !strings.Contains(string(out), "redis writes") {
		return "card-doctor says nothing of Redis: " + string(out)
	}
	return ""
}
