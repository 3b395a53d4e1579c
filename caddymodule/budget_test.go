package caddymodule

import (
	"io"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/card-gateway/card-gateway/auth"
)

// An announced length takes of the budget what has come of it, about, and not
// all of it in advance.
func TestAnnouncedBodyTakesNoBudget(t *testing.T) {
	const announced = 1 << 20
	for _, sent := range []int64{0, 1, firstRead, firstRead + 1, announced / 3, announced - 1, announced} {
		b := &budget{limit: announced}
		reader := bodyReader{budget: b, max: announced, timeout: time.Second, keep: true}
		in, out := io.Pipe()
		r := httptest.NewRequest("POST", "/", in)
		r.ContentLength = announced
		var held int64
		go func() {
			_, _ = out.Write(make([]byte, sent))
			held = b.used.Load()
			_ = out.CloseWithError(io.ErrUnexpectedEOF)
		}()
		got, refusal := reader.read(httptest.NewRecorder(), r)
		if sent == announced {
			if refusal != nil || len(got.bytes) != announced || b.used.Load() != announced {
				t.Errorf("the whole body: %v, %d bytes of the budget", refusal, b.used.Load())
			}
			continue
		}
		if reasonOf(refusal) != auth.MalformedRequest || held > max(firstRead, 2*sent) || b.used.Load() != 0 {
			t.Errorf("%d bytes sent: %v, %d of the budget held, then %d", sent, refusal, held, b.used.Load())
		}
	}
}
