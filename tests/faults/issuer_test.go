package faults

import (
	"net/http"
	"testing"
	"time"

	"github.com/card-gateway/card-gateway/tests/harness"
)

// ofIssuer are the faults of the issuer. It carries out every request that it
// received, whatever it answers. So no request may reach it a second time.
func ofIssuer() []fault {
	return []fault{
		{name: "the issuer killed and started again", promise: "502, or 503 where nothing could be sent; what it received is not sent again", strike: issuerKilled, lasts: 2 * time.Second, rounds: 3},
		{name: "the issuer stalls", promise: "504 after answer_timeout; what it received is not sent again", strike: issuerStalls, lasts: 4 * time.Second, seldom: true},
		{name: "the issuer hangs up unanswered", promise: "502 while it lasts; what it received is not sent again", strike: issuerAnswers(harness.Reply{}), lasts: 2 * time.Second, rounds: 3},
		{name: "the issuer answers half", promise: "the client's answer ends in the middle too; what the issuer received is not sent again", lasts: 2 * time.Second, rounds: 3, seldom: true,
			strike: issuerAnswers(harness.Reply{Raw: "HTTP/1.1 200 OK\r\nContent-Length: 500\r\n\r\n{\"ok\"", HangUp: true})},
		{name: "the issuer answers 500", promise: "its answer passes through; it is not asked again", lasts: 2 * time.Second, rounds: 3, seldom: true,
			strike: issuerAnswers(harness.Answer(http.StatusInternalServerError, `{"error":"broken"}`))},
	}
}

func TestIssuer(t *testing.T) { runAll(t, single, ofIssuer()) }

func issuerKilled(b *bench) func() {
	b.issuer.Close()
	return b.issuer.Reopen
}

func issuerStalls(b *bench) func() {
	over := make(chan struct{})
	late := harness.Answer(http.StatusOK, `{"ok":true}`)
	late.Wait = over
	back := issuerAnswers(late)(b)
	return func() {
		back()
		close(over)
	}
}

func issuerAnswers(r harness.Reply) func(b *bench) func() {
	return func(b *bench) func() {
		b.issuer.Replies(r)
		return func() {
			b.issuer.Replies(harness.Answer(http.StatusOK, `{"ok":true}`, "Content-Type: application/json"))
		}
	}
}
