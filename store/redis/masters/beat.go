package masters

import (
	"cmp"
	"context"
	_ "embed"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/card-gateway/card-gateway/store/redis/rpc"
)

// An older copy of the content may take its place while the server goes on, and lacks the
// nonces of the requests since (SWAPDB, RESTORE of everything, DEBUG RELOAD). So there is
// a moment beside the content, the beat, which only rises: with accepted requests to the
// server's time. Each gateway remembers the latest that it has seen in the reply of a
// settle or in a check. A content whose beat is missing or earlier is an older one. It is
// served after its replay floor has risen, which is kept with the beat, so that every
// settle of every gateway reads it.
//
// A script of a cluster sees one slot only, so there each slot has a beat.

// A Beat is that of the content that has a key.
type Beat struct {
	Key  string // of Redis
	at   int    // slot, 0 without a cluster
	seen rpc.Latest
}

// Seen returns the latest that this gateway has seen, in microseconds of the server's
// clock, or 0.
func (b *Beat) Seen() int64 { return b.seen.Load() }

// Note notes a beat that was seen at a moment of this gateway's clock, unless no server
// whose clock fits can have written it.
func (b *Beat) Note(at int64, now time.Time) {
	if at > now.Add(3*MaxSkew).UnixMicro() {
		return
	}
	b.seen.Raise(at)
}

// slotBeats returns one beat for each slot of a cluster.
func slotBeats(names names) []Beat {
	all := make([]Beat, slots)
	for i, tag := range slotTags() {
		all[i].Key, all[i].at = names.prefix+"{"+tag+"}:beat", i
	}
	return all
}

// slotTags returns a hash tag for each slot.
var slotTags = sync.OnceValue(func() *[slots]string {
	var all [slots]string
	for found, i := 0, 0; found < slots; i++ {
		if tag := &all[slot(strconv.Itoa(i))]; *tag == "" {
			*tag = strconv.Itoa(i)
			found++
		}
	}
	return &all
})

// BeatOf returns the beat of the content that has the key.
func (w *Watcher) BeatOf(id string) *Beat {
	if len(w.beats) == 1 {
		return &w.beats[0]
	}
	return &w.beats[slot(id)]
}

// latestBeat returns the latest beat that this gateway has seen in the slots.
func (w *Watcher) latestBeat(of *slotSet) (latest int64) {
	for i := range w.beats {
		if b := &w.beats[i]; len(w.beats) == 1 || of.has(b.at) {
			latest = max(latest, b.Seen())
		}
	}
	return latest
}

var (
	//go:embed beat.lua
	beatLua    string
	beatScript = NewScript(beatLua)
)

// RaiseOlder raises the replay floor of a content that is older than this gateway has
// seen it. A floor that is known already is not raised again if it forbids all that the
// content may lack.
func (w *Watcher) RaiseOlder(ctx context.Context, b *Beat, known int64) error {
	seen := b.Seen()
	reply, err := w.client.Run(ctx, "raising the replay floor", rpc.Call{Script: beatScript, Keys: []string{b.Key}, Args: []any{seen, known}})
	if err != nil {
		return err
	}
	var found, at, floor int64
	if _, err := fmt.Sscan(fmt.Sprintln(reply...), &found, &at, &floor); err != nil {
		return rpc.Unavailable("reading a beat", err)
	}
	b.Note(at, w.opt.Now())
	w.raised.Raise(floor)
	if now := w.opt.Now().Unix(); found < seen && w.lastOlder.Swap(now) != now { // a cluster may lose thousands of slots at once
		w.log.Warn("redis has an older copy of its content; older requests are refused",
			"beat", b.Key, "copy_of", rpc.Moment(found), "seen", rpc.Moment(seen), "replay_floor", rpc.Moment(floor))
	}
	return nil
}

// sweepPause is the time between two sweeps of all slots of a cluster.
const sweepPause = 5 * time.Second

// readBeats reads the beats, so that this gateway knows of the requests that others have
// accepted, and raises the floors of older contents. What cannot be read now is read by a
// later check.
func (w *Watcher) readBeats(ctx context.Context, v *View) {
	if w.client.Cluster != nil && time.Since(w.swept) < sweepPause {
		return
	}
	w.swept = time.Now()
	var first error // one of thousands of slots says enough
	for part := range slices.Chunk(w.beats, 1024) {
		pipe := w.client.Pipeline()
		found := make([]beatReading, len(part))
		for i := range part {
			b := &part[i]
			found[i] = beatReading{b, b.Seen(), pipe.Get(ctx, b.Key)}
		}
		_, _ = pipe.Exec(ctx) // each command holds its error
		for i := range found {
			if ctx.Err() == nil {
				first = cmp.Or(first, w.compare(ctx, &found[i], v))
			}
		}
	}
	v.degrade(first)
	if ctx.Err() != nil {
		w.swept = time.Time{} // the next check goes on
	}
}

// A beatReading is what a check has found of a beat, and what was seen of it before the
// check asked: requests go on meanwhile.
type beatReading struct {
	*Beat
	before int64
	answer *redis.StringCmd
}

// compare notes what was found of a beat, or raises the floor of its content if that is
// older than it was before.
func (w *Watcher) compare(ctx context.Context, b *beatReading, v *View) error {
	text, err := b.answer.Result()
	if err != nil && !errors.Is(err, redis.Nil) {
		return nil
	}
	var at, floor int64
	_, _ = fmt.Sscan(text, &at, &floor) // what is damaged is none
	switch {
	case max(at, floor) > w.opt.Now().Add(maxFloorAhead).UnixMicro():
		return fmt.Errorf("no gateway has written the moment %d (microseconds) in %s: an older copy of the content would not be noticed; delete it", max(at, floor), b.Key)
	case at < b.before:
		return w.RaiseOlder(ctx, b.Beat, v.floorOfSlot(b.at))
	default:
		b.Note(at, w.opt.Now())
		w.raised.Raise(floor)
		return nil
	}
}
