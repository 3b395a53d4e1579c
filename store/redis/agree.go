package redis

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/card-gateway/card-gateway/store"
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
		one := adopted{identity: m.identity, from: m.from, seen: s.observations.sighted[m.identity].at, raise: s.observations.evictedMore(m) || s.observations.clocks.setBack[m.run]}
		one.isNew = !s.observations.knows(m.identity) || s.cluster == nil && s.observations.last != m.identity
		one.slots = s.observations.exposed(masters, i)
		if one.isNew && m.from == "" && len(s.observations.slots) > 0 {
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
	case !found && m == mayReplace:
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
		return false, unusable("", "checking the store", err)
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
		return false, unusable("", "checking the store", err)
	}
	if len(reply) == 0 {
		next.making = false
		return false, nil
	}
	values, err := texts(reply, 4)
	if err != nil {
		return false, err
	}
	next.epoch = values[0]
	found, fences, err := s.parseFloors(values[1], values[2])
	if err != nil {
		return false, err
	}
	next.floor, next.fences, next.making = max(next.floor, found), fences, values[3] != ""
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

// The epoch marks a store that is in use, so that a store that lost everything is
// not taken for a new one. On a cluster every range of slots has a copy of it,
// because a single node can be emptied.
//
// The copies of a new store cannot be made in one step. So the epoch is written
// together with the note that its copies are being made. While the note is there,
// no key is written and nothing is settled, and every check of every gateway goes on
// making copies. So an emptied node has lost nothing then.

// checkEpochs reads the copies on a cluster. It makes missing copies in a new
// store, and in mode mayReplace also in an emptied one.
func (s *servers) checkEpochs(ctx context.Context, m mode, next *view) error {
	if s.cluster == nil {
		return nil
	}
	if next.making {
		if inUse, err := s.makeEpochs(ctx, next); err != nil || !inUse {
			return err
		}
	}
	firstSeen := m == mayBegin && s.view.Load().epoch == ""
	missing, err := s.missingEpochs(ctx, next)
	if err != nil || len(missing) == 0 {
		return err
	}
	// Versions that did not note it have an epoch without any copy in a new store.
	if m != mayReplace && !(firstSeen && len(missing) == slotRanges) {
		return errEmptied
	}
	if m == mayReplace {
		s.lost.Store(s.lost.Load() || s.view.Load().epoch != "")
		if _, err := s.runAdopt(ctx, "", adoption{raise: true}, next); err != nil {
			return err
		}
	}
	return s.putEpochs(ctx, missing, next.epoch)
}

// makeEpochs makes the missing copies of a new store, and removes the note when all
// are there. It makes none before all nodes have answered, because one of them may
// show that the store was in use: by a copy of another epoch, or by the list of its
// keys. Then it only removes the note. Unless the epoch is of this check, the floor
// rises with that, because a gateway of a version that does not know the note may
// have accepted requests.
func (s *servers) makeEpochs(ctx context.Context, next *view) (inUse bool, err error) {
	pipe := s.cluster.Pipeline()
	keys := pipe.Exists(ctx, s.names.index())
	copies := s.readEpochs(ctx, pipe)
	inUse, err = keys.Val() > 0, keys.Err()
	var missing []string
	for _, c := range copies {
		switch {
		case errors.Is(c.Err(), redis.Nil):
			missing = append(missing, c.name)
		case c.Err() != nil:
			err = c.Err()
		default:
			inUse = inUse || c.Val() != next.epoch
		}
	}
	if !inUse {
		if err == nil {
			err = s.putEpochs(ctx, missing, next.epoch)
		}
		if unfit := refusal("", err); unfit != nil {
			return false, unfit
		} else if err != nil {
			return false, fmt.Errorf("%w: %w", errBeingMade, err)
		}
	}
	if _, err = s.runAdopt(ctx, "", adoption{made: next.epoch, raise: !next.created}, next); err == nil && next.making {
		err = errBeingMade // anew
	}
	return inUse, err
}

func (s *servers) putEpochs(ctx context.Context, missing []string, epoch string) error {
	for _, name := range missing {
		stored, _, err := s.value(ctx, name, "put", epoch)
		if err != nil {
			return err
		}
		if string(stored) != epoch {
			return fmt.Errorf("%w: another gateway makes the store new", store.ErrUnavailable)
		}
	}
	return nil
}

// An epochCopy is the answer about one copy: [redis.Nil] if it is missing.
type epochCopy struct {
	name string
	*redis.StringCmd
}

// readEpochs executes the pipeline and reads the copies with it, in the order of
// their ranges.
func (s *servers) readEpochs(ctx context.Context, pipe redis.Pipeliner) []epochCopy {
	copies := make([]epochCopy, 0, slotRanges)
	for _, name := range s.names.epochs() {
		copies = append(copies, epochCopy{name, pipe.Get(ctx, name)})
	}
	_, _ = pipe.Exec(ctx) // each command holds its error
	return copies
}

// missingEpochs returns the names of the missing copies, and notes their ranges in
// the view. For a node that is out of reach it keeps the last known state. Without
// a cluster there are no copies, and the whole store is one range.
func (s *servers) missingEpochs(ctx context.Context, next *view) ([]string, error) {
	if s.cluster == nil {
		next.emptied = math.MaxUint64
		return nil, nil
	}
	var missing []string
	for i, c := range s.readEpochs(ctx, s.cluster.Pipeline()) {
		err := c.Err()
		if unfit := refusal("", err); unfit != nil {
			return nil, unfit
		}
		switch {
		case errors.Is(err, redis.Nil):
			missing = append(missing, c.name)
			next.emptied |= 1 << i
		case err == nil:
			next.emptied &^= 1 << i
		}
	}
	return missing, nil
}

// epochAt returns the epoch of the name's part, or "" if there is none. On a
// cluster the copies are not replaced when another part is emptied, so there only
// their presence matters.
func (s *servers) epochAt(ctx context.Context, name string) (string, error) {
	if s.cluster == nil {
		var found view
		_, err := s.runAdopt(ctx, "", adoption{}, &found)
		return found.epoch, err
	}
	copied, found, err := s.value(ctx, s.names.epochs()[slotRange(name)], "get", "")
	if known := s.view.Load().epoch; found && known != "" {
		return known, err
	}
	return string(copied), err
}

// A planned failover loses nothing, and the two servers can prove it. The
// promoted one keeps the old replication id as its second one, with the offset
// up to which it holds that history. The demoted one, still the same run, does
// the same when it continues from the promoted one: its offset is where its own
// writes ended. If that is not above the other, everything that was ever
// acknowledged under the old identity is on the promoted server.

// handOverWait is how long a promoted server is not used while that proof is
// missing. After that its slots are fenced. A demoted server follows within 1 s.
const handOverWait = 2 * time.Second

var errHandOver = fmt.Errorf("%w: another server of redis has taken over; whether it has everything is being found out", store.ErrUnavailable)

// settled returns the masters that may be used, each new one with its predecessor
// if their hand-over is proved. waiting is true if there are others that still
// wait for the proof.
func (s *servers) settled(ctx context.Context, masters []serverInfo) (usable []serverInfo, waiting bool) {
	s.observations.sight(masters)
	for _, m := range masters {
		if !s.observations.knows(m.identity) && s.observations.replaced(&m) {
			m.from = s.predecessor(ctx, &m)
			if m.from == "" && time.Since(s.observations.sighted[m.identity].local) < handOverWait {
				waiting = true
				continue
			}
		}
		usable = append(usable, m)
	}
	s.waiting.Store(waiting)
	return usable, waiting
}

// predecessor returns the identity of a server that this gateway has used and
// that has proved that the promoted one has all of its writes, else "".
func (s *servers) predecessor(ctx context.Context, promoted *serverInfo) (identity string) {
	var mu sync.Mutex
	ask := func(ctx context.Context, node *redis.Client) error {
		i, err := readInfo(ctx, node)
		if err != nil || !i.handedOver(promoted) {
			return nil // no proof
		}
		was := identityOf(i.run, i.replication2)
		mu.Lock()
		defer mu.Unlock()
		if s.observations.knows(was) {
			identity = was
		}
		return nil
	}
	if s.cluster != nil {
		_ = s.cluster.ForEachSlave(ctx, ask)
		return identity
	}
	for _, addr := range promoted.followers {
		node := s.connect(addr)
		_ = ask(ctx, node)
		_ = node.Close()
	}
	return identity
}

// handedOver reports whether the server was the master before the promoted one,
// follows it now, and had written nothing that the promoted one lacks.
func (i *serverInfo) handedOver(promoted *serverInfo) bool {
	return i.role == "slave" && i.replication == promoted.replication && i.replication2 == promoted.replication2 &&
		0 < i.offset2 && i.offset2 <= promoted.offset2
}
