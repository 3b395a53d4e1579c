package tests

import (
	"encoding/base64"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// aclRule is the line of docs/redis.md that makes the gateway's user.
var aclRule = regexp.MustCompile(`(?m)^ACL (SETUSER gateway on >)PASSWORD( .*)$`)

// TestRedisCanary sends secrets and card data through the gateway and looks
// for them in everything that Redis was sent and keeps. The gateway's user has
// the rights that the guide gives it, and nobody reads its password.
func TestRedisCanary(t *testing.T) {
	t.Parallel()
	u := startUpstream(t)
	r := startRedis(t, "--rdbcompression", "no", "--appendonly", "yes")
	c := make(canaries)
	password := c.add("password", "CANARYpassword")
	guide, err := os.ReadFile(filepath.Join("..", "docs", "redis.md"))
	if err != nil {
		t.Fatal(err)
	}
	rule := aclRule.FindStringSubmatch(string(guide))
	if rule == nil {
		t.Fatal("docs/redis.md has no line ACL SETUSER gateway")
	}
	var acl []any
	for _, word := range strings.Fields("acl " + rule[1] + password + rule[2]) {
		acl = append(acl, word)
	}
	r.do(acl...)
	wire := r.monitor()

	g := newGateway(t, site{upstream: u.addr, limits: withLimits, global: "limit issue_card 2/1d\nlock_after 3",
		store: "redis " + r.url() + " {\nusername gateway\npassword file {$HOME}/password\n}"})
	g.write("password", password+"\n")
	g.start()
	keys := canaryKeys(g, c)
	requests := canaryRequests(c, keys)
	for _, with := range canaryReplies(c) {
		u.replies(with)
		for _, request := range requests() {
			c.add("nonce", request.value("X-Nonce"))
			c.add("body hash", request.value("X-Body-Hash"))
			signature := c.add("signature", request.value("X-Signature"))
			if raw, err := base64.StdEncoding.DecodeString(signature); err == nil {
				c.add("signature in raw bytes", string(raw))
			}
			_, _ = g.try(request)
		}
	}
	delete(c, "unknown key id") // ids are no secret
	commands := strings.Join(wire.seen(), "\n")
	c.search(t, "what redis was sent", commands)
	if !strings.Contains(commands, "cg:{"+keys[0].id+"}:k") {
		t.Errorf("redis was sent nothing about the key: %.2000s", commands)
	}
	r.do("save")
	r.search(t, c, keys[0].id)
	searchConfig(t, g, c)
	g.stop()
	r.search(t, c, keys[0].id)
}

// search looks for the canaries in the files of the server, and in all values.
// They hold what is not secret, else nothing is proven.
func (r *redisServer) search(t testing.TB, c canaries, present string) {
	t.Helper()
	found := 0
	err := filepath.WalkDir(r.dir, func(path string, entry os.DirEntry, err error) error {
		if err != nil || !entry.Type().IsRegular() {
			return err
		}
		text, err := os.ReadFile(path)
		c.search(t, filepath.Base(path), string(text))
		if strings.Contains(string(text), present) {
			found++
		}
		return err
	})
	if err != nil || found < 2 {
		t.Errorf("%d files of redis speak of the key, want the dump and the append-only file (%v)", found, err)
	}
	names, _ := r.do("keys", "*").([]any)
	for _, name := range names {
		value := fmt.Sprintf("%s %q", name, r.do("dump", name))
		switch r.do("type", name) {
		case "hash":
			value += fmt.Sprint(r.do("hgetall", name))
		case "string":
			value += fmt.Sprint(r.do("get", name))
		}
		c.search(t, fmt.Sprint(name), value)
	}
	if len(names) < 5 {
		t.Errorf("redis holds only %q", names)
	}
}

// searchConfig looks for the canaries in what the gateway logs and shows.
func searchConfig(t testing.TB, g *gateway, c canaries) {
	t.Helper()
	password := g.read("password")
	if err := os.Remove(g.path("password")); err != nil {
		t.Fatal(err)
	}
	searchEverything(t, g, c)
	g.write("password", password)
}
