package redis

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/card-gateway/card-gateway/store"
)

// A slow check of the servers delays no request for longer than settling may
// take.
func TestSlowCheckHoldsNoSettle(t *testing.T) {
	s, err := New(Options{URL: "redis://127.0.0.1:1", SettleTimeout: 50 * time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = s.Close() }()
	s.servers.checking.Lock() // a check is under way
	defer s.servers.checking.Unlock()

	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	begun := time.Now()
	if err := s.servers.checkAgain(ctx, s.servers.view.Load()); !errors.Is(err, store.ErrUnavailable) {
		t.Errorf("got %v", err)
	}
	if took := time.Since(begun); took > time.Second {
		t.Errorf("it took %v", took)
	}
}
