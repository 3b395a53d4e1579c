package redis

import (
	"context"
	"crypto/rand"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/card-gateway/card-gateway/auth"
	"github.com/card-gateway/card-gateway/store"
	"github.com/card-gateway/card-gateway/store/redis/rpc"
	"github.com/card-gateway/card-gateway/tests/redistest"
)

// byHandScript is a script that one could write by hand: it accepts a nonce
// once, clears a failure count, and has a limit per fixed window.
var byHandScript = rpc.NewScript(`
if not redis.call('SET', KEYS[1], '1', 'NX', 'PX', ARGV[1]) then return {'replayed', 0} end
redis.call('DEL', KEYS[2])
local used = redis.call('INCR', KEYS[3])
if used == 1 then redis.call('PEXPIRE', KEYS[3], ARGV[3]) end
if used > tonumber(ARGV[2]) then return {'limited', 0} end
return {'', ARGV[2] - used}`)

// BenchmarkCPUOfRedis measures the processor time of Redis for an accepted
// request, and for the smallest script by hand that does a part of the work.
// Both run in turns. It reports medians in microseconds, as the server counts
// its time: for commands that arrive one by one over 32 connections, and for
// commands that arrive 32 at a time over one.
//
//	go test ./store/redis -run - -bench CPUOfRedis -benchtime 20x
func BenchmarkCPUOfRedis(b *testing.B) {
	p := redistest.Own(b, true)
	s := open(b, Options{Options: rpc.Options{URL: p.URL(), PoolSize: 32}})
	p.Do(b, "script", "load", byHandScript.Source)
	for _, depth := range []int{1, 32} {
		for _, limits := range []int{0, 1, 2} {
			b.Run(fmt.Sprintf("depth %d/limits %d", depth, limits), func(b *testing.B) {
				r := newKey(b, s)
				fillSpans(b, s, r)
				const perRound = 6400
				var settled, byHand []float64
				for b.Loop() {
					settled = append(settled, cpuOf(b, p, perRound, func() { sendAll(b, p, depth, perRound, s.acceptedArgs(b, r, limits)) }))
					byHand = append(byHand, cpuOf(b, p, perRound, func() { sendAll(b, p, depth, perRound, byHandArgs(s, r)) }))
				}
				b.ReportMetric(0, "ns/op")
				b.ReportMetric(median(settled), "settle-us")
				b.ReportMetric(median(byHand), "byhand-us")
				b.ReportMetric(median(settled)/median(byHand), "ratio")
			})
		}
	}
}

// fillSpans gives the key as many nonces as a key has that was in use for the
// whole life of a nonce.
func fillSpans(t testing.TB, s *Store, r *store.Record) {
	t.Helper()
	expect(t, s, newClaim(r), auth.Accepted)
	first, highest := time.Now().UnixMilli()/spanMillis, (time.Now().UnixMilli()+311_000)/spanMillis
	spans := ""
	for span := first; span <= highest; span++ {
		fields := make([]any, 0, 2000)
		for range cap(fields) / 2 {
			var digest [16]byte
			rand.Read(digest[:])
			fields = append(fields, digest[:], spanMillis-1)
		}
		n := s.client.HSet(ctx, s.names.nonces(r.ID, span), fields...)
		if n.Err() != nil {
			t.Fatal(n.Err())
		}
		spans += fmt.Sprintf(" %d %d", span, s.client.HLen(ctx, s.names.nonces(r.ID, span)).Val())
	}
	if err := s.client.HSet(ctx, s.names.record(r.ID), "spans", spans[1:]).Err(); err != nil {
		t.Fatal(err)
	}
}

// acceptedArgs returns a function that makes the command for one request which
// will be accepted.
func (s *Store) acceptedArgs(t testing.TB, r *store.Record, limits int) func() []any {
	return func() []any {
		c := newClaim(r)
		for i := range limits {
			charge(t, c, fmt.Sprint("bucket", i), "1000000000/1s")
		}
		a := attempt{Claim: c, seen: s.servers.View(), lifeWindow: c.Window, maxNonces: 1_000_000, beat: s.servers.BeatOf(r.ID)}
		args := []any{"evalsha", s.settling.SHA, "3", s.names.record(r.ID), s.names.buckets(r.ID), a.beat.Key, random()}
		return append(args, a.args()...)
	}
}

func byHandArgs(s *Store, r *store.Record) func() []any {
	return func() []any {
		tag := "byhand:{" + r.ID + "}:"
		return []any{"evalsha", byHandScript.SHA, "3", tag + "n:" + random(), tag + "f", tag + "l", "311000", "1000000000", "60000"}
	}
}

// sendAll sends n commands, depth at a time on each connection, and checks that
// they were accepted.
func sendAll(t testing.TB, p *redistest.Process, depth, n int, make func() []any) {
	connections := 32
	if depth > 1 {
		connections = 1
	}
	var all sync.WaitGroup
	for range connections {
		all.Go(func() {
			conn := p.Client.Conn()
			defer conn.Close()
			for range n / connections / depth {
				pipe := conn.Pipeline()
				for range depth {
					pipe.Do(ctx, make()...)
				}
				replies, err := pipe.Exec(ctx)
				if err != nil {
					t.Error(err)
					return
				}
				for _, reply := range replies {
					if answer := reply.(*redis.Cmd).Val().([]any); answer[0] != "" && answer[1] != auth.Accepted.String() {
						t.Error(answer...)
					}
				}
			}
		})
	}
	all.Wait()
}

// cpuOf returns the processor time of the server for each of the n commands of
// send, in microseconds.
func cpuOf(t testing.TB, p *redistest.Process, n int, send func()) float64 {
	t.Helper()
	before := usedCPU(t, p)
	send()
	return (usedCPU(t, p) - before) / float64(n)
}

var cpuFields = regexp.MustCompile(`used_cpu_(?:sys|user):([0-9.]+)`)

func usedCPU(t testing.TB, p *redistest.Process) (us float64) {
	t.Helper()
	text, err := p.Client.Info(context.Background(), "cpu").Result()
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range cpuFields.FindAllStringSubmatch(text, -1) {
		seconds, err := strconv.ParseFloat(m[1], 64)
		if err != nil {
			t.Fatal(err)
		}
		us += seconds * 1e6
	}
	return us
}

func median(all []float64) float64 {
	slices.Sort(all)
	return all[len(all)/2]
}

// BenchmarkSharedWrites measures whether calls at the same time should share
// their writes. It compares, in turns, the queue and the pool of the gateway
// with the autopipeliner of go-redis. It reports calls a second, the 99th
// percentile of their time, and the processor time of the server per call.
//
//	go test ./store/redis -run - -bench SharedWrites -benchtime 10x
func BenchmarkSharedWrites(b *testing.B) {
	p := redistest.Own(b, true)
	s := open(b, Options{Options: rpc.Options{URL: p.URL()}})
	piped, err := s.client.UniversalClient.(*redis.Client).AutoPipeline()
	if err != nil {
		b.Fatal(err)
	}
	defer piped.Close()
	ways := map[string]func(rpc.Call) error{
		"pool":  func(c rpc.Call) error { _, err := s.client.Run(ctx, "settling", c); return err },
		"piped": func(c rpc.Call) error { _, err := s.client.RunOn(ctx, piped.Process, c); return err },
	}
	for _, callers := range []int{1, 32, 256} {
		b.Run(fmt.Sprintf("callers %d", callers), func(b *testing.B) {
			r := newKey(b, s)
			found := map[string][][3]float64{}
			for b.Loop() {
				for name, way := range ways {
					found[name] = append(found[name], s.load(b, r, loadOf{p, way, callers}))
				}
			}
			b.ReportMetric(0, "ns/op")
			for name, all := range found {
				for i, unit := range []string{"/s", "-p99-us", "-redis-us"} {
					column := make([]float64, len(all))
					for j := range all {
						column[j] = all[j][i]
					}
					b.ReportMetric(median(column), name+unit)
				}
			}
		})
	}
}

// loadOf describes a load: the server, the way to it, and the number of
// callers.
type loadOf struct {
	p       *redistest.Process
	send    func(rpc.Call) error
	callers int
}

// load settles requests of the key as fast as the callers can, and returns calls
// a second, the 99th percentile of their time and the processor time of the
// server for each, both in microseconds.
func (s *Store) load(b *testing.B, r *store.Record, l loadOf) [3]float64 {
	b.Helper()
	each := max(20, 2000/l.callers)
	times := make([]float64, l.callers*each)
	before, begun := usedCPU(b, l.p), time.Now()
	var all sync.WaitGroup
	for i := range l.callers {
		all.Go(func() {
			for j := range each {
				c := newClaim(r)
				a := attempt{Claim: c, seen: s.servers.View(), lifeWindow: c.Window, beat: s.servers.BeatOf(r.ID)}
				sent := time.Now()
				if err := l.send(rpc.Call{Script: s.settling, Keys: s.settleKeys(&a), Args: a.args()}); err != nil {
					b.Error(err)
					return
				}
				times[i*each+j] = float64(time.Since(sent).Microseconds())
			}
		})
	}
	all.Wait()
	n := float64(len(times))
	slices.Sort(times)
	return [3]float64{n / time.Since(begun).Seconds(), times[len(times)*99/100], (usedCPU(b, l.p) - before) / n}
}

// BenchmarkCPUOfIdleKeys measures the processor time of Redis for the first request
// of a key in a while, for which all spans are read, and for the second, for which
// they are not.
//
//	go test ./store/redis -run - -bench CPUOfIdleKeys -benchtime 5x
func BenchmarkCPUOfIdleKeys(b *testing.B) {
	p := redistest.Own(b, true)
	s := open(b, Options{Options: rpc.Options{URL: p.URL(), PoolSize: 32}})
	var first, second []float64
	for b.Loop() {
		var keys [2000]*store.Record
		for i := range keys {
			keys[i] = newKey(b, s)
		}
		settleAll := func() {
			for _, r := range keys {
				expect(b, s, newClaim(r), auth.Accepted)
			}
		}
		first = append(first, cpuOf(b, p, len(keys), settleAll))
		second = append(second, cpuOf(b, p, len(keys), settleAll))
	}
	b.ReportMetric(0, "ns/op")
	b.ReportMetric(median(first), "first-us")
	b.ReportMetric(median(second), "second-us")
}
