package share

import (
	"context"
	"fmt"
	"net/netip"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// drawCaller returns a caller of one of some tenants.
func drawCaller(t *rapid.T, tenants int) *Caller {
	tenant := fmt.Sprint("t", rapid.IntRange(1, tenants).Draw(t, "tenant"))
	return &Caller{
		Tenant: tenant, Key: fmt.Sprint(tenant, "k", rapid.IntRange(1, 9).Draw(t, "key")),
		Address: netip.PrefixFrom(netip.AddrFrom4([4]byte{192, 0, 2, byte(rapid.IntRange(1, 5).Draw(t, "address"))}), 32),
	}
}

// TestOneTenantLeavesTheRest draws what one tenant with nine keys and five addresses
// takes: never more than all but the kept part, and then a key of another tenant that
// holds nothing gets its whole share, and the first tenant nothing more until it holds
// less than half.
func TestOneTenantLeavesTheRest(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		r := Rule{Limit: rapid.Int64Range(16, 4096).Draw(t, "limit")}
		if rapid.Bool().Draw(t, "keys have shares") {
			r.Key = rapid.Int64Range(1, r.Limit/2).Draw(t, "share of a key")
			r.Address = rapid.Int64Range(1, r.Limit).Draw(t, "share of an address")
		}
		p := NewPool(r)
		stages := rapid.SampledFrom([]Stage{Starting, Started})
		var held int64
		for range rapid.IntRange(1, 100).Draw(t, "requests") {
			if n := rapid.Int64Range(1, 1+r.Limit/8).Draw(t, "n"); p.Take(drawCaller(t, 1), n, stages.Draw(t, "stage")) == Granted {
				held += n
			}
		}
		if held != p.Used() || held > r.Limit-p.kept {
			t.Fatalf("%d are held and %d counted, of %d", held, p.Used(), r.Limit)
		}
		other := &Caller{Tenant: "other", Key: "o1"}
		part := p.kept
		if r.Key > 0 {
			part = min(part, r.Key, r.Address)
		}
		if got := p.Take(other, part, Started); got != Granted {
			t.Fatalf("the other gets no %d of %d: level %d", part, r.Limit, got)
		}
		if half := (r.Limit + 1) / 2; held >= half && p.Take(drawCaller(t, 1), 1, Started) == Granted {
			t.Fatalf("a tenant with %d of %d gets more, although it is not alone", held, r.Limit)
		}
		p.Give(other, part)
		if p.Used() != held || len(p.tenants) > 1 || len(p.keys) > 9 || len(p.addresses) > 5 {
			t.Fatal("something is left of the other")
		}
	})
}

// TestKeysOfOneTenant: whatever nine keys of a tenant take, a tenth that holds nothing gets
// a little.
func TestKeysOfOneTenant(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		r := Rule{Limit: rapid.Int64Range(4096, 1<<20).Draw(t, "limit")}
		little := max(1, r.Limit*7/8/8/16)
		if rapid.Bool().Draw(t, "keys have shares") {
			r.Key = rapid.Int64Range(2, r.Limit/8).Draw(t, "share of a key")
			r.Address = rapid.Int64Range(2, r.Limit).Draw(t, "share of an address")
			little = min(little, r.Key/2, r.Address/2)
		}
		p := NewPool(r)
		stages := rapid.SampledFrom([]Stage{Starting, Started})
		for range rapid.IntRange(1, 100).Draw(t, "requests") {
			p.Take(drawCaller(t, 1), rapid.Int64Range(1, 1+r.Limit/8).Draw(t, "n"), stages.Draw(t, "stage"))
		}
		for i := range 9 { // and all that is left
			c := &Caller{Tenant: "t1", Key: fmt.Sprint("t1k", i+1), Address: netip.PrefixFrom(netip.IPv6Unspecified(), i)}
			for n := r.Limit; n > 0; n /= 2 {
				p.Take(c, n, Started)
			}
		}
		if got := p.Take(&Caller{Tenant: "t1", Key: "idle"}, little, Started); got != Granted {
			t.Fatalf("the tenth key gets no %d of %d, of which %d are used: level %d", little, r.Limit, p.Used(), got)
		}
	})
}

// TestKeyMayHoldItsShare, even if that is more than a tenant may hold otherwise.
func TestKeyMayHoldItsShare(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		limit := rapid.Int64Range(1, 4096).Draw(t, "limit")
		key := rapid.Int64Range(1, limit).Draw(t, "share of a key")
		p := NewPool(Rule{Limit: limit, Key: key, Address: limit})
		if rapid.Bool().Draw(t, "not alone") && key < limit {
			p.Take(&Caller{Tenant: "other"}, min(limit-key, p.kept), Started)
		}
		if got := p.Take(&Caller{Tenant: "t", Key: "k"}, key, Started); got != Granted {
			t.Fatalf("level %d refuses %d of %d", got, key, limit)
		}
		if p.Take(&Caller{Tenant: "t", Key: "k"}, 1, Started) == Granted {
			t.Fatal("a key has more than its share")
		}
	})
}

// fill takes units one by one until no more is given.
func fill(p *Pool, c *Caller, s Stage) {
	for got := Granted; got == Granted; {
		got = p.Take(c, 1, s)
	}
}

// TestStartsLeaveRoomToGrow lets tenants start as many requests as they may. Each tenant
// can then use the quarter that starts have left.
func TestStartsLeaveRoomToGrow(t *testing.T) {
	p := NewPool(Rule{Limit: 1024, Key: 256, Address: 512})
	for _, tenant := range []string{"t1", "t2"} {
		c := &Caller{Tenant: tenant, Key: tenant}
		fill(p, c, Starting)
		if got := p.keys[tenant]; got != 192 {
			t.Errorf("%s has started %d, want three quarters of its share", tenant, got)
		}
		if got := p.Take(c, 64, Started); got != Granted {
			t.Errorf("%s cannot grow: level %d", tenant, got)
		}
	}
	for i := range 3 {
		fill(p, &Caller{Tenant: "t1", Key: fmt.Sprint(i)}, Started)
	}
	newcomer := &Caller{Tenant: "t3", Key: "n"}
	fill(p, newcomer, Starting)
	if got := p.Take(newcomer, 64, Started); p.keys["n"] != 256 || got != Granted {
		t.Errorf("a newcomer has started %d, and then gets level %d", p.keys["n"]-64, got)
	}
}

// TestWaitingInTurn: a unit that comes back goes to the first that may have it: to one
// that holds nothing, then to one that holds less than half.
func TestWaitingInTurn(t *testing.T) {
	p := NewPool(Rule{Limit: 8})
	greedy, other, third := &Caller{Tenant: "greedy"}, &Caller{Tenant: "other"}, &Caller{Tenant: "third"}
	for range 7 {
		if p.Take(greedy, 1, Started) != Granted {
			t.Fatal("a tenant that is alone gets less than all but the kept one")
		}
	}
	if p.Take(other, 1, Started) != Granted {
		t.Fatal("the kept one is not for another tenant")
	}
	got := make(chan *Caller)
	for i, c := range []*Caller{greedy, other, third} {
		go func() {
			if p.Wait(t.Context(), c) == Granted {
				got <- c
			}
		}()
		for waiting := 0; waiting <= i; { // until it is in line
			p.mu.Lock()
			waiting = len(p.waiting)
			p.mu.Unlock()
		}
	}
	for _, step := range []struct {
		given int
		to    *Caller
	}{{1, third}, {2, other}, {1, greedy}} {
		for range step.given {
			p.Give(greedy, 1)
		}
		if c := <-got; c != step.to {
			t.Errorf("%s gets a unit before %s", c.Tenant, step.to.Tenant)
		}
	}
	if p.Used() != 7 || len(p.waiting) > 0 {
		t.Errorf("%d are held, and %d wait", p.Used(), len(p.waiting))
	}
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	if p.Wait(gone, greedy) == Granted || p.tenants["greedy"] != (tenant{held: 4}) {
		t.Errorf("a tenant with half gets more, or waits for ever: %v", p.tenants["greedy"])
	}
}

// TestGatewayItself uses all that is left.
func TestGatewayItself(t *testing.T) {
	p := NewPool(Rule{Limit: 2})
	none := new(Caller)
	if p.Take(none, 2, Starting) != Granted || p.Take(none, 1, Started) != Whole {
		t.Error("the gateway itself gets less or more than all")
	}
	bounded, cancel := context.WithTimeout(t.Context(), time.Millisecond)
	defer cancel()
	if p.Wait(bounded, none) != Whole {
		t.Error("more is given than there is")
	}
	p.Give(none, 2)
	if p.Used() != 0 {
		t.Errorf("%d are still held", p.Used())
	}
}
