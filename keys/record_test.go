package keys

import (
	"errors"
	"strings"
	"testing"

	"github.com/card-gateway/card-gateway/keys/keyring"
	"github.com/card-gateway/card-gateway/store"
)

// TestRecordWithoutRevisionIsNoKey: without its revision, a decision on the key
// could not be refused as stale.
func TestRecordWithoutRevisionIsNoKey(t *testing.T) {
	r := &store.Record{ID: "a", Fields: store.Fields{Tenant: "a", Scopes: []string{"*"}}}
	if key, err := new(Service).open(r); key != nil || !errors.Is(err, keyring.ErrDamaged) || !strings.Contains(err.Error(), "revision") {
		t.Errorf("got %v, %v", key, err)
	}
}
