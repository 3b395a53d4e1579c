package redis

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/card-gateway/card-gateway/store"
)

// Status returns the place of the store, the result of the last check, and what an
// operator should change: in Details, "degraded" lists current troubles of a ready
// store, "warnings" possible ones, and "gateways" those that the last comparison of
// policies found. It does no I/O.
func (s *Store) Status(ctx context.Context) store.Status {
	v := s.servers.view.Load()
	status := store.Status{Backend: "redis", Place: s.opt.place(), Ready: true}
	if err := s.Ready(ctx); err != nil {
		status.Ready, status.Problem = false, err.Error()
	}
	found := *s.servers.masters.Load()
	troubles := append([]string{}, v.degraded...)
	if slices.ContainsFunc(found, func(i serverInfo) bool { return i.nearFull() }) {
		troubles = append(troubles, "nonces")
	}
	servers := make([]map[string]any, len(found))
	for i := range found {
		info := &found[i]
		servers[i] = map[string]any{
			"address": info.addr, "version": info.version, "replicas": info.replicas,
			"used_memory": info.usedMemory, "max_memory": info.maxMemory,
		}
	}
	differences := *s.policies.warnings.Load()
	status.Details = map[string]any{
		"topology": s.opt.topology(), "servers": servers, "gateways": *s.policies.nodes.Load(),
		"warnings": append(s.warnings(found), differences...), "degraded": troubles,
	}
	if len(differences) > 0 {
		status.Details["policy_differences"] = len(differences)
	}
	if own := s.policies.own.Load(); own != nil {
		status.Details["policy"] = own.Hash()
	}
	if floor := v.highest(); floor > 0 {
		status.Details["replay_floor"] = moment(floor)
	}
	return status
}

// warnings lists what an operator should change, without differences between
// gateways.
func (s *Store) warnings(found []serverInfo) []string {
	list := []string{}
	warn := func(format string, args ...any) { list = append(list, fmt.Sprintf(format, args...)) }
	for i := range found {
		info := &found[i]
		if !info.persistent {
			warn("%s keeps no append-only file: a restart loses keys, nonces and locks (set appendonly yes)", info.addr)
		}
		if !info.guarded && (info.replicas > 0 || s.opt.topology() == topologySentinel) {
			warn("%s goes on without its replicas: after a network cut, two masters may accept the same request (set min-replicas-to-write 1 and min-replicas-max-lag 3)", info.addr)
		}
		if ahead := time.Duration(s.ahead.Load()); info.replicas > 0 && 0 < ahead && ahead < maxLag+time.Second {
			warn("replay_floor_ahead is %v: set it to at least %v where masters have replicas, which is how long one that is cut off may go on", ahead, maxLag+time.Second)
		}
		if info.forgets != "" {
			warn("%s: %s", info.addr, info.forgets)
		}
		if info.maxMemory == 0 {
			warn("%s has no maxmemory: nonces are bounded by the machine's memory alone", info.addr)
		}
	}
	if s.opt.RuntimeDir == "" && s.opt.topology() != topologySingle {
		warn("there is no runtime directory: after a network cut and the end of this process, it is not known what it accepted on a master that was replaced")
	}
	if problem := *s.servers.mark.problem.Load(); problem != "" {
		warn("%s", problem)
	}
	return list
}
