package file

import (
	"testing"

	"pgregory.net/rapid"
)

// TestNonces compares the table with a map over random histories. They have
// enough nonces that pages split, and enough dead ones that pages shrink.
func TestNonces(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		type life struct{ stamp, death int64 }
		var table nonces
		want := map[[16]byte]life{}
		now, serial, forgotten := int64(1000), uint64(0), int64(0)
		slotOf := func(n uint64, stamp, death int64) ([16]byte, nonceSlot) {
			digest := [16]byte{byte(n), byte(n >> 8), byte(n >> 16), byte(n >> 24), 8: byte(n * 31)}
			return digest, makeSlot(&digest, stamp, death)
		}
		check := func(n uint64) {
			digest, slot := slotOf(n, 0, 1)
			got, ok := table.find(&slot), want[digest]
			switch {
			case got == nil && ok.death > now:
				t.Fatalf("nonce %d is missing, it lives until %d and now is %d", n, ok.death, now)
			case got == nil && ok.stamp > forgotten:
				t.Fatalf("nonce %d of stamp %d was dropped, and only %d was told", n, ok.stamp, forgotten)
			case got != nil && (int64(got.death) != ok.death || int64(got.stamp) != ok.stamp || got.digest() != digest):
				t.Fatalf("found %+v, want %+v", got, ok)
			}
		}
		t.Repeat(map[string]func(*rapid.T){
			"insert": func(t *rapid.T) {
				for range rapid.IntRange(1, 3000).Draw(t, "how many") {
					serial++
					stamp := now + int64(serial%600) - 300
					death := now + 10 + int64(serial*7%600)
					digest, slot := slotOf(serial, stamp, death)
					forgotten = max(forgotten, int64(table.insert(slot, uint32(now))))
					want[digest] = life{stamp, death}
				}
			},
			"wait": func(t *rapid.T) { now += rapid.Int64Range(0, 400).Draw(t, "for") },
			"sweep": func(*rapid.T) {
				for i, more := 0, true; more; i++ {
					var dropped uint32
					_, dropped, more = table.sweep(i, uint32(now))
					forgotten = max(forgotten, int64(dropped))
				}
			},
			"": func(t *rapid.T) {
				// A few hundred of them, others each time: all would take a minute.
				step := serial/300 + 1
				for n := rapid.Uint64Range(1, step).Draw(t, "from"); n <= serial; n += step {
					check(n)
				}
				count := 0
				table.each(func(nonceSlot) { count++ })
				if count != table.count {
					t.Fatalf("%d nonces, the count says %d", count, table.count)
				}
			},
		})
	})
}

// TestNoncesGiveBack: the memory of dead nonces is released.
func TestNoncesGiveBack(t *testing.T) {
	var table nonces
	for n := range uint64(100_000) {
		digest := [16]byte{byte(n), byte(n >> 8), byte(n >> 16)}
		table.insert(makeSlot(&digest, 1, 100), 1)
	}
	for i, more := 0, true; more; i++ {
		_, _, more = table.sweep(i, 100)
	}
	if table.count != 0 || table.directory != nil {
		t.Fatalf("%d nonces and %d pages are left", table.count, len(table.directory))
	}
}
