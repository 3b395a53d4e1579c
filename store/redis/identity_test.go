package redis

import (
	"fmt"
	"regexp"
	"strconv"
	"testing"
	"time"

	"pgregory.net/rapid"
)

var historyField = regexp.MustCompile(`(?m)^(role|master_replid|master_link_status):(\w+)`)

// historyOf returns the server's role, its replication id and the state of its
// link, from INFO.
func historyOf(t testing.TB, p *process) (role, id, link string) {
	t.Helper()
	fields := map[string]string{}
	for _, m := range historyField.FindAllStringSubmatch(p.do(t, "info", "replication").(string), -1) {
		fields[m[1]] = m[2]
	}
	return fields["role"], fields["master_replid"], fields["master_link_status"]
}

// settle.lua knows a server only by its replication id. That identifies its
// run, because a master gets a new id at every start and every promotion,
// whatever data it has loaded and whatever its role was before.
func TestMasterHasANewReplicationID(t *testing.T) {
	t.Parallel()
	seen := map[string]string{} // when, by id
	isNew := func(p *process, when string) {
		t.Helper()
		role, id, _ := historyOf(t, p)
		if role != "master" || len(id) != 40 {
			t.Fatalf("%s: role %s, id %q; want a master", when, role, id)
		}
		if before, known := seen[id]; known {
			t.Errorf("%s: the id is the one of %s", when, before)
		}
		seen[id] = when
	}
	follow := func(p, master *process) {
		t.Helper()
		p.do(t, "replicaof", "127.0.0.1", strconv.Itoa(master.port))
		eventually(t, 20*time.Second, "the replica follows", func() bool {
			_, id, link := historyOf(t, p)
			_, want, _ := historyOf(t, master)
			return link == "up" && id == want
		})
	}
	quick := []string{"--repl-diskless-sync-delay", "0", "--repl-ping-replica-period", "1"}
	a, b := own(t, true, append(quick, "--appendonly", "yes")...), own(t, true, append(quick, "--dbfilename", "dump.rdb")...)
	isNew(a, "the first start")
	isNew(b, "the start of the other")
	a.do(t, "set", "x", "1")
	a.kill()
	a.start(t)
	isNew(a, "a kill, and a start from the append-only file")
	b.do(t, "set", "x", "1")
	b.do(t, "save")
	b.kill()
	b.start(t)
	isNew(b, "a kill, and a start from an RDB file")
	follow(b, a)
	b.do(t, "replicaof", "no", "one")
	isNew(b, "a promotion")
	follow(b, a)
	b.do(t, "save") // with the history of its master in it
	b.kill()
	b.start(t)
	isNew(b, "the start of a replica as a master")
	follow(b, a)
	a.do(t, "failover")
	eventually(t, 20*time.Second, "a failover", func() bool { role, _, _ := historyOf(t, b); return role == "master" })
	isNew(b, "a failover")
	eventually(t, 20*time.Second, "the demoted one follows", func() bool { _, _, link := historyOf(t, a); return link == "up" })
	a.do(t, "replicaof", "no", "one")
	isNew(a, "a demotion and a promotion, without a start")
	follow(a, b)
	b.do(t, "failover")
	eventually(t, 20*time.Second, "a failover back", func() bool { role, _, _ := historyOf(t, a); return role == "master" })
	isNew(a, "a failover back")
}

// Lua keeps every digit of whole numbers up to 2^53: when they are packed, read
// from a decimal and written as one.
func TestNumbersInLua(t *testing.T) {
	s := open(t, single(t))
	script := newScript(`return {ARGV[1], string.format('%d', struct.unpack('<d', ARGV[2])), string.format('%d', ARGV[3] + 0), (struct.unpack('<d', ARGV[2]))}`)
	const most = 1 << 53
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.OneOf(rapid.Int64Range(-most, most), rapid.SampledFrom([]int64{0, 1, -1, most, -most, most - 1, 1e15, 1e16 / 2})).Draw(t, "n")
		reply, err := s.run(ctx, "counting", call{script: script, keys: []string{s.names.index()}, args: []any{packDoubles(n), decimal(n)}})
		if err != nil {
			t.Fatal(err)
		}
		if got, want := fmt.Sprint(reply...), fmt.Sprint(decimal(n), decimal(n), n); got != want {
			t.Fatalf("%s, want %s", got, want)
		}
	})
}
