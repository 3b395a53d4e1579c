package masters

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/card-gateway/card-gateway/store/redis/rpc"
)

// A View is the known state of the servers. It is replaced, never changed.
type View struct {
	Known string // identities of the masters, as settle.lua compares them
	Floor int64  // replay floor of all keys in microseconds, without replay_floor_ahead; 0: none

	fences  fences // replay floors of some slots
	epoch   string // of the store; empty until it was seen
	making  bool   // the copies of the epoch are being made: the store is new
	created bool   // the check that made this view made the epoch
	problem error  // why the store is not ready
	// Troubles of a ready store: of requests of some keys, or of changes of keys.
	degraded []string
	partial  bool   // there may be other masters
	unfit    bool   // the problem forbids every settle
	emptied  uint64 // a bit for each range of slots that lost everything; without a cluster all or none
}

// Forbids returns why no request of the key may be settled, or nil. An emptied
// part of the store may be restored without its latest nonces, so its keys are not
// served until a check has raised the floor.
func (v *View) Forbids(id string) error {
	switch {
	case v.unfit:
		return v.problem
	case v.making:
		return ErrBeingMade
	case v.emptied != 0 && v.emptied&(1<<slotRange(id)) != 0:
		return ErrEmptied
	default:
		return nil
	}
}

// FloorOf returns the replay floor of a key, or 0 if there is none.
func (v *View) FloorOf(id string) int64 {
	if len(v.fences) == 0 {
		return v.Floor
	}
	return max(v.Floor, v.fences.at(slot(id)))
}

// Highest returns the latest of all floors.
func (v *View) Highest() int64 {
	floor := v.Floor
	for i := range v.fences {
		floor = max(floor, v.fences[i].at)
	}
	return floor
}

func (v *View) equal(o *View) bool {
	return v.Known == o.Known && v.Floor == o.Floor && slices.Equal(v.fences, o.fences) && v.epoch == o.epoch && v.making == o.making && v.unfit == o.unfit && v.emptied == o.emptied && slices.Equal(v.degraded, o.degraded) &&
		fmt.Sprint(v.problem) == fmt.Sprint(o.problem)
}

// degrade notes trouble that leaves the store ready.
func (v *View) degrade(err error) {
	if err != nil {
		v.degraded = append(v.degraded, err.Error())
	}
}

// conclude returns the first problem if no master accepts requests. Otherwise all
// problems degrade the store.
func (v *View) conclude(usable []serverInfo, problems []error) error {
	accepting := 0
	for i := range usable {
		if problem := usable[i].refusing(); problem != nil {
			problems = append(problems, problem)
		} else {
			accepting++
		}
	}
	if accepting == 0 {
		return problems[0]
	}
	for _, problem := range problems {
		v.degrade(problem)
	}
	return nil
}

// servesWithout reports whether requests can be accepted although the servers as a
// whole have the error: on a cluster, if another master holds the shared state, or
// another part was emptied, but not while the store is being made.
func (v *View) servesWithout(err error) bool {
	var unfit *rpc.UnfitError
	return v.Known != "" && v.partial && !v.making && !errors.As(err, &unfit) && v.emptied != math.MaxUint64
}

// observations are what this gateway has found out about the servers since it started.
type observations struct {
	slots       map[string]*slotSet // of the servers that were used, by identity
	last        string              // identity of the master; used without a cluster
	sighted     map[string]sighting
	counted     map[string]int64  // by run, keys evicted as of the last check
	evicted     map[string]int64  // the same, when the floor was last raised for it
	replay      map[string]string // by identity, the result of checkReplay
	replayAsked time.Time
	emptied     bool // the store, or a part of it, was emptied, and no floor was raised since
	clocks      clocks
}

func newObservations() observations {
	return observations{
		slots: map[string]*slotSet{}, sighted: map[string]sighting{}, counted: map[string]int64{}, evicted: map[string]int64{},
		clocks: clocks{readings: map[string]clockReading{}, setBack: map[string]bool{}},
	}
}

// remember notes that the other gateways know the result of the check.
func (m *observations) remember(masters []serverInfo) {
	for i := range masters {
		m.last = masters[i].identity
		m.slots[m.last] = masters[i].slots
		delete(m.clocks.setBack, masters[i].run)
	}
	maps.Copy(m.evicted, m.counted)
}

// knows reports whether this gateway has used the server.
func (m *observations) knows(identity string) bool {
	_, found := m.slots[identity]
	return found
}

// exposed returns the slots in which a master may lack nonces: all except those
// that another master serves and served before.
func (m *observations) exposed(masters []serverInfo, master int) *slotSet {
	left := allSlots()
	for i := range masters {
		if before := m.slots[masters[i].identity]; i != master && before != nil {
			left = left.without(masters[i].slots, before)
		}
	}
	return left
}

// evictedMore reports whether the server has evicted anything that the other
// gateways do not know of.
func (m *observations) evictedMore(i *serverInfo) bool {
	m.counted[i.run] = i.evicted
	if _, known := m.evicted[i.run]; !known {
		m.evicted[i.run] = i.evicted
	}
	return i.evicted > m.evicted[i.run]
}

// A sighting is when a server was first seen.
type sighting struct {
	at    int64 // by its own clock, microseconds
	local time.Time
}

// sight notes when the servers that are new to this gateway were first seen.
func (m *observations) sight(masters []serverInfo) {
	for i := range masters {
		if _, found := m.sighted[masters[i].identity]; !found {
			m.sighted[masters[i].identity] = sighting{masters[i].now.UnixMicro(), time.Now()}
		}
	}
}

// replaced reports whether the server continues the history of one that this
// gateway has used.
func (m *observations) replaced(i *serverInfo) bool {
	for identity := range m.slots {
		if _, replication, _ := strings.Cut(identity, "."); strings.HasPrefix(i.replication2, replication) {
			return true
		}
	}
	return false
}

// acceptances holds when this gateway last accepted a request, for each range of
// slots, in microseconds of the server's clock. Without a cluster only the first
// range is used. What was accepted on other masters does not matter when a master is
// lost, and goes on meanwhile.
type acceptances [slotRanges]atomic.Int64

// note notes an acceptance in a range.
func (a *acceptances) note(at int, now int64) {
	for {
		known := a[at].Load()
		if now <= known || a[at].CompareAndSwap(known, now) {
			return
		}
	}
}

// latest returns the last acceptance in all ranges that have a slot of the set, or
// 0 if there was none.
func (a *acceptances) latest(of *slotSet) (last int64) {
	for i := range a {
		if of.hasOf(i) {
			last = max(last, a[i].Load())
		}
	}
	return last
}

// If a server's clock was ahead, nonces have expired too early. This is noticed
// when the clock goes back. A clock that cannot be set shows whose clock it was:
// the time since this process began. So a gateway whose own clock is wrong refuses
// alone, and does not raise the floor for all.

// clockReading is a lower bound of how far a server's clock is ahead of the time
// since this process began.
type clockReading struct {
	ahead time.Duration // since 1970
	at    time.Duration // since this process began
}

// A clock may fall back by one part in maxDrift of the passed time without having
// been set; NTP slows a clock down by at most 0.05 %.
const maxDrift = 100

// clocks are the servers' clocks as a gateway has read them.
type clocks struct {
	readings map[string]clockReading // by run
	setBack  map[string]bool         // by run: its clock was set back, and the other gateways do not know yet
}

// read notes the servers whose clocks were set back by more than MaxSkew since the
// last reading.
func (c *clocks) read(masters []serverInfo) {
	for i := range masters {
		server := &masters[i]
		if server.now.IsZero() {
			continue
		}
		clock := time.Duration(server.now.UnixNano())
		before, found := c.readings[server.run]
		least := before.ahead - (server.answered-before.at)/maxDrift
		if found && clock-server.asked < least-MaxSkew { // however long the answer was on its way
			c.setBack[server.run] = true
			found = false
		}
		now := clockReading{clock - server.answered, server.answered}
		if found {
			now.ahead = max(now.ahead, least)
		}
		c.readings[server.run] = now
	}
}

// maxFloorAhead is how far a floor may be ahead of this gateway's clock. Gateways
// raise floors to the time of servers whose clock is right, so MaxSkew would do; what
// is damaged is further away than a month.
const maxFloorAhead = 30 * 24 * time.Hour

// A lastRun keeps what a gateway must know after its process has ended: which servers
// it has used, and until when it has accepted requests on them. It is a small
// file in the runtime directory. The servers cannot keep it: if a gateway was cut
// off together with an old master, it could write only there, and that write is
// lost with the nonces.
//
// One process uses the file of a lastRun. The file holds a moment a little in the future, so that
// it is written a few times a second and not with every request.
type lastRun struct {
	path string // empty: there is no runtime directory
	log  *slog.Logger

	until   atomic.Int64 // as in the file
	problem atomic.Pointer[string]

	mu   sync.Mutex // guards what follows
	note runNote
}

// runNote is the content of the file.
type runNote struct {
	Accepted int64             `json:"accepted"` // no later acceptance was made; server's clock, microseconds
	Servers  map[string]string `json:"servers"`  // their slots by their identities
}

// noteAhead is how far the moment in the file is after an acceptance.
const noteAhead = 250 * time.Millisecond

func newLastRun(client *rpc.Client, opt *Options) *lastRun {
	m := &lastRun{log: client.Options.Logger}
	m.problem.Store(new(string))
	if opt.RuntimeDir != "" {
		sum := sha256.Sum256([]byte(client.Options.Place() + " " + opt.Prefix))
		m.path = filepath.Join(opt.RuntimeDir, "card-gateway-redis-"+hex.EncodeToString(sum[:8])+".mark")
	}
	return m
}

// read returns the content of the file from the process before. A missing or
// damaged file counts as if there had been no process before.
func (m *lastRun) read() runNote {
	var found runNote
	if m.path == "" {
		return found
	}
	text, err := os.ReadFile(m.path)
	if errors.Is(err, os.ErrNotExist) {
		return found
	}
	if err == nil {
		err = json.Unmarshal(text, &found)
	}
	if err == nil && found.Accepted > time.Now().Add(maxFloorAhead).UnixMicro() {
		err = fmt.Errorf("%s has the moment %d (microseconds), which no gateway writes", m.path, found.Accepted)
	}
	if err != nil {
		m.report(fmt.Errorf("reading what this gateway has accepted on redis: %w", err))
		return runNote{}
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.note = found
	m.until.Store(found.Accepted)
	return found
}

// accepted notes an acceptance at now, in microseconds. If now is after the moment
// in the file, it writes the file before the request is answered.
func (m *lastRun) accepted(now int64) {
	if now <= m.until.Load() || m.path == "" {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if now > m.until.Load() {
		m.note.Accepted = now + noteAhead.Microseconds()
		m.writeLocked()
		m.until.Store(m.note.Accepted)
	}
}

// used writes the servers that are used from now on.
func (m *lastRun) used(masters []serverInfo) {
	if m.path == "" {
		return
	}
	served := make(map[string]string, len(masters))
	for i := range masters {
		served[masters[i].identity] = masters[i].slots.String()
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if !maps.Equal(m.note.Servers, served) {
		m.note.Servers = served
		m.writeLocked()
	}
}

// writeLocked replaces the file as a whole.
func (m *lastRun) writeLocked() {
	text, err := json.Marshal(m.note)
	if err == nil {
		err = errors.Join(os.MkdirAll(filepath.Dir(m.path), 0o700), os.WriteFile(m.path+".new", text, 0o600))
	}
	if err == nil {
		err = os.Rename(m.path+".new", m.path)
	}
	m.report(err)
}

// report notes the current problem of the file; nil clears it.
func (m *lastRun) report(err error) {
	text := ""
	if err != nil {
		text = fmt.Sprintf("what this gateway accepts is not known after its end: %v", err)
	}
	if before := m.problem.Swap(&text); *before != text && text != "" {
		m.log.Error("the runtime directory cannot be used", "problem", text)
	}
}
