package harness

import (
	"bufio"
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"net"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"
)

// A witness reads all bytes that the clients of the tests send, and all requests that
// reach an [Upstream]. By the published rules alone, and with no code of the
// gateway, it decides whether each of these may be there: whether a client has sent
// it, correctly signed by the key that it arrives for, and no more often than with
// different nonces.
type witness struct {
	mu      sync.Mutex
	secrets map[string][]string // by key id
	owners  map[string]*Gateway // by key id
	nonces  map[[2]string]*sentNonce
	sent    map[sentTo][]*sentRequest
	asserts []string // the lines of all key files of assertions
}

// sentTo is what must be the same in what is sent and what arrives.
type sentTo struct{ key, method, target string }

// A sentNonce is a nonce of a key, which may arrive once.
type sentNonce struct {
	arrived bool
	uses    int // how many correctly signed requests have it
}

// A sentRequest is a correctly signed request that has been sent.
type sentRequest struct {
	nonce *sentNonce
	body  string // its hash
	stamp int64
	at    time.Time // when it was sent
}

var theWitness = &witness{
	secrets: make(map[string][]string), owners: make(map[string]*Gateway),
	nonces: make(map[[2]string]*sentNonce), sent: make(map[sentTo][]*sentRequest),
}

// knows tells the witness of a secret of a key.
func (w *witness) knows(g *Gateway, key, secret string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if g != nil {
		w.owners[key] = g
	}
	if secret != "" {
		w.secrets[key] = append(w.secrets[key], secret)
	}
}

// Knows tells what checks the requests behind the gateway of a new secret of a key
// that the holder of the key has got.
func Knows(c Credentials) Credentials {
	theWitness.knows(nil, c.ID, c.Secret)
	return c
}

// Sent tells what checks the requests behind the gateway of a signed request that is
// sent by other means than a [Wire]. It returns the request.
func Sent(r *Request) *Request {
	theWitness.sees(&Received{Line: r.Method + " " + r.Target + " HTTP/1.1", Headers: r.Headers, Body: r.Body})
	return r
}

// knowsAssertions tells the witness of a key file of assertions.
func (w *witness) knowsAssertions(lines string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.asserts = append(w.asserts, strings.Fields(lines)...)
}

// maxUnread is the most bytes of an incomplete request that the witness keeps.
const maxUnread = 64 << 20

// A watched connection shows the witness what it sends.
type watched struct {
	net.Conn
	mu     sync.Mutex
	unread []byte
	lost   bool // what it sends is not HTTP
}

// Write sends bytes that the witness has seen.
func (c *watched) Write(p []byte) (int, error) {
	c.mu.Lock()
	c.see(p)
	c.mu.Unlock()
	return c.Conn.Write(p)
}

func (c *watched) see(p []byte) {
	if c.lost {
		return
	}
	c.unread = append(c.unread, p...)
	for len(c.unread) > 0 {
		in := bytes.NewReader(c.unread)
		buffered := bufio.NewReader(in)
		r, err := readRequest(buffered)
		if err != nil {
			break
		}
		c.unread = c.unread[len(c.unread)-in.Len()-buffered.Buffered():]
		theWitness.sees(r)
	}
	if len(c.unread) > maxUnread {
		c.lost, c.unread = true, nil
	}
}

// sees notes a request, if it is correctly signed.
func (w *witness) sees(r *Received) {
	words := strings.Split(r.Line, " ")
	if len(words) != 3 {
		return
	}
	sent := &Request{Method: words[0], Target: words[1], Headers: r.Headers}
	for _, name := range []string{"X-API-Key", "X-Timestamp", "X-Nonce", "X-Body-Hash", "X-Signature"} {
		if values := r.Values(name); len(values) != 1 || values[0] == "" {
			return
		}
	}
	key, stamp := sent.Value("X-API-Key"), sent.Value("X-Timestamp")
	var unix int64
	if n, err := fmt.Sscanf(stamp, "%d", &unix); n != 1 || err != nil || len(stamp) != 10 || sent.Value("X-Body-Hash") != BodyHash(r.Body) {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	signedBy := func(secret string) bool {
		return base64.StdEncoding.EncodeToString(sent.Digest(secret)) == sent.Value("X-Signature")
	}
	if !slices.ContainsFunc(w.secrets[key], signedBy) {
		return
	}
	nonce := w.nonces[[2]string{key, sent.Value("X-Nonce")}]
	if nonce == nil {
		nonce = new(sentNonce)
		w.nonces[[2]string{key, sent.Value("X-Nonce")}] = nonce
	}
	to := sentTo{key, sent.Method, plural(sent.Target)}
	body := sent.Value("X-Body-Hash")
	if slices.ContainsFunc(w.sent[to], func(s *sentRequest) bool { return s.nonce == nonce && s.body == body && s.stamp == unix }) {
		return // sent again
	}
	nonce.uses++
	w.sent[to] = append(w.sent[to], &sentRequest{nonce: nonce, body: body, stamp: unix, at: time.Now()})
}

// plural writes the two paths of sensitive details as one.
func plural(target string) string {
	path, query, hasQuery := strings.Cut(target, "?")
	segments := strings.Split(path, "/")
	is := func(at int, word string) bool {
		text, err := url.PathUnescape(segments[at])
		return err == nil && strings.EqualFold(text, word)
	}
	if len(segments) < 6 || !is(1, "api") || !is(2, "v1") || !is(3, "card") && !is(3, "cards") || !is(5, "sensitive") {
		return target
	}
	segments[3] = "cards"
	if path = strings.Join(segments, "/"); hasQuery {
		path += "?" + query
	}
	return path
}

// arrives returns why the request must not have reached the upstream, or nil.
func (w *witness) arrives(r *Received) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(r.Values("X-Gateway-Assertion")) > 0 {
		if _, err := r.Assertion(strings.Join(w.asserts, "\n"), time.Now()); err != nil {
			return fmt.Errorf("its assertion: %w", err)
		}
	}
	keys := r.Values("X-Gateway-Key-Id")
	words := strings.Split(r.Line, " ")
	if len(keys) != 1 || len(words) != 3 {
		return fmt.Errorf("%d key ids in %q", len(keys), r.Line)
	}
	owner := w.owners[keys[0]]
	if owner == nil {
		return fmt.Errorf("no test has made the key %s", keys[0])
	}
	to := sentTo{keys[0], words[0], plural(words[1])}
	sum := sha256.Sum256([]byte(r.Body))
	body := base64.StdEncoding.EncodeToString(sum[:])
	translated := strings.HasSuffix(r.Value("X-Gateway-Operation"), "_customer")
	all := w.sent[to]
	best := -1
	for i, s := range all {
		switch {
		case s.nonce.arrived || s.body != body && !translated || !owner.oddTime.Load() && !s.inTime(time.Now()):
		case best < 0 || s.nonce.uses < all[best].nonce.uses:
			best = i
		}
	}
	if best < 0 {
		return fmt.Errorf("no client has sent it correctly signed by %s with a nonce that has not arrived: %d were sent", keys[0], len(all))
	}
	all[best].nonce.arrived = true
	w.sent[to] = slices.DeleteFunc(all, func(s *sentRequest) bool { return s.nonce.arrived })
	return nil
}

// inTime reports whether the request can have passed rule 7 between the moment when
// it was sent and now.
func (s *sentRequest) inTime(now time.Time) bool {
	const window = 300
	return s.at.Unix()-s.stamp <= window+1 && s.stamp-now.Unix() <= window+1
}
