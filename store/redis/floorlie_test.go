package redis

import (
	"errors"
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/card-gateway/card-gateway/auth"
	"github.com/card-gateway/card-gateway/store"
	"github.com/card-gateway/card-gateway/store/redis/rpc"
)

// A replay floor in the far future, which no gateway has written, stops the store
// with its reason and is not taken over. When it is gone, all is as before.
func TestFloorThatNoGatewayWrites(t *testing.T) {
	far := time.Now().Add(30*24*time.Hour + time.Hour).UnixMicro()
	for name, wrong := range map[string]map[string]any{
		"floor":        {"floor": far},
		"largest":      {"floor": int64(math.MaxInt64)},
		"fence":        {"fences": fmt.Sprint("0-100=", far)},
		"other fences": {"fences": fmt.Sprint("0-1=1 2-16383=", far)},
	} {
		t.Run(name, func(t *testing.T) {
			s := open(t, single(t))
			r := newKey(t, s)
			expect(t, s, newClaim(r), auth.Accepted)
			if err := s.client.HSet(ctx, s.names.shared(), wrong).Err(); err != nil {
				t.Fatal(err)
			}
			for range 2 {
				var unfit *rpc.UnfitError
				if err := check(s); !errors.As(err, &unfit) || !strings.Contains(err.Error(), s.names.shared()) {
					t.Errorf("%v, want an UnfitError with the name of the key", err)
				}
				if _, err := s.Settle(ctx, newClaim(r)); !errors.Is(err, store.ErrUnavailable) {
					t.Errorf("Settle: %v", err)
				}
			}
			if err := s.client.HDel(ctx, s.names.shared(), "floor", "fences").Err(); err != nil {
				t.Fatal(err)
			}
			if err := check(s); err != nil {
				t.Errorf("after it is gone: %v", err)
			}
			expect(t, s, newClaim(r), auth.Accepted)
			if floor := s.servers.View().Highest(); floor > time.Now().UnixMicro() {
				t.Errorf("the floor is %v", rpc.Moment(floor))
			}
		})
	}
}
