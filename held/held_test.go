package held

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/card-gateway/card-gateway/auth"
)

// failing is a body that returns some bytes and then an error.
type failing struct {
	io.Reader
	err error
}

func (f failing) Read(p []byte) (int, error) {
	n, err := f.Reader.Read(p)
	if err == io.EOF {
		err = f.err
	}
	return n, err
}

// reader returns a Receiver on the memory. Its look reports that every body is
// worth holding.
func reader(m *Memory, max int64) *Receiver {
	return &Receiver{
		Max: max, Timeout: time.Minute, Memory: m.Reserve(Caller(&auth.Key{ID: "k1"}, netip.MustParseAddr("192.0.2.1"))),
		Look: func() (bool, *auth.Refusal) { return true, nil },
	}
}

// expectUnused fails the test if some of the memory was not released.
func expectUnused(t *testing.T, m *Memory) {
	t.Helper()
	if holders := m.Largest(9); m.Used() != 0 || len(holders) != 0 {
		t.Errorf("%d bytes are held, by %v", m.Used(), holders)
	}
}

func post(body io.Reader, length int64) *http.Request {
	r := httptest.NewRequest("POST", "/", body)
	r.ContentLength = length
	return r
}

func TestBodyReader(t *testing.T) {
	content := strings.Repeat("0123456789abcdef", 1<<14) // 256 KiB, four blocks
	size := int64(len(content))
	whole := func() io.Reader { return strings.NewReader(content) }
	broken := func(err error) func() io.Reader {
		return func() io.Reader { return failing{strings.NewReader("ab"), err} }
	}
	worth := func() (bool, *auth.Refusal) { return true, nil }
	for _, c := range []struct {
		name   string
		body   func() io.Reader
		length int64
		max    int64
		reason auth.Reason
	}{
		{"known length", whole, size, size, auth.Accepted},
		{"one byte too many", whole, size, size - 1, auth.BodyTooLarge},
		{"chunked", whole, -1, size, auth.Accepted},
		{"chunked, one too many", whole, -1, size - 1, auth.BodyTooLarge},
		{"deadline", broken(os.ErrDeadlineExceeded), size, size, auth.BodyTimeout},
		{"cut short", broken(io.ErrUnexpectedEOF), size, size, auth.MalformedRequest},
		{"cut short, as over HTTP/3", broken(io.EOF), size, size, auth.MalformedRequest},
		{"a byte short, as over HTTP/3", whole, size + 1, size + 1, auth.MalformedRequest},
		{"bad framing", broken(errors.New("malformed chunked encoding")), -1, size, auth.MalformedRequest},
	} {
		for how, look := range map[string]func() (bool, *auth.Refusal){
			"kept": worth, "unproven": nil, "not worth it": func() (bool, *auth.Refusal) { return false, nil },
		} {
			t.Run(c.name+", "+how, func(t *testing.T) {
				m := NewMemory("body_budget", 1<<20, 1, 1)
				br := reader(m, c.max)
				br.Look = look
				got, refusal := br.Receive(httptest.NewRecorder(), post(c.body(), c.length))
				if reason := reasonOf(refusal); reason != c.reason {
					t.Fatalf("got %v, want %v", reason, c.reason)
				}
				kept := how == "kept"
				if refusal == nil && (got.Sum != sha256.Sum256([]byte(content)) || kept != (string(got.Body.Contiguous()) == content)) {
					t.Error("other bytes")
				}
				got.Body.Release()
				expectUnused(t, m)
			})
		}
	}
}

func reasonOf(refusal *auth.Refusal) auth.Reason {
	if refusal == nil {
		return auth.Accepted
	}
	return refusal.Reason
}

// TestHeldBody draws sizes of bodies and reads, around the limits of slices and
// blocks: the forwarded bytes are the received ones, and the counted memory is
// the memory that is held.
func TestHeldBody(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		edge := rapid.SampledFrom([]int64{1, quickRead, firstRead, lookFrom, blockSize, 2 * blockSize, 5 * blockSize}).Draw(rt, "edge")
		size := max(1, edge+rapid.Int64Range(-2, 2).Draw(rt, "off"))
		content := make([]byte, size)
		for i := range content {
			content[i] = byte(i / 7)
		}
		length := rapid.SampledFrom([]int64{size, -1}).Draw(rt, "length")
		m := NewMemory("body_budget", 1<<20, 1, 1)
		part := rapid.IntRange(1, 1<<16).Draw(rt, "part")
		br := reader(m, size)
		br.Pooled = rapid.Bool().Draw(rt, "pooled")
		got, refusal := br.Receive(httptest.NewRecorder(), post(&parts{bytes.NewReader(content), part}, length))
		if refusal != nil || got.Sum != sha256.Sum256(content) {
			rt.Fatalf("%v, or another hash", refusal)
		}
		if held := m.Used(); held < size || held > Rounded(size)+blockSize {
			rt.Fatalf("%d bytes are counted for a body of %d", held, size)
		}
		r := httptest.NewRequest("POST", "/", nil)
		got.Body.ForwardTo(r)
		forwarded, err := io.ReadAll(&parts{r.Body, part})
		if err != nil || !bytes.Equal(forwarded, content) || r.ContentLength != size || r.Header.Get("Content-Length") != strconv.FormatInt(size, 10) {
			rt.Fatalf("forwarded %d of %d bytes, %v", len(forwarded), size, err)
		}
		if size > lookFrom || br.Pooled {
			_ = r.Body.Close() // the issuer has it
			if m.Used() != 0 {
				rt.Fatalf("%d bytes are counted after the issuer has the body", m.Used())
			}
			if n, err := r.Body.Read(make([]byte, 1)); n != 0 || err == nil {
				rt.Fatal("a body that was given back can be read")
			}
		}
		got.Body.Release()
		if m.Used() != 0 {
			rt.Fatalf("%d bytes are lost", m.Used())
		}
	})
}

// parts reads a bounded number of bytes at a time.
type parts struct {
	io.Reader
	most int
}

func (p *parts) Read(b []byte) (int, error) { return p.Reader.Read(b[:min(len(b), p.most)]) }

// TestSharesOfBodyMemory: neither a key, an address of a tenant nor a tenant gets more
// than its share, others are not affected, and the log names the holder.
func TestSharesOfBodyMemory(t *testing.T) {
	m := NewMemory("body_budget", 2<<20, 1.0/8, 1.0/4)
	var held []*Reservation
	take := func(tenant, key, address, holder string) {
		t.Helper()
		r := m.Reserve(Caller(&auth.Key{ID: key, Tenant: tenant}, netip.MustParseAddr(address)))
		refusal := r.Grow(256 << 10)
		held = append(held, &r)
		switch {
		case holder == "" && refusal != nil:
			t.Fatal(refusal.Log)
		case holder != "" && (reasonOf(refusal) != auth.OverBudget || !strings.HasSuffix(refusal.Log, "holder "+holder) || refusal.RetryAfter <= 0):
			t.Errorf("%s from %s: %+v", key, address, refusal)
		}
	}
	take("greedy", "g1", "192.0.2.1", "")
	take("greedy", "g1", "192.0.2.9", "g1")
	take("greedy", "g2", "192.0.2.1", "")
	take("greedy", "g3", "192.0.2.1", "192.0.2.1/32")
	for i := range 4 { // all but the kept parts
		take("greedy", fmt.Sprint("h", i), fmt.Sprint("192.0.2.", 10+i), "")
	}
	take("greedy", "last", "192.0.2.90", "greedy")
	take("", "alone", "192.0.2.1", "")
	take("", "beside", "192.0.2.1", "")
	take("", "late", "192.0.2.90", "alone") // all hold the same
	held[0].Release()
	held[2].Release()
	take("greedy", "last", "192.0.2.90", "greedy") // it holds more than half, and is not alone
	if top := m.Largest(1); len(top) != 1 || top[0] != (KeyHolder{Key: "alone", Bytes: 256 << 10}) {
		t.Errorf("the Largest holder is %v", top)
	}
	for _, r := range held {
		r.Release()
		r.Release()
	}
	expectUnused(t, m)
}

// What is reserved ahead is used first, comes back with the rest, and moves as a whole.
func TestReservedAhead(t *testing.T) {
	m := NewMemory("answer_budget", 1<<20, 1, 1)
	expect := func(want int64) {
		t.Helper()
		if m.Used() != want {
			t.Errorf("%d bytes are held, want %d", m.Used(), want)
		}
	}
	first := m.Reserve(Caller(&auth.Key{ID: "k1"}, netip.Addr{}))
	for range 2 { // two handlers may ask for it
		if refusal := first.Ahead(100); refusal != nil {
			t.Fatal(refusal)
		}
	}
	body := NewBody(first.Move())
	first.Release()
	expect(100)
	if refusal := body.Begin(60); refusal != nil {
		t.Fatal(refusal)
	}
	expect(100)
	if _ = body.Write(make([]byte, 30)); body.ReserveCopies(2) != nil {
		t.Fatal("no room for copies")
	}
	expect(120)
	body.Settle()
	expect(120)
	body.Release()
	expectUnused(t, m)
	second := m.Reserve(Caller(&auth.Key{ID: "k1"}, netip.Addr{}))
	if refusal := second.Ahead(1 << 20); reasonOf(refusal) != auth.OverBudget {
		t.Error("a start leaves nothing to what has started")
	}
	if refusal := second.Ahead(100); refusal != nil {
		t.Fatal(refusal)
	}
	empty := NewBody(second.Move())
	empty.Settle()
	expect(0)
}

// TestLookBeforeHolding: look is called once, before more than lookFrom is held,
// before the reader waits for an announced large body, and when memory is scarce.
// It is not called for a small body that has arrived.
func TestLookBeforeHolding(t *testing.T) {
	small, large := strings.Repeat("x", 1000), strings.Repeat("x", 3*blockSize)
	for _, c := range []struct {
		name   string
		body   string
		length int64
		scarce bool
		looks  int
		atMost int64 // bytes held when it looks
	}{
		{"small", small, 1000, false, 0, 0},
		{"small, chunked", small, -1, false, 0, 0},
		{"announced large", large, 3 * blockSize, false, 1, 0},
		{"grows large", large, -1, false, 1, lookFrom},
		{"small, memory scarce", small, 1000, true, 1, 600 << 10},
	} {
		m := NewMemory("body_budget", 1<<20, 1, 1)
		if c.scarce {
			other := m.Reserve(Caller(&auth.Key{ID: "other"}, netip.MustParseAddr("192.0.2.7")))
			if refusal := other.Grow(600 << 10); refusal != nil {
				t.Fatal(refusal)
			}
		}
		looks := 0
		br := reader(m, 1<<20)
		br.Look = func() (bool, *auth.Refusal) {
			looks++
			if held := m.Used(); held > c.atMost {
				t.Errorf("%s: %d bytes are held when it looks", c.name, held)
			}
			return true, nil
		}
		got, refusal := br.Receive(httptest.NewRecorder(), post(strings.NewReader(c.body), c.length))
		if refusal != nil || looks != c.looks {
			t.Errorf("%s: %d looks, want %d; %v", c.name, looks, c.looks, refusal)
		}
		got.Body.Release()
	}
}

// If a body does not arrive at once, look is called before the reader waits
// longer. Afterwards the reader holds nothing if the request is not worth it.
func TestLookWhileWaiting(t *testing.T) {
	m := NewMemory("body_budget", 1<<20, 1, 1)
	looked := make(chan struct{})
	br := reader(m, 1<<20)
	br.Look = func() (bool, *auth.Refusal) {
		close(looked)
		return false, nil
	}
	in, out := io.Pipe()
	go func() {
		_, _ = out.Write([]byte("a"))
		time.Sleep(2 * lookAfter) // longer is as good: the reader waits for the next byte
		_, _ = out.Write([]byte("b"))
		<-looked
		_, _ = out.Write(make([]byte, 4096))
		if held := m.Used(); held != 0 {
			t.Errorf("%d bytes are held of a body that is not worth it", held)
		}
		_ = out.Close()
	}()
	got, refusal := br.Receive(httptest.NewRecorder(), post(in, -1))
	if want := sha256.Sum256(append([]byte("ab"), make([]byte, 4096)...)); refusal != nil || got.Body != nil || got.Sum != want {
		t.Errorf("%+v, %v", got, refusal)
	}
}

// deadlines notes the read deadlines that are set.
type deadlines struct {
	http.ResponseWriter
	read []time.Time
}

func (d *deadlines) SetReadDeadline(until time.Time) error {
	d.read = append(d.read, until)
	return nil
}

// A body must arrive at the least rate, and all of it within its time.
func TestLeastRate(t *testing.T) {
	set := &deadlines{ResponseWriter: httptest.NewRecorder()}
	br := &arrival{timeout: 30 * time.Second, began: time.Unix(1e9, 0), w: set}
	br.until = br.began.Add(arrivalGrace)
	for _, n := range []int{1, leastRate, 10 * leastRate, 100 * leastRate} {
		br.arrived(n)
	}
	var after []time.Duration
	for _, until := range set.read {
		after = append(after, until.Sub(br.began))
	}
	grace := arrivalGrace + time.Second/leastRate
	want := []time.Duration{grace, grace + time.Second, grace + 11*time.Second, 30 * time.Second}
	if !slices.Equal(after, want) {
		t.Errorf("deadlines %v, want %v", after, want)
	}
}

// Every request with a body makes a Reservation, so a Reservation must not
// allocate.
func TestReservationAllocatesNothing(t *testing.T) {
	m := NewMemory("body_budget", 1<<20, 1.0/8, 1.0/4)
	key, client := &auth.Key{ID: "k1", Tenant: "acme"}, netip.MustParseAddr("2001:db8:1:2::1")
	reserve := func() {
		r := m.Reserve(Caller(key, client))
		if refusal := r.Grow(1 << 10); refusal != nil {
			t.Fatal(refusal)
		}
		r.Release()
	}
	if n := testing.AllocsPerRun(100, reserve); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

func TestSetBody(t *testing.T) {
	r := httptest.NewRequest("POST", "/", strings.NewReader("old"))
	r.TransferEncoding = []string{"chunked"}
	r.Trailer = http.Header{"X-T": nil}
	SetBody(r, []byte("newer"))
	if r.ContentLength != 5 || r.Header.Get("Content-Length") != "5" || r.TransferEncoding != nil || r.Trailer != nil || r.GetBody != nil {
		t.Errorf("got %+v", r)
	}
	SetBody(r, nil)
	if r.ContentLength != 0 || r.Header.Get("Content-Length") != "" || r.Body != http.NoBody {
		t.Errorf("got %+v", r)
	}
}
