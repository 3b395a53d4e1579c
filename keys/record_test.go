package keys

import (
	"errors"
	"strings"
	"testing"

	"github.com/card-gateway/card-gateway/store"
)

// TestRecordWithoutRevisionIsNoKey: without its revision, a decision on the key
// could not be refused as stale.
func TestRecordWithoutRevisionIsNoKey(t *testing.T) {
	r := &store.Record{ID: "a", Fields: store.Fields{Tenant: "a", Scopes: []string{"*"}}}
	if key, err := new(Service).open(r); key != nil || !errors.Is(err, ErrDamaged) || !strings.Contains(err.Error(), "revision") {
		t.Errorf("got %v, %v", key, err)
	}
}

// TestEveryByteOfAnIDIsRandom: each of the 16 bytes takes many values.
func TestEveryByteOfAnIDIsRandom(t *testing.T) {
	ids := NewIDKey()
	var seen [idRandom]map[byte]bool
	for range 64 {
		_, raw, ok := splitID(ids.Mint(Live))
		if !ok {
			t.Fatal("a minted id is malformed")
		}
		for i := range seen {
			if seen[i] == nil {
				seen[i] = make(map[byte]bool)
			}
			seen[i][raw[i]] = true
		}
	}
	for i, values := range seen {
		if len(values) < 32 { // 64 draws give 57 values on average
			t.Errorf("byte %d took %d values in 64 ids", i, len(values))
		}
	}
}
