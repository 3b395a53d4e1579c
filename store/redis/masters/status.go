package masters

import (
	"fmt"
	"slices"
	"time"

	"github.com/card-gateway/card-gateway/store"
	"github.com/card-gateway/card-gateway/store/redis/rpc"
)

// Details returns the part of the status that is about the servers. ahead is how far
// requests must be after the replay floor, or 0 if that is not known.
func (w *Watcher) Details(ahead time.Duration) store.Details {
	v, found := w.view.Load(), *w.masters.Load()
	d := store.Details{
		Topology: w.client.Options.Topology(), Servers: make([]store.Server, len(found)), Degraded: append([]string{}, v.degraded...),
		Warnings: w.warnings(found, ahead), ReplayFloor: rpc.Moment(max(v.Highest(), 0)),
	}
	if slices.ContainsFunc(found, func(i serverInfo) bool { return i.nearFull() }) {
		d.Degraded = append(d.Degraded, "nonces")
	}
	for i := range found {
		info := &found[i]
		d.Servers[i] = store.Server{
			Address: info.addr, Version: info.version, Replicas: info.replicas,
			UsedMemory: info.usedMemory, MaxMemory: info.maxMemory,
		}
	}
	return d
}

// warnings lists what an operator should change.
func (w *Watcher) warnings(found []serverInfo, ahead time.Duration) []string {
	topology := w.client.Options.Topology()
	list := []string{}
	warn := func(format string, args ...any) { list = append(list, fmt.Sprintf(format, args...)) }
	for i := range found {
		info := &found[i]
		if !info.persistent {
			warn("%s keeps no append-only file: a restart loses keys, nonces and locks (set appendonly yes)", info.addr)
		}
		if !info.guarded && (info.replicas > 0 || topology == rpc.Sentinel) {
			warn("%s goes on without its replicas: after a network cut, two masters may accept the same request (set min-replicas-to-write 1 and min-replicas-max-lag 3)", info.addr)
		}
		if info.replicas > 0 && 0 < ahead && ahead < MaxLag+time.Second {
			warn("replay_floor_ahead is %v: set it to at least %v where masters have replicas, which is how long one that is cut off may go on", ahead, MaxLag+time.Second)
		}
		if info.forgets != "" {
			warn("%s: %s", info.addr, info.forgets)
		}
		if info.maxMemory == 0 {
			warn("%s has no maxmemory: nonces are bounded by the machine's memory alone", info.addr)
		}
	}
	if w.opt.RuntimeDir == "" && topology != rpc.Single {
		warn("there is no runtime directory: after a network cut and the end of this process, it is not known what it accepted on a master that was replaced")
	}
	if problem := *w.lastRun.problem.Load(); problem != "" {
		warn("%s", problem)
	}
	return list
}
