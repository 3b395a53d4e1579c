package caddymodule

import (
	"net/http"
	"time"
)

// What a stranger may cost. A body of this size needs no leave of the server to be
// sent, so it follows the head at once. net/http reads as much of a body over HTTP/1.
const (
	restOfRefused = 256 << 10 // bytes
	restWait      = time.Second
)

// takeRest reads the rest of the body over HTTP/2 and 3, at most that much and for at most that long. A stream whose body was not
// read is reset behind the answer (RFC 9113, section 8.1), and some clients then
// drop the answer, curl 7.88 among them: nobody would see why the request was
// refused. A body that is too large or too slow is left, as before.
//
// It comes before the answer, because reading may send 100 Continue.
func takeRest(w http.ResponseWriter, r *http.Request, most int64, wait time.Duration) {
	if r.ProtoMajor < 2 || r.Body == nil || r.Body == http.NoBody || r.ContentLength > most {
		return
	}
	control := http.NewResponseController(w)
	if control.SetReadDeadline(time.Now().Add(wait)) != nil {
		return // it could wait for ever
	}
	defer func() { _ = control.SetReadDeadline(time.Time{}) }()
	block := discardBlocks.Get().(*[4 << 10]byte)
	defer discardBlocks.Put(block)
	for left := most; left > 0; {
		n, err := r.Body.Read(block[:])
		if left -= int64(n); err != nil {
			return
		}
	}
}
