package caddymodule

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
)

// wrapping returns a random format whose innermost encoder is the given one.
func wrapping(random *rand.Rand, innermost string) string {
	for format := innermost; ; {
		switch random.IntN(3) {
		case 0:
			format = "filter {\nrequest>uri delete\nwrap " + format + "\n}"
		case 1:
			format = "append {\nnode one\nwrap " + format + "\n}"
		default:
			return format
		}
	}
}

// A log that gets requests of a server with handlers of the gateway is refused without the
// format card, whatever is around it.
func TestLogsNeedTheFormatCard(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	for _, c := range []struct{ option, global, site, other, want string }{
		{}, // Caddy's own default log
		{option: "log_unredacted", global: "log {\nformat json\n}", site: "log"},
		{global: "log {\nformat CARD\n}", site: "log {\nformat CARD\n}"},
		{global: "log {\noutput discard\n}", site: "log {\nformat CARD\n}"},
		{global: "log {\nformat CARD\n}", site: "log {\nformat PLAIN\n}", want: "log0"},
		{global: "log {\nformat CARD\n}", site: "log"},
		{site: "log", want: "default"},
		{global: "log {\nformat CARD\n}", site: "log {\noutput stderr\n}", want: "log0"},
		{global: "log {\nformat PLAIN\n}", site: "log {\nformat CARD\n}", want: "default"},
		{global: "log {\nlevel ERROR\n}", want: "default"},
		{global: "debug", want: "default"},
		{site: "log {\nformat CARD\n}", want: "default"},
		{global: "log {\nformat CARD\n}\nlog errors {\ninclude http.log.error\nformat PLAIN\n}", want: "errors"},
		{global: "log {\nformat CARD\n}\nlog all {\ninclude http\nformat PLAIN\n}", want: "all"},
		{global: "log {\nformat CARD\n}\nlog admin {\ninclude admin.api\nformat PLAIN\n}"},
		{global: "log {\nformat CARD\n}\nlog rest {\nexclude http.log\nformat PLAIN\n}"},
		{global: "log {\nformat CARD\n}\nlog others {\ninclude http.log.access.log1\nformat PLAIN\n}", site: "log {\nformat CARD\n}"},
		{global: "log {\nformat CARD\n}", other: "log {\nformat PLAIN\n}"},
	} {
		for range 5 {
			text := strings.NewReplacer("CARD", wrapping(random, "card"), "PLAIN", wrapping(random, []string{"json", "console"}[random.IntN(2)]))
			config := loggingConfig(t, "file "+t.TempDir()+"\n"+c.option, text.Replace(c.global), text.Replace(fmt.Sprintf(
				"http://127.0.0.1:0 {\n%s\ncard_auth\nrespond 204\n}\nhttp://127.0.0.1:1 {\n%s\nrespond 204\n}\n", c.site, c.other)))
			switch err := validated(t, config); {
			case c.want == "" && err != nil:
				t.Errorf("%+v is refused: %v", c, err)
			case c.want != "" && (err == nil || !strings.Contains(err.Error(), `the log "`+c.want+`"`) || !strings.Contains(err.Error(), "write `format card`")):
				t.Errorf("%+v: %v, want an error about the log %q", c, err, c.want)
			}
		}
	}
}
