package docs

import (
	"os"
	"os/exec"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/card-gateway/card-gateway/tests/harness"
)

var (
	redisUser    = regexp.MustCompile(`(?m)^user (\S+) (.*)$`)
	redisCommand = regexp.MustCompile("(?m)`(redis-cli [^`]*)`|^(redis-cli .*)$")
	redisPlace   = regexp.MustCompile(`-h HOST -p 6379 --tls --cacert /etc/card-gateway/ca.pem --user \w+ --askpass|…`)
	repairs      = regexp.MustCompile(`… (CONFIG SET|ACL SET|BGSAVE)`)
)

// documentedUsers gives a server the users of docs/several-nodes.md, each with the
// password that the page shows, and takes the rights of the test itself away.
func documentedUsers(t *testing.T, r *harness.RedisServer) {
	t.Helper()
	page, err := os.ReadFile("../../docs/several-nodes.md")
	if err != nil {
		t.Fatal(err)
	}
	_, conf, _ := strings.Cut(string(page), "# redis.conf\n")
	conf, _, _ = strings.Cut(conf, "```")
	users := redisUser.FindAllStringSubmatch(conf, -1)
	var last []any
	for _, m := range users {
		args := []any{"ACL", "SETUSER", m[1]}
		for rule := range strings.FieldsSeq(m[2]) {
			args = append(args, rule)
		}
		if m[1] == "default" {
			last = args
			continue
		}
		r.Do(args...)
	}
	if len(users) != 4 || last == nil {
		t.Fatalf("docs/several-nodes.md has the users %q, want default, gateway, operator and admin", users)
	}
	r.Do(last...)
}

// TestRedisCommandsOfThePages runs every redis-cli line of the pages as the user
// that they name, with the rights of docs/several-nodes.md. The operator must not be
// able to do more.
func TestRedisCommandsOfThePages(t *testing.T) {
	t.Parallel()
	r := harness.StartRedis(t, "--cluster-enabled", "yes", "--cluster-port", strconv.Itoa(harness.FreePort(t)))
	documentedUsers(t, r)
	endless := regexp.MustCompile(`--latency-history -i \d+`)
	run := func(user, command string) string {
		command = redisPlace.ReplaceAllString(command, "-s "+r.Addr+" --user "+user)
		command = endless.ReplaceAllString(command, "--latency --raw -i 1") // the same commands, and an end
		cmd := exec.Command("timeout", "--foreground", "20", "bash", "-o", "pipefail", "-c", command)
		cmd.Env = append(os.Environ(), "REDISCLI_AUTH="+strings.ToUpper(user)+"_PASSWORD")
		out, err := cmd.CombinedOutput()
		if err != nil {
			return err.Error() + " " + string(out)
		}
		return string(out)
	}
	wrong := regexp.MustCompile(`NOPERM|NOAUTH|WRONGPASS|ERR |exit status|AUTH failed`)
	found := 0
	for _, p := range harness.Pages(t) {
		for _, m := range redisCommand.FindAllStringSubmatch(p.Text, -1) {
			command, user := m[1]+m[2], "operator"
			if repairs.MatchString(command) {
				user = "admin"
			}
			found++
			if said := run(user, command); said == "" || wrong.MatchString(said) {
				t.Errorf("%s: %s as %s: %s", p.Path, command, user, said)
			}
		}
	}
	if found < 8 {
		t.Errorf("the pages have %d redis-cli lines, want those of store-down, store-slow and store-errors", found)
	}
	for _, forbidden := range []string{"GET cg:k", "HGETALL cg:k", "CONFIG GET requirepass", "CONFIG SET maxmemory 1", "ACL LIST", "RANDOMKEY", "FLUSHALL", "CLIENT KILL TYPE normal", "MONITOR"} {
		if said := run("operator", "redis-cli … "+forbidden); !strings.Contains(said, "NOPERM") {
			t.Errorf("the operator may %s: %s", forbidden, said)
		}
	}
}
