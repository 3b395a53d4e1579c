package redis

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// An adoption is the result of a check that is shared with the other gateways.
type adoption struct {
	servers []adopted
	raise   bool   // the floor of all to now
	making  bool   // a new epoch is noted as one whose copies are being made
	made    string // the epoch for which this note is removed; empty: none
}

// adopted is the part of an adoption about one server.
type adopted struct {
	identity string
	from     string // the identity that handed everything over to it
	seen     int64  // when it was first seen
	least    int64  // floor of its slots
	raise    bool   // that floor to now
	slots    *slotSet
	isNew    bool // to this gateway
}

// adoption returns what this gateway shares about the masters. If a server is new
// and no hand-over from the one before was proved, its floor is at least this
// gateway's own last acceptance there.
func (s *servers) adoption(masters []serverInfo) adoption {
	var a adoption
	for i := range masters {
		m := &masters[i]
		one := adopted{identity: m.identity, from: m.from, seen: s.memory.sighted[m.identity].at, raise: s.memory.evictedMore(m) || s.memory.clocks.setBack[m.run]}
		one.isNew = !s.memory.identities[m.identity] || s.cluster == nil && s.memory.last != m.identity
		one.slots = s.memory.exposed(masters, i)
		if one.isNew && m.from == "" && len(s.memory.identities) > 0 {
			one.least = s.accepts.latest(one.slots)
		}
		a.servers = append(a.servers, one)
	}
	return a
}

// nothingNew reports whether the adoption would change nothing.
func (a *adoption) nothingNew() bool {
	return !a.raise && !slices.ContainsFunc(a.servers, func(o adopted) bool { return o.isNew || o.raise })
}

// args returns the arguments of adopt.lua after the epoch.
func (a *adoption) args(next *view) []any {
	args := []any{decimal(next.floor), bit(a.raise), next.fences.String(), bit(a.making), a.made}
	for _, o := range a.servers {
		least := decimal(o.least)
		if o.raise {
			least = "now"
		}
		args = append(args, o.identity, o.from, decimal(o.seen), least, o.slots.String())
	}
	return args
}

// joinIdentities returns the masters' identities in the form that settle.lua
// compares.
func joinIdentities(masters []serverInfo) string {
	all := make([]string, len(masters))
	for i := range masters {
		all[i] = masters[i].identity
	}
	return strings.Join(all, ",")
}

// adopt agrees with the other gateways on epoch and floor. If nothing has changed
// it only reads them.
func (s *servers) adopt(ctx context.Context, m mode, a adoption, next *view) error {
	before := s.view.Load().epoch
	if a.nothingNew() {
		if ok, err := s.readFloor(ctx, next); ok || err != nil {
			return err
		}
	}
	found, err := s.runAdopt(ctx, "", a, next)
	if err != nil {
		return err
	}
	switch {
	case !found && before == "":
		a.making = s.cluster != nil
		proposed := randomHex(8)
		_, err = s.runAdopt(ctx, proposed, a, next)
		next.created = next.epoch == proposed
	case !found && m == mayCreate:
		a.raise = true
		_, err = s.runAdopt(ctx, randomHex(8), a, next)
	case !found:
		err = errEmptied
	case before != "" && next.epoch != before: // emptied, and made anew by another gateway
		a.raise = true
		_, err = s.runAdopt(ctx, "", a, next)
	}
	return err
}

// readFloor adopts a floor that another gateway has raised. It returns false if
// the epoch is not that of the view.
func (s *servers) readFloor(ctx context.Context, next *view) (bool, error) {
	values, err := s.client.HMGet(ctx, s.names.shared(), "epoch", "floor", "fences", "making").Result()
	if err != nil {
		if unfit := refusal("", err); unfit != nil {
			return false, unfit
		}
		return false, unavailable("checking the store", err)
	}
	if len(values) != 4 || next.epoch == "" || values[0] != any(next.epoch) {
		return false, nil
	}
	floor, _ := values[1].(string)
	fenced, _ := values[2].(string)
	found, more, err := s.parseFloors(cmp.Or(floor, "0"), fenced)
	if err != nil {
		return false, err
	}
	next.floor, next.fences = max(next.floor, found), next.fences.and(more)
	next.making = values[3] != nil
	return true, nil
}

func (s *servers) runAdopt(ctx context.Context, epoch string, a adoption, next *view) (bool, error) {
	args := append([]any{epoch}, a.args(next)...)
	reply, err := s.runOn(ctx, s.client, call{script: adoptScript, keys: []string{s.names.shared()}, args: args})
	if err != nil {
		if unfit := refusal("", err); unfit != nil {
			return false, unfit
		}
		return false, unavailable("checking the store", err)
	}
	if len(reply) == 0 {
		next.making = false
		return false, nil
	}
	if next.epoch, err = text(reply, 0); err != nil {
		return false, err
	}
	floor, err := text(reply, 1)
	if err != nil {
		return false, err
	}
	fenced, err := text(reply, 2)
	if err != nil {
		return false, err
	}
	making, err := text(reply, 3)
	if err != nil {
		return false, err
	}
	found, fences, err := s.parseFloors(floor, fenced)
	if err != nil {
		return false, err
	}
	next.floor, next.fences, next.making = max(next.floor, found), fences, making != ""
	return true, nil
}

// parseFloors reads the floor of all slots and those of some. One that no gateway can
// have written makes the servers unfit: a floor never falls, so if it were taken over,
// this gateway would write it back to whoever corrects it.
func (s *servers) parseFloors(floor, fenced string) (int64, fences, error) {
	found := view{}
	var err error
	if found.floor, err = strconv.ParseInt(floor, 10, 64); err != nil {
		return 0, nil, unavailable("reading the replay floor", err)
	}
	if found.fences, err = parseFences(fenced); err != nil {
		return 0, nil, unavailable("reading the fences", err)
	}
	if at := found.highest(); at > s.now().Add(maxFloorAhead).UnixMicro() {
		return 0, nil, &UnfitError{Problem: fmt.Sprintf("no gateway has written the replay floor %d (microseconds) in the hash %s; remove its fields floor and fences", at, s.names.shared())}
	}
	return found.floor, found.fences, nil
}
