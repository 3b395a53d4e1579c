package redis

import (
	"fmt"
	"testing"

	"pgregory.net/rapid"

	"github.com/card-gateway/card-gateway/store/redis/rpc"
)

// Lua keeps every digit of whole numbers up to 2^53: when they are packed, read
// from a decimal and written as one.
func TestNumbersInLua(t *testing.T) {
	s := open(t, single(t))
	script := rpc.NewScript(`return {ARGV[1], string.format('%d', struct.unpack('<d', ARGV[2])), string.format('%d', ARGV[3] + 0), (struct.unpack('<d', ARGV[2]))}`)
	const most = 1 << 53
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.OneOf(rapid.Int64Range(-most, most), rapid.SampledFrom([]int64{0, 1, -1, most, -most, most - 1, 1e15, 1e16 / 2})).Draw(t, "n")
		reply, err := s.client.Run(ctx, "counting", rpc.Call{Script: script, Keys: []string{s.names.index()}, Args: []any{packDoubles(n), n}})
		if err != nil {
			t.Fatal(err)
		}
		if got, want := fmt.Sprint(reply...), fmt.Sprint(fmt.Sprint(n), fmt.Sprint(n), n); got != want {
			t.Fatalf("%s, want %s", got, want)
		}
	})
}
