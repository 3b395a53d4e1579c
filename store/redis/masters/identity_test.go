package masters

import (
	"regexp"
	"strconv"
	"testing"
	"time"

	"github.com/card-gateway/card-gateway/tests/redistest"
)

var historyField = regexp.MustCompile(`(?m)^(role|master_replid|master_link_status):(\w+)`)

// historyOf returns the server's role, its replication id and the state of its
// link, from INFO.
func historyOf(t testing.TB, p *redistest.Process) (role, id, link string) {
	t.Helper()
	fields := map[string]string{}
	for _, m := range historyField.FindAllStringSubmatch(p.Do(t, "info", "replication").(string), -1) {
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
	isNew := func(p *redistest.Process, when string) {
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
	follow := func(p, master *redistest.Process) {
		t.Helper()
		p.Do(t, "replicaof", "127.0.0.1", strconv.Itoa(master.Port))
		redistest.Eventually(t, 20*time.Second, "the replica follows", func() bool {
			_, id, link := historyOf(t, p)
			_, want, _ := historyOf(t, master)
			return link == "up" && id == want
		})
	}
	quick := []string{"--repl-diskless-sync-delay", "0", "--repl-ping-replica-period", "1"}
	a, b := redistest.Own(t, true, append(quick, "--appendonly", "yes")...), redistest.Own(t, true, append(quick, "--dbfilename", "dump.rdb")...)
	isNew(a, "the first start")
	isNew(b, "the start of the other")
	a.Do(t, "set", "x", "1")
	a.Kill()
	a.Start(t)
	isNew(a, "a kill, and a start from the append-only file")
	b.Do(t, "set", "x", "1")
	b.Do(t, "save")
	b.Kill()
	b.Start(t)
	isNew(b, "a kill, and a start from an RDB file")
	follow(b, a)
	b.Do(t, "replicaof", "no", "one")
	isNew(b, "a promotion")
	follow(b, a)
	b.Do(t, "save") // with the history of its master in it
	b.Kill()
	b.Start(t)
	isNew(b, "the start of a replica as a master")
	follow(b, a)
	a.Do(t, "failover")
	redistest.Eventually(t, 20*time.Second, "a failover", func() bool { role, _, _ := historyOf(t, b); return role == "master" })
	isNew(b, "a failover")
	redistest.Eventually(t, 20*time.Second, "the demoted one follows", func() bool { _, _, link := historyOf(t, a); return link == "up" })
	a.Do(t, "replicaof", "no", "one")
	isNew(a, "a demotion and a promotion, without a start")
	follow(a, b)
	b.Do(t, "failover")
	redistest.Eventually(t, 20*time.Second, "a failover back", func() bool { role, _, _ := historyOf(t, a); return role == "master" })
	isNew(a, "a failover back")
}
