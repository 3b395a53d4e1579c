package request

import (
	"net/http"
	"testing"
	"time"

	"github.com/card-gateway/card-gateway/tests/harness"
)

// TestDateIsTheGateways lets the issuer send a Date that is wrong, several, or none.
// Clients correct their clocks by the Date of any answer, so it must be the
// gateway's, over each version of HTTP.
func TestDateIsTheGateways(t *testing.T) { harness.EachTerminal(t, testDateIsTheGateways) }

func testDateIsTheGateways(t *testing.T, terminal string) {
	u := harness.StartUpstream(t)
	g, http3 := gatewayOverHTTP3(t, harness.Site{Upstream: u.Addr, Terminal: terminal, Servers: "protocols h1 h2c h2 h3"})
	key := g.NewKey(nil)
	const off = "Thu, 01 Jan 2026 00:00:00 GMT"
	http2 := overHTTP2(t, g)
	for version, send := range map[string]func(r *harness.Request) *harness.Response{
		"HTTP/1.1": func(r *harness.Request) *harness.Response { return g.Send(t, r) },
		"HTTP/2":   http2,
		"HTTP/3": func(r *harness.Request) *harness.Response {
			answer, err := overHTTP3(t, http3, r, len(r.Body))
			if err != nil {
				t.Fatal(err)
			}
			return answer
		},
	} {
		for name, headers := range map[string][]string{
			"none": nil, "wrong": {"Date: " + off}, "garbage": {"date: yesterday"}, "empty": {"Date: "}, "two": {"Date: " + off, "DATE: " + off},
			"another spelling": {"Date_: " + off},
		} {
			u.Replies(harness.Answer(200, "{}", headers...))
			before := time.Now().Truncate(time.Second)
			answer := send(key.Get())
			harness.WantAccepted(t, answer)
			dates := answer.Header["Date"]
			if len(dates) != 1 {
				t.Errorf("%s, %s: the dates are %q", version, name, dates)
				continue
			}
			if date, err := http.ParseTime(dates[0]); err != nil || date.Before(before) || date.After(time.Now()) {
				t.Errorf("%s, %s: the date is %q at %v", version, name, dates[0], before)
			}
			if others := answer.Header["Date_"]; len(others) > 0 {
				t.Errorf("%s, %s: the client gets Date_ %q", version, name, others)
			}
		}
	}
}
