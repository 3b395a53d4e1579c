package rpc

import (
	"context"
	"testing"

	"github.com/card-gateway/card-gateway/tests/redistest"
)

var ctx = context.Background()

func TestMain(m *testing.M) { redistest.Main(m) }

// newClient returns a client that ends with the test.
func newClient(t testing.TB, opt Options) *Client {
	t.Helper()
	c, err := New(opt)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	return c
}
