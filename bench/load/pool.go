// Package load sends signed requests: it signs a pool of them before a run and
// sends each once: by wrk as fast as answers come, or at a constant rate.
package load

import (
	"bufio"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"time"
)

// A Key is the id and the secret of a client.
type Key struct{ ID, Secret string }

// Target is the path that every request goes to, the operation issue_card.
const Target = "/api/v1/cards"

// Spec describes the requests to sign.
type Spec struct {
	Keys     []Key // used in turn; their ids have one length
	Count    int
	Body     []byte
	Time     time.Time // of the timestamps
	Tampered bool      // whether the signatures are of another secret
}

// A Pool is a number of signed requests in files. Their heads have one length.
type Pool struct {
	heads, body string // paths
	length      int    // bytes of a head
}

// WritePool signs the requests and writes them into dir. It overwrites an older
// pool.
func WritePool(dir string, s Spec) (*Pool, error) {
	p := &Pool{heads: filepath.Join(dir, "heads"), body: filepath.Join(dir, "body")}
	if err := os.WriteFile(p.body, s.Body, 0o600); err != nil {
		return nil, err
	}
	f, err := os.Create(p.heads)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	w := bufio.NewWriterSize(f, 1<<20)
	for head := range s.signed() {
		if p.length != 0 && p.length != len(head) {
			return nil, fmt.Errorf("heads of %d and of %d bytes: the ids of keys must have one length", p.length, len(head))
		}
		p.length = len(head)
		if _, err := w.Write(head); err != nil {
			return nil, err
		}
	}
	if err := w.Flush(); err != nil {
		return nil, err
	}
	return p, f.Close()
}

// Request returns one signed request, head and body.
func (s Spec) Request() []byte {
	s.Count = 1
	for head := range s.signed() {
		return append(head, s.Body...)
	}
	return nil
}

// signed yields the heads, each valid until the next.
func (s Spec) signed() func(yield func([]byte) bool) {
	sum := sha256.Sum256(s.Body)
	bodyHash := base64.StdEncoding.EncodeToString(sum[:])
	timestamp := strconv.FormatInt(s.Time.Unix(), 10)
	prefix := make([]byte, 8)
	rand.Read(prefix)
	return func(yield func([]byte) bool) {
		var head, text []byte
		for i := range s.Count {
			key := s.Keys[i%len(s.Keys)]
			nonce := hex.EncodeToString(binary.BigEndian.AppendUint64(prefix[:8:8], uint64(i)))
			text = fmt.Appendf(text[:0], "POST\n%s\n%s\n%s\n%s", Target, timestamp, nonce, bodyHash)
			secret := key.Secret
			if s.Tampered {
				secret += "?"
			}
			mac := hmac.New(sha256.New, []byte(secret))
			mac.Write(text)
			head = fmt.Appendf(head[:0], "POST %s HTTP/1.1\r\nHost: gateway.example\r\nContent-Type: application/json\r\nContent-Length: %d\r\n"+
				"X-API-Key: %s\r\nX-Timestamp: %s\r\nX-Nonce: %s\r\nX-Body-Hash: %s\r\nX-Signature: %s\r\n\r\n",
				Target, len(s.Body), key.ID, timestamp, nonce, bodyHash, base64.StdEncoding.EncodeToString(mac.Sum(nil)))
			if !yield(head) {
				return
			}
		}
	}
}

// Body returns a JSON document of n bytes, or no bytes for 0.
func Body(n int) []byte {
	const frame = `{"reference":""}`
	if n < len(frame) {
		return nil
	}
	body := make([]byte, 0, n)
	body = append(body, frame[:len(frame)-2]...)
	for len(body) < n-2 {
		body = append(body, 'x')
	}
	return append(body, frame[len(frame)-2:]...)
}
