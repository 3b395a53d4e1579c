package redis

import (
	"encoding/base64"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/card-gateway/card-gateway/tests/harness"
)

// aclRule is the line of docs/redis.md that makes the gateway's user.
var aclRule = regexp.MustCompile(`(?m)^ACL (SETUSER gateway on >)PASSWORD( .*)$`)

// TestRedisCanary sends secrets and card data through the gateway and searches
// them in everything that Redis receives and stores. The gateway's user has the
// rights of the guide, and its password is shown nowhere.
func TestRedisCanary(t *testing.T) {
	t.Parallel()
	u := harness.StartUpstream(t)
	r := harness.StartRedis(t, "--rdbcompression", "no", "--appendonly", "yes")
	c := make(harness.Canaries)
	password := c.Add("password", "CANARYpassword")
	guide, err := os.ReadFile(filepath.Join("../..", "docs", "redis.md"))
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
	r.Do(acl...)
	wire := r.Monitor()

	g := harness.NewGateway(t, harness.Site{Upstream: u.Addr, Limits: harness.WithLimits, Global: "limit issue_card 2/1d\nlock_after 3",
		Store: r.Patient("username gateway", "password file {$HOME}/password")})
	g.WriteFile("password", password+"\n")
	g.Start()
	keys := c.Keys(g)
	requests := c.Requests(keys)
	for _, with := range c.Replies() {
		u.Replies(with)
		for _, request := range requests() {
			c.Add("nonce", request.Value("X-Nonce"))
			c.Add("body hash", request.Value("X-Body-Hash"))
			signature := c.Add("signature", request.Value("X-Signature"))
			if raw, err := base64.StdEncoding.DecodeString(signature); err == nil {
				c.Add("signature in raw bytes", string(raw))
			}
			_, _ = g.Try(request)
		}
	}
	delete(c, "unknown key id") // ids are no secret
	commands := strings.Join(wire.Seen(), "\n")
	c.Search(t, "what redis was sent", commands)
	if !strings.Contains(commands, "cg:{"+keys[0].ID+"}:k") {
		t.Errorf("redis was sent nothing about the key: %.2000s", commands)
	}
	r.Do("save")
	searchRedis(t, r, c, keys[0].ID)
	searchConfig(t, g, c)
	g.Stop()
	searchRedis(t, r, c, keys[0].ID)
}

// searchRedis looks for the canaries in the files of the server, and in all values.
// They must contain the data that is not secret; otherwise the test proves nothing.
func searchRedis(t testing.TB, r *harness.RedisServer, c harness.Canaries, present string) {
	t.Helper()
	found := 0
	err := filepath.WalkDir(r.Dir, func(path string, entry os.DirEntry, err error) error {
		if err != nil || !entry.Type().IsRegular() {
			return err
		}
		text, err := os.ReadFile(path)
		c.Search(t, filepath.Base(path), string(text))
		if strings.Contains(string(text), present) {
			found++
		}
		return err
	})
	if err != nil || found < 2 {
		t.Errorf("%d files of redis speak of the key, want the dump and the append-only file (%v)", found, err)
	}
	names, _ := r.Do("keys", "*").([]any)
	for _, name := range names {
		value := fmt.Sprintf("%s %q", name, r.Do("dump", name))
		switch r.Do("type", name) {
		case "hash":
			value += fmt.Sprint(r.Do("hgetall", name))
		case "string":
			value += fmt.Sprint(r.Do("get", name))
		}
		c.Search(t, fmt.Sprint(name), value)
	}
	if len(names) < 5 {
		t.Errorf("redis holds only %q", names)
	}
}

// searchConfig looks for the canaries in what the gateway logs and shows.
func searchConfig(t testing.TB, g *harness.Gateway, c harness.Canaries) {
	t.Helper()
	password := g.ReadFile("password")
	if err := os.Remove(g.Path("password")); err != nil {
		t.Fatal(err)
	}
	c.SearchGateway(t, g)
	g.WriteFile("password", password)
}
