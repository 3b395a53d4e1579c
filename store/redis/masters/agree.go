package masters

import (
	"cmp"
	"context"
	"crypto/rand"
	_ "embed"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/card-gateway/card-gateway/store"
	"github.com/card-gateway/card-gateway/store/redis/rpc"
)

var (
	//go:embed server.lua
	serverLua string
	//go:embed adopt.lua
	adoptLua    string
	adoptScript = NewScript(adoptLua)
)

// NewScript returns a script that may use the functions of server.lua: which server
// runs it, and its clock.
func NewScript(source string) *rpc.Script { return rpc.NewScript(serverLua + source) }

// An adoption is the result of a check that is shared with the other gateways.
type adoption struct {
	servers []any // arguments of adopt.lua, five for each
	isNew   bool  // one of them, to this gateway
	raise   bool  // the floor of all to now
}

// adoption returns what this gateway shares about the masters. If a server is new
// and no hand-over from the one before was proved, its floor is at least the latest
// beat that this gateway has seen there.
func (w *Watcher) adoption(masters []serverInfo) adoption {
	var a adoption
	for i := range masters {
		m, exposed, least := &masters[i], w.observations.exposed(masters, i), int64(0)
		if !w.observations.knows(m.identity) || w.client.Cluster == nil && w.observations.last != m.identity {
			a.isNew = true
			if m.from == "" && len(w.observations.slots) > 0 {
				least = w.latestBeat(exposed)
			}
		}
		a.servers = append(a.servers, m.identity, m.from, w.observations.sighted[m.identity].at, least, exposed.String())
	}
	return a
}

// adopt agrees with the other gateways on epoch and floor. If nothing has changed
// it only reads them.
func (w *Watcher) adopt(ctx context.Context, m mode, a adoption, next *View) error {
	before := w.view.Load().epoch
	if !a.raise && !a.isNew {
		if same, err := w.unchanged(ctx, next); same || err != nil {
			return err
		}
	}
	found, err := w.runAdopt(ctx, "", a, next)
	if err != nil {
		return err
	}
	switch {
	case !found && before == "":
		if a.raise, err = w.makeEpochs(ctx, w.proposed); err == nil {
			_, err = w.runAdopt(ctx, w.proposed, a, next)
		}
	case !found && m == mayReplace:
		a.raise = true
		_, err = w.runAdopt(ctx, rand.Text(), a, next)
	case !found:
		w.lost.Store(true)
		err = ErrEmptied
	case before != "" && next.epoch != before: // emptied, and made anew by another gateway
		a.raise = true
		_, err = w.runAdopt(ctx, "", a, next)
	}
	return err
}

// unchanged reports whether the gateways have agreed on nothing that the view lacks.
func (w *Watcher) unchanged(ctx context.Context, known *View) (bool, error) {
	values, err := w.client.HMGet(ctx, w.names.shared(), "epoch", "floor", "fences").Result()
	if err != nil {
		return false, rpc.Unusable("", "checking the store", err)
	}
	if len(values) != 3 {
		return false, fmt.Errorf("%w: redis answered %d values for three fields", store.ErrUnavailable, len(values))
	}
	floor, _ := values[1].(string)
	fenced, _ := values[2].(string)
	if _, err := w.parseFloors(cmp.Or(floor, "0"), fenced); err != nil {
		return false, err // before a script reads it
	}
	return values[0] == any(known.epoch) && cmp.Or(floor, "0") == fmt.Sprint(known.Floor) && fenced == known.fences.String(), nil
}

// parseFloors reads the floor of all slots and those of some. One that no gateway can
// have written makes the servers unfit: a floor never falls, so if it were taken over,
// this gateway would write it back to whoever corrects it.
func (w *Watcher) parseFloors(floor, fenced string) (found View, err error) {
	if found.Floor, err = strconv.ParseInt(floor, 10, 64); err != nil {
		return found, rpc.Unavailable("reading the replay floor", err)
	}
	if found.fences, err = parseFences(fenced); err != nil {
		return found, rpc.Unavailable("reading the fences", err)
	}
	if at := found.Highest(); at > w.opt.Now().Add(maxFloorAhead).UnixMicro() {
		err = &rpc.UnfitError{Problem: fmt.Sprintf("no gateway has written the replay floor %d (microseconds) in the hash %s; remove its fields floor and fences", at, w.names.shared())}
	}
	return found, err
}

// runAdopt runs adopt.lua, and takes over what it replies.
func (w *Watcher) runAdopt(ctx context.Context, epoch string, a adoption, next *View) (bool, error) {
	args := append([]any{epoch, next.Floor, a.raise, next.fences.String()}, a.servers...)
	reply, err := w.client.RunOn(ctx, w.client.Process, rpc.Call{Script: adoptScript, Keys: []string{w.names.shared()}, Args: args})
	if err != nil {
		return false, rpc.Unusable("", "checking the store", err)
	}
	if len(reply) == 0 {
		return false, nil
	}
	values, err := rpc.Texts(reply, 3)
	if err != nil {
		return false, err
	}
	found, err := w.parseFloors(values[1], values[2])
	if err != nil {
		return false, err
	}
	next.epoch, next.Floor, next.fences = values[0], max(next.Floor, found.Floor), found.fences
	return true, nil
}

// The epoch marks a store that is in use, so that a store that lost everything is
// not taken for a new one. On a cluster every range of slots has a copy of it,
// because a single node can be emptied. In a new store the copies are made first and
// the epoch last, so a missing copy beside an epoch is a loss.

// checkEpochs reads the copies on a cluster. It makes missing ones only in mode
// mayReplace.
func (w *Watcher) checkEpochs(ctx context.Context, m mode, next *View) error {
	if w.client.Cluster == nil {
		return nil
	}
	missing, _, err := w.missingEpochs(ctx, w.client.Cluster.Pipeline(), next.epoch)
	if unfit := rpc.Refusal("", err); unfit != nil || len(missing) == 0 {
		return unfit // a node that is out of reach is reported elsewhere
	}
	w.lost.Store(w.lost.Load() || w.view.Load().epoch != "" || m != mayReplace)
	if m != mayReplace {
		next.partial = len(missing) < slotRanges
		return ErrEmptied
	}
	if _, err := w.runAdopt(ctx, "", adoption{raise: true}, next); err != nil {
		return err
	}
	return w.putEpochs(ctx, missing, next.epoch)
}

// makeEpochs makes the copies of a store without an epoch, on a cluster. It makes none
// before all nodes have answered, because one of them may show that the store was in use:
// by a copy that is not of this gateway, or by the list of its keys. Another gateway may
// be making it, so for a while a copy shows nothing.
func (w *Watcher) makeEpochs(ctx context.Context, epoch string) (inUse bool, err error) {
	if w.client.Cluster == nil {
		return false, nil
	}
	pipe := w.client.Cluster.Pipeline()
	keys := pipe.Exists(ctx, w.opt.Index)
	missing, others, err := w.missingEpochs(ctx, pipe, epoch)
	if err = cmp.Or(err, keys.Err()); err != nil {
		return false, beingMade(err)
	}
	if w.halfMade.IsZero() {
		w.halfMade = w.opt.Now()
	}
	switch {
	case keys.Val() > 0, others && w.opt.Now().Sub(w.halfMade) >= halfMadeWait:
		return true, nil
	case others:
		return false, ErrBeingMade
	}
	return false, beingMade(w.putEpochs(ctx, missing, epoch))
}

// halfMadeWait is how long copies without an epoch may be those of a store that another
// gateway makes.
const halfMadeWait = 30 * time.Second

func beingMade(err error) error {
	if unfit := rpc.Refusal("", err); unfit != nil || err == nil {
		return unfit
	}
	return fmt.Errorf("%w: %w", ErrBeingMade, err)
}

func (w *Watcher) putEpochs(ctx context.Context, missing []string, epoch string) error {
	pipe := w.client.Cluster.Pipeline()
	for _, name := range missing {
		pipe.SetArgs(ctx, name, epoch, redis.SetArgs{Mode: "NX"}) // another gateway may have made it
	}
	if _, err := pipe.Exec(ctx); err != nil && !errors.Is(err, redis.Nil) {
		return rpc.Unavailable("making the store", err)
	}
	return nil
}

// missingEpochs executes the pipeline, reads the copies with it, and returns the names of
// the missing ones, and whether there are copies of another epoch. The error is that of a
// node that did not answer, of whose copies none is missing.
func (w *Watcher) missingEpochs(ctx context.Context, pipe redis.Pipeliner, epoch string) (missing []string, others bool, err error) {
	copies := make([]*redis.StringCmd, len(w.epochs))
	for i, name := range w.epochs {
		copies[i] = pipe.Get(ctx, name)
	}
	_, _ = pipe.Exec(ctx) // each command holds its error
	for i, c := range copies {
		if errors.Is(c.Err(), redis.Nil) {
			missing = append(missing, w.epochs[i])
		} else if c.Err() != nil {
			err = c.Err()
		} else {
			others = others || c.Val() != epoch
		}
	}
	return missing, others, err
}

// epochAt returns the epoch of the name's part, or "" if there is none. On a
// cluster the copies are not replaced when another part is emptied, so there only
// their presence matters.
func (w *Watcher) epochAt(ctx context.Context, name string) (string, error) {
	if w.client.Cluster == nil {
		epoch, err := w.client.HGet(ctx, w.names.shared(), "epoch").Result()
		if errors.Is(err, redis.Nil) {
			err = nil
		}
		return epoch, rpc.Unusable("", "checking the store", err)
	}
	copied, found, err := w.client.Value(ctx, w.epochs[slotRange(name)], "get", "")
	if known := w.view.Load().epoch; found && known != "" {
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
// missing. After that its slots are fenced. A demoted server follows within 1 w.
const handOverWait = 2 * time.Second

var errHandOver = fmt.Errorf("%w: another server of redis has taken over; whether it has everything is being found out", store.ErrUnavailable)

// settled returns the masters that may be used, each new one with its predecessor
// if their hand-over is proved. waiting is true if there are others that still
// wait for the proof.
func (w *Watcher) settled(ctx context.Context, masters []serverInfo) (usable []serverInfo, waiting bool) {
	w.observations.sight(masters)
	for _, m := range masters {
		if !w.observations.knows(m.identity) && w.observations.replaced(&m) {
			m.from = w.predecessor(ctx, &m)
			if m.from == "" && time.Since(w.observations.sighted[m.identity].local) < handOverWait {
				waiting = true
				continue
			}
		}
		usable = append(usable, m)
	}
	w.waiting.Store(waiting)
	return usable, waiting
}

// predecessor returns the identity of a server that this gateway has used and
// that has proved that the promoted one has all of its writes, else "".
func (w *Watcher) predecessor(ctx context.Context, promoted *serverInfo) (identity string) {
	for _, addr := range promoted.followers {
		node := w.client.Connect(addr)
		i, err := readInfo(ctx, node, addr)
		_ = node.Close()
		if was := identityOf(i.run, i.replication2); err == nil && i.handedOver(promoted) && w.observations.knows(was) {
			identity = was
		}
	}
	return identity
}

// handedOver reports whether the server was the master before the promoted one,
// follows it now, and had written nothing that the promoted one lacks.
func (i *serverInfo) handedOver(promoted *serverInfo) bool {
	return i.role == "slave" && i.replication == promoted.replication && i.replication2 == promoted.replication2 &&
		0 < i.offset2 && i.offset2 <= promoted.offset2
}
