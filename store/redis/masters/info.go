package masters

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"net"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/card-gateway/card-gateway/store"
	"github.com/card-gateway/card-gateway/store/redis/rpc"
)

const (
	// MaxSkew is the most that two clocks may differ.
	MaxSkew = 5 * time.Second
	// MaxLag is how long a master with replicas is used while none of them
	// answers. After that it may be cut off, and another master may have replaced
	// it.
	MaxLag = 3 * time.Second
)

// oldestMajor is the first major version that can run settle.lua: from 7.0 on
// Redis replicates the effects of a script, even if the script reads the clock
// first.
const oldestMajor = 7

// serverInfo is the state of a server by INFO, and what the gateway has found out
// about it.
type serverInfo struct {
	addr       string
	run        string
	identity   string // as server() in server.lua makes it
	from       string // the identity that proved to have handed everything over to it
	version    string // of Redis that it is, or is compatible with
	product    string // name and version, as people know them
	role       string
	policy     string
	bits       string // of a word
	loading    bool
	replicas   int64    // that are connected
	owned      int64    // on a cluster those that belong to it
	followers  []string // addresses of the replicas
	silent     int64    // as server() in server.lua returns it, seconds
	slots      *slotSet
	usedMemory int64
	maxMemory  int64
	persistent bool
	probed
	// The histories that it holds: the current one, and the previous one up to an
	// offset.
	replication, replication2 string
	offset2                   int64
	asked                     inspection
	now                       time.Time
}

// parseInfo reads the reply of INFO.
func parseInfo(addr, reply string) (serverInfo, error) {
	values := make(map[string]string, 200)
	for line := range strings.Lines(reply) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), ":")
		values[name] = value
	}
	i := serverInfo{addr: addr, run: values["run_id"], version: values["redis_version"], role: values["role"], policy: values["maxmemory_policy"], bits: values["arch_bits"]}
	if i.run == "" || i.role == "" || i.version == "" || len(values["master_replid"]) < 16 || len(i.run) < 16 {
		return i, errors.New("redis does not say in INFO who it is")
	}
	i.product = i.version
	if name := values["server_name"]; name != "" && name != "redis" {
		i.product = name + " " + values[name+"_version"]
	}
	i.replication, i.replication2 = values["master_replid"], values["master_replid2"]
	i.identity, i.slots = identityOf(i.run, i.replication), allSlots()
	i.followers, i.silent = replicas(reply)
	i.loading = values["loading"] == "1"
	i.persistent = values["aof_enabled"] == "1"
	var now int64
	for name, field := range map[string]*int64{
		"connected_slaves": &i.replicas, "used_memory": &i.usedMemory,
		"maxmemory": &i.maxMemory, "server_time_usec": &now, "second_repl_offset": &i.offset2,
	} {
		if values[name] == "" {
			continue
		}
		var err error
		if *field, err = strconv.ParseInt(values[name], 10, 64); err != nil {
			return i, fmt.Errorf("redis says in INFO that %s is %q", name, values[name])
		}
	}
	i.now = rpc.Moment(now)
	return i, nil
}

// identityOf returns the same as server() in server.lua, for this run and history.
func identityOf(run, replication string) string {
	if len(run) < 16 || len(replication) < 16 {
		return ""
	}
	return run[:16] + "." + replication[:16]
}

// replicaLine is "slave0:ip=10.0.0.22,port=6379,state=online,offset=98,lag=1".
var replicaLine = regexp.MustCompile(`(?m)^slave\d+:ip=([^,\r\n]*),port=(\d+),state=(\w+),offset=\d+,lag=(\d+)`)

// replicas returns the addresses of the replicas, and the shortest lag of those that
// follow, in seconds.
func replicas(reply string) (addrs []string, silent int64) {
	silent = math.MaxInt64
	for _, m := range replicaLine.FindAllStringSubmatch(reply, -1) {
		addrs = append(addrs, net.JoinHostPort(m[1], m[2]))
		if lag, err := strconv.ParseInt(m[4], 10, 64); err == nil && m[3] == "online" {
			silent = min(silent, lag)
		}
	}
	if silent == math.MaxInt64 {
		silent = 0
	}
	return addrs, silent
}

// findings makes one of each check and its problem.
func findings(pairs ...string) (all []store.Finding) {
	for pair := range slices.Chunk(pairs, 2) {
		all = append(all, store.Finding{Check: pair[0], Problem: pair[1], Unasked: slices.Contains(unasked, pair[1])})
	}
	return all
}

// unasked are the problems of a user who may not ask, and of a server that did not answer.
var unasked = []string{rightsUnasked, replayUnasked, replicasUnasked, unanswered}

// demands returns what a server must be to be used, in the order in which it is demanded.
func (i *serverInfo) demands() []store.Finding {
	var version, role, rights, eviction string
	major, _, _ := strings.Cut(i.version, ".")
	if n, err := strconv.Atoi(major); err != nil || n < oldestMajor {
		version = fmt.Sprintf("version %s is too old; use %d.0 or newer", i.version, oldestMajor)
	} else if i.bits == "32" { // the scripts write numbers as words
		version = "it is a build for 32 bits; use one for 64"
	}
	if i.role != "master" {
		role = "it is a replica; give the address of the master, or the sentinels"
	}
	if i.lacks != "" {
		rights = fmt.Sprintf("the gateway's user may not run %s; give it the whole ACL rule of docs/redis.md", strings.ToUpper(i.lacks))
	} else if i.unasked != nil {
		rights = rightsUnasked
	}
	if i.policy != "noeviction" {
		eviction = fmt.Sprintf("maxmemory-policy %s may evict nonces, so that requests could be replayed; set it to noeviction", i.policy)
	}
	return findings("version", version, "role", role, "rights", rights, "eviction", eviction)
}

// unfit returns an [rpc.UnfitError] if the server must not be used, else nil.
func (i *serverInfo) unfit() error {
	for _, f := range i.demands() {
		if f.Problem != "" && !f.Unasked {
			return &rpc.UnfitError{Server: i.addr, Problem: f.Problem}
		}
	}
	return nil
}

// skew returns a problem when the server's clock is too far from the gateway'w.
func (i *serverInfo) skew(now time.Time) error {
	if off := i.now.Sub(now); off.Abs() > MaxSkew && !i.now.IsZero() {
		return fmt.Errorf("%w: the clock of redis at %s is %v off ours, at most %v are allowed", store.ErrUnavailable, i.addr, off.Round(time.Second), MaxSkew)
	}
	return nil
}

// refusing returns why the master accepts no request, or nil. If no replica has
// answered it for long, another master may have replaced it.
func (i *serverInfo) refusing() error {
	switch {
	case rpc.IsFull(i.denied):
		return fmt.Errorf("%w: redis at %s: %w", store.ErrFull, i.addr, i.denied)
	case i.denied != nil:
		return fmt.Errorf("%w: redis at %s takes no writes: %w", store.ErrUnavailable, i.addr, i.denied)
	case time.Duration(i.silent)*time.Second > MaxLag:
		return fmt.Errorf("%w: no replica has answered redis at %s for over %v", store.ErrUnavailable, i.addr, MaxLag)
	default:
		return nil
	}
}

func readInfo(ctx context.Context, node *redis.Client, addr string) (serverInfo, error) {
	reply, err := node.Info(ctx).Result()
	if err != nil {
		return serverInfo{}, rpc.Unusable(addr, "checking "+addr, err)
	}
	i, err := parseInfo(addr, reply)
	if err != nil {
		return i, rpc.Unavailable("checking "+addr, err)
	}
	if i.loading {
		return i, fmt.Errorf("%w: redis at %s is loading its data", store.ErrUnavailable, addr)
	}
	return i, nil
}

// Redis asks at each command of a script whether the user may run it. A right that
// was taken away stops requests in the middle, while everything else looks well. So
// every check asks for all of them, by dry runs that execute nothing.

// Rights are commands of scripts with their arguments, as a dry run needs them. The
// name of a Redis key is put after the name of a command, except in Other.
type Rights struct {
	Script   [][]any // of all scripts
	Other    [][]any // those that name no key, and those that run a script
	Replayed [][]any // those that write, in the form of the append-only file
}

// probed is what a server lets the gateway's user do.
type probed struct {
	denied  error  // why it refuses writes, for example because its memory is full
	lacks   string // a command that the user may not run
	unasked error  // why that is not known; then the user lacks nothing
}

// probe sends a write that changes nothing, SET … XX of a missing name, and dry runs.
func (w *Watcher) probe(ctx context.Context, node *redis.Client, served *slotSet) (p probed) {
	name := w.names.missing(served)
	if name == "" {
		return p
	}
	if err := node.SetArgs(ctx, name, "", redis.SetArgs{Mode: "XX"}).Err(); !errors.Is(err, redis.Nil) && !rpc.IsMoving(err) {
		p.denied = err
	}
	user := cmp.Or(node.Options().Username, "default")
	p.lacks, p.unasked = refused(ctx, node, user, append(onKey(name, w.opt.Rights.Script), w.opt.Rights.Other...))
	return p
}

// onKey returns the commands with the key after their name.
func onKey(key string, commands [][]any) [][]any {
	all := make([][]any, len(commands))
	for i, command := range commands {
		all[i] = append([]any{command[0], key}, command[1:]...)
	}
	return all
}

// refused returns the name of the first command that the user may not run on the
// node, or "".
func refused(ctx context.Context, node *redis.Client, user string, commands [][]any) (string, error) {
	pipe := node.Pipeline()
	answers := make([]*redis.Cmd, len(commands))
	for i, command := range commands {
		answers[i] = pipe.Do(ctx, append([]any{"acl", "dryrun", user}, command...)...)
	}
	_, _ = pipe.Exec(ctx) // each command holds its error
	for i, answer := range answers {
		if text, err := answer.Text(); err != nil {
			return "", err
		} else if text != "OK" {
			return fmt.Sprint(commands[i][0]), nil
		}
	}
	return "", nil
}

// Some settings of a master decide what it may lose, and are read once a minute, and at
// once of a new master. A gateway does not start with a master that may lose something.
// A running gateway goes on, because nothing is lost yet.

// inspectionPause is the time between two inspections.
const inspectionPause = time.Minute

// An inspection is what a master may lose by its settings, as texts for the operator.
type inspection struct {
	at       time.Time
	refuses  string // the start of a gateway
	degrades string
	warns    [2]string
}

// inspect puts the latest inspection into the master. One that does not answer is asked
// again by the next check.
func (w *Watcher) inspect(ctx context.Context, node *redis.Client, m *serverInfo) {
	var asked bool
	m.asked, asked = w.observations.inspected[m.identity]
	if now := w.opt.Now(); !asked || now.Sub(m.asked.at) >= inspectionPause {
		one, err := w.inspectOne(ctx, node, m)
		if err != nil {
			return
		}
		if one.at = now; one.warns[0] != "" && one.warns[0] != m.asked.warns[0] {
			w.log.Error("redis may lose data at its next restart", "server", m.addr, "problem", one.warns[0])
		}
		m.asked, w.observations.inspected[m.identity] = one, one
	}
}

func (w *Watcher) inspectOne(ctx context.Context, node *redis.Client, m *serverInfo) (one inspection, err error) {
	if m.persistent { // otherwise there is no file to replay
		if one.warns[0], one.refuses, err = replayProblem(ctx, node, onKey(w.names.shared(), w.opt.Rights.Replayed)); err != nil {
			return one, err
		}
	}
	values, err := node.ConfigGet(ctx, coverage).Result()
	if err == nil && values[coverage] != "no" && w.client.Cluster != nil {
		one.warns[1] = "while one master has failed, the keys of all masters are refused (set " + coverage + " no)"
	}
	text, severe, err := w.replicasProblem(ctx, node, m)
	if one.degrades = text; severe {
		one.refuses = cmp.Or(one.refuses, one.degrades)
	}
	return one, err
}

// coverage is a setting of a cluster that lets the failure of one master stop all.
const coverage = "cluster-require-full-coverage"

// refuseLosing returns an [rpc.UnfitError] if a master may lose something by its
// settings.
func (w *Watcher) refuseLosing() error {
	for _, m := range *w.masters.Load() {
		if m.asked.refuses != "" {
			return &rpc.UnfitError{Server: m.addr, Problem: m.asked.refuses}
		}
	}
	return nil
}

// Redis replays its append-only file as the user default. In that file, a script
// that wrote more than one key is a transaction. If default may not run one of its
// commands, Redis drops the whole transaction without failing: nonces, locks,
// limits and the epoch are lost after the restart. So the gateway asks for the
// rights of default, by a dry run that executes nothing.

// What is found if the user may not ask, or the server does not answer.
const (
	rightsUnasked   = "the gateway's user may not ask for its rights; give it +acl|dryrun"
	replayUnasked   = "the gateway's user may not ask whether the append-only file can be replayed; give it +acl|dryrun"
	replicasUnasked = "the gateway's user may not read min-replicas-to-write, without which two masters may accept the same request after a network cut; give it +config|get, or write accept_replicas_unverified"
	unanswered      = "the server did not answer in time"
)

// replayProblem returns why a restart would lose the writes of scripts, or that this
// cannot be known, which refuses nothing.
func replayProblem(ctx context.Context, node *redis.Client, commands [][]any) (text, refuses string, err error) {
	command, err := refused(ctx, node, "default", commands)
	switch {
	case redis.HasErrorPrefix(err, "NOPERM"):
		return replayUnasked, "", nil
	case err != nil || command == "":
		return "", "", err
	}
	text = fmt.Sprintf("a restart loses nonces, locks and limits: Redis replays the append-only file as the user default, who may not run %s; "+
		"run ACL SETUSER default ~* &* +@all, and write in redis.conf: user default off ~* &* +@all", command)
	return text, text, nil
}

// Two masters never accept at the same time if each needs replicas that the other cannot
// have: of n, at least n/2 rounded up. So min-replicas-to-write must be that large on the
// master, and on its replicas, one of which may replace it.

// replicasProblem returns why the master may go on beside another one, and whether that
// refuses the start.
func (w *Watcher) replicasProblem(ctx context.Context, node *redis.Client, m *serverInfo) (text string, severe bool, err error) {
	n := max(w.observations.mostReplicas(m), w.client.SentinelReplicas(ctx))
	if n == 0 {
		return "", false, nil
	}
	least, err := minReplicas(ctx, node)
	if redis.HasErrorPrefix(err, "NOPERM") {
		return replicasUnasked, !w.opt.AcceptReplicas, nil
	}
	where := m.addr
	for _, addr := range m.followers { // one that does not answer is asked again
		replica := w.client.Connect(addr)
		if value, err := minReplicas(ctx, replica); err == nil && value < least {
			least, where = value, addr
		}
		_ = replica.Close()
	}
	if want := (n + 1) / 2; err == nil && least < want {
		return fmt.Sprintf("%s has %d replicas, so two masters may accept the same request after a network cut: min-replicas-to-write is %d at %s; set it to at least %d, and min-replicas-max-lag to 3, on all servers, in redis.conf and by CONFIG SET", m.addr, n, least, where, want), true, nil
	}
	return "", false, err
}

// minReplicas returns how many replicas the server needs to accept writes.
func minReplicas(ctx context.Context, node *redis.Client) (int64, error) {
	values, err := node.ConfigGet(ctx, "min-replicas-*").Result()
	if err != nil || values["min-replicas-max-lag"] == "0" {
		return 0, err
	}
	return strconv.ParseInt(values["min-replicas-to-write"], 10, 64)
}

// Details returns the part of the status that is about the servers. ahead is how far
// requests must be after the replay floor, or 0 if that is not known.
func (w *Watcher) Details(ahead time.Duration) store.Details {
	v, found := w.view.Load(), *w.masters.Load()
	d := store.Details{
		Topology: w.client.Options.Topology(), Servers: make([]store.Server, len(found)), Degraded: append([]string{}, v.degraded...),
		Warnings: w.warnings(found, ahead), ReplayFloor: rpc.Moment(max(v.Highest(), w.raised.Load(), 0)),
	}
	if slices.ContainsFunc(found, func(i serverInfo) bool { return i.nearlyFull() }) {
		d.Degraded = append(d.Degraded, "nonces")
	}
	for i := range found {
		info := &found[i]
		d.Servers[i] = store.Server{
			Address: info.addr, Version: info.product, Replicas: info.replicas,
			UsedMemory: info.usedMemory, MaxMemory: info.maxMemory,
		}
	}
	return d
}

// nearlyFull reports whether more than four fifths of the memory are in use, most of
// which is for nonces.
func (i *serverInfo) nearlyFull() bool { return i.maxMemory > 0 && i.usedMemory > i.maxMemory/5*4 }

// warnings lists what an operator should change.
func (w *Watcher) warnings(found []serverInfo, ahead time.Duration) []string {
	list := []string{}
	for i := range found {
		info := &found[i]
		if info.replicas > 0 && 0 < ahead && ahead < MaxLag+time.Second {
			list = append(list, fmt.Sprintf("replay_floor_ahead is %v: set it to at least %v where masters have replicas, which is how long one that is cut off may go on", ahead, MaxLag+time.Second))
		}
		for _, f := range info.settings() {
			if f.Problem != "" {
				list = append(list, info.addr+": "+f.Problem)
			}
		}
	}
	return list
}

// settings returns what an operator should change of a server that can be used.
func (i *serverInfo) settings() []store.Finding {
	persistence, memory := i.asked.warns[0], ""
	if !i.persistent {
		persistence = "it keeps no append-only file: a restart loses keys, nonces and locks (set appendonly yes)"
	}
	if i.maxMemory == 0 {
		memory = "it has no maxmemory: nonces are bounded by the machine's memory alone"
	}
	return findings("persistence", persistence, "coverage", i.asked.warns[1], "memory", memory)
}

// Examine reads the state of all masters, and returns what each check finds. Servers that
// are out of reach or refuse the user have one finding, reach or rights. It writes nothing.
func (w *Watcher) Examine(ctx context.Context) (all []store.Finding) {
	found, err := w.readMasters(ctx)
	for i := range found {
		info := &found[i]
		for _, f := range slices.Concat(findings("reach", ""), info.demands(), info.settings(), w.present(info)) {
			f.Server = info.addr
			all = append(all, f)
		}
	}
	if err != nil {
		f := store.Finding{Server: w.client.Options.Place(), Check: "reach", Problem: err.Error()}
		if rpc.Refusal("", err) != nil || errors.As(err, new(*rpc.UnfitError)) {
			f.Check = "rights"
		}
		all = append(all, f)
	}
	return all
}

// present returns the findings about the present state of a server.
func (w *Watcher) present(i *serverInfo) []store.Finding {
	clock, writes, replicas := "", "", i.asked.degrades
	if err := i.skew(w.opt.Now()); err != nil {
		clock = err.Error()
	}
	if err := i.refusing(); err != nil {
		writes = err.Error()
	} else if i.nearlyFull() {
		writes = "more than four fifths of maxmemory are used; raise it, or find the client that sends much more than usual"
	}
	if i.role == "master" && i.asked.at.IsZero() {
		replicas = unanswered
	}
	return findings("clock", clock, "writes", writes, "replicas", replicas)
}
