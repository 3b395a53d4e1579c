package harness

import "testing"

// The handlers that may end a route: the gateway's own and Caddy's.
const (
	CardForward  = "card_forward"
	ReverseProxy = "reverse_proxy"
)

// EachTerminal runs the test once for each handler that can forward, at the
// same time.
func EachTerminal(t *testing.T, test func(t *testing.T, terminal string)) {
	t.Helper()
	t.Parallel()
	for _, terminal := range []string{CardForward, ReverseProxy} {
		t.Run(terminal, func(t *testing.T) {
			t.Parallel()
			test(t, terminal)
		})
	}
}

// ToIssuer returns the directive that forwards to the issuer.
func (s *Site) ToIssuer() string {
	terminal, lines := s.Terminal, s.Proxy
	if terminal == "" {
		terminal = CardForward
	}
	if s.AnswerTimeout != "" && terminal == CardForward {
		lines += "\nanswer_timeout " + s.AnswerTimeout
	} else if s.AnswerTimeout != "" {
		lines += "\ntransport http {\nresponse_header_timeout " + s.AnswerTimeout + "\n}"
	}
	return terminal + " " + s.Upstream + " {\n" + lines + "\n}\n"
}
