package caddymodule

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"
	"pgregory.net/rapid"
)

// orderOf checks the servers of a configuration, of which no handler is loaded.
func orderOf(t *testing.T, config string, rateLimits bool) (warned string, refused error) {
	t.Helper()
	var doc struct {
		Apps struct {
			HTTP struct {
				Servers map[string]*caddyhttp.Server
			}
		}
	}
	if err := json.Unmarshal([]byte(config), &doc); err != nil {
		t.Fatal(err)
	}
	core, log := observer.New(zap.WarnLevel)
	c := &orderCheck{rateLimits: rateLimits, log: zap.New(core)}
	for _, server := range doc.Apps.HTTP.Servers {
		refused = errors.Join(refused, c.server(server))
	}
	for _, entry := range log.All() {
		warned += entry.Message + "\n"
	}
	return warned, refused
}

// named are named routes and a snippet. Of guard and turned, Caddy keeps the first
// directive.
const named = `&(x) {
	route {
		card_rate_limit
		card_auth
		card_auth
		respond 204
	}
}
&(guard) {
	card_rate_limit
	card_auth
}
&(turned) {
	card_auth
	card_rate_limit
}
&(whole) {
	route {
		card_rate_limit
		card_auth
	}
}
(limits_only) {
	card_rate_limit
}
`

// Routes that cannot be meant are refused, those that hardly can are warned of, and
// the usual ones are neither.
func TestOrderOfHandlers(t *testing.T) {
	t.Parallel()
	const (
		send   = "reverse_proxy 127.0.0.1:9"
		judged = "card_rate_limit\ncard_auth\n" + send
		open   = "may get requests under /api/v1/ that no card_auth has judged"
	)
	for name, c := range map[string]struct{ site, refused, warned string }{
		"as documented":              {"handle /api/v1/* {\ncard_forward 127.0.0.1:9\ncard_translate\ncard_auth\ncard_rate_limit\n}\nhandle {\ncard_refuse not_found\n}", "", ""},
		"a route of one's own":       {"route /api/v1/* {\ncard_rate_limit\ncard_auth\ncard_translate\n" + send + "\n}", "", ""},
		"self and issuer":            {"handle /gateway/v1/* {\ncard_rate_limit\ncard_auth\ncard_self\n}\nhandle /api/v1/* {\ncard_rate_limit\ncard_auth\n" + send + "\n}", "", ""},
		"apart, and each answers":    {"route /a/* {\ncard_rate_limit\ncard_auth\n" + send + "\n}\nroute {\ncard_rate_limit\ncard_auth\n" + send + "\n}", "", ""},
		"apart by matchers":          {"route /api/v1/* {\ncard_rate_limit\ncard_auth /api/v1/a/* {\nmax_body 1KiB\n}\ncard_auth /api/v1/b/*\n@either path /api/v1/a/* /api/v1/b/*\n" + strings.Replace(send, " ", " @either ", 1) + "\n}", "", ""},
		"a front end beside":         {"handle /api/v1/* {\ncard_rate_limit\ncard_auth\n" + send + "\n}\nhandle {\n" + send + "\n}", "", ""},
		"translated before":          {"route {\ncard_rate_limit\ncard_translate\ncard_auth\n" + send + "\n}", "card_translate comes before card_auth", ""},
		"two":                        {"route {\ncard_rate_limit\ncard_auth\ncard_auth\n" + send + "\n}", "two card_auth", ""},
		"two, one for some":          {"route {\ncard_rate_limit\ncard_auth /a/*\ncard_auth\n" + send + "\n}", "two card_auth", ""},
		"two, in routes":             {"route {\ncard_rate_limit\ncard_auth\nroute /api/* {\ncard_auth\n" + send + "\n}\n}", "two card_auth", ""},
		"limits late":                {"route {\ncard_auth\ncard_rate_limit\n" + send + "\n}", "card_rate_limit comes after card_auth", ""},
		"limits forgotten":           {"route {\ncard_auth\n" + send + "\n}", "no card_rate_limit in front", ""},
		"translated without auth":    {"handle {\ncard_translate\n" + send + "\n}", "card_translate has no card_auth", ""},
		"forwarded without auth":     {"handle {\ncard_forward 127.0.0.1:9\n}", "card_forward has no card_auth", ""},
		"proxied without auth":       {"handle /api/v1/* {\n" + send + "\n}\nhandle /x/* {\n" + judged + "\n}", open, ""},
		"proxied without auth, deep": {"handle /api/v1/* {\nroute {\nroute {\n" + send + "\n}\n}\n}", "", "no card_auth has judged"},
		"another site":               {"handle {\n" + send + "\n}\n}\nhttp://localhost:0 {\n" + judged, "", ""},
		"another site, named":        {"handle /api/* {\n" + send + "\n}\n}\nhttp://localhost:0 {\n" + judged, "", ""},
		"a catch-all":                {"@get {\nmethod GET\npath /api/v1/*\n}\nhandle @get {\n" + judged + "\n}\nhandle {\n" + send + "\n}", open, ""},
		"all but the API":            {"handle /api/v1/* {\n" + judged + "\n}\n@rest not path /api/v1/*\n" + strings.Replace(send, " ", " @rest ", 1), "", ""},
		"opened":                     {"handle /api/v1/cards/* {\n" + judged + "\n}\nhandle {\ncard_open\n" + send + "\n}", "", ""},
		"opened elsewhere":           {"handle /x {\ncard_open\n}\nhandle {\n" + judged + "\n}\nroute {\n" + send + "\n}", "", ""},
		"opened for others":          {"handle {\ncard_open /x\n" + send + "\n}\n", open, ""},
		"judged for some":            {"route /api/v1/* {\n@w method POST\ncard_rate_limit @w\ncard_auth @w\n" + send + "\n}", open, ""},
		"judged for the same":        {"route /api/v1/* {\n@w method POST\ncard_rate_limit @w\ncard_auth @w\n" + strings.Replace(send, " ", " @w ", 1) + "\n}", "", ""},
		"the same no more":           {"route /api/v1/* {\n@w header X-A 1\ncard_rate_limit @w\ncard_auth @w\nrequest_header X-A 1\n" + strings.Replace(send, " ", " @w ", 1) + "\n}", open, ""},
		"translated for more":        {"route {\n@w method POST\ncard_rate_limit @w\ncard_auth @w\ncard_translate\nrespond 204\n}", "card_translate has no card_auth", ""},
		"limits without auth":        {"handle /a {\ncard_rate_limit\nrespond 204\n}\nhandle {\n" + judged + "\n}", "card_rate_limit has no card_auth behind", ""},
		"a guard":                    {"handle {\ninvoke guard\n" + send + "\n}", "card_rate_limit has no card_auth behind", ""},
		"a guard, turned":            {"handle {\ninvoke turned\n" + send + "\n}", "card_rate_limit has no card_auth behind", ""},
		"a guard, whole":             {"handle {\ninvoke whole\n" + send + "\n}", "", ""},
		"a guard, once":              {"handle /a/* {\ninvoke whole\n" + send + "\n}\nhandle {\n" + send + "\n}", open, ""},
		"in a snippet":               {"import limits_only\nhandle {\n" + send + "\n}", "card_rate_limit has no card_auth behind", ""},
		"after an error":             {judged + "\nhandle_errors {\ncard_forward 127.0.0.1:9\n}", "card_forward has no card_auth", ""},
		"proxied after an error":     {judged + "\nhandle_errors {\n" + send + "\n}", "", "no card_auth has judged"},
		"for a response":             {"route {\nintercept {\nhandle_response {\ncard_forward 127.0.0.1:9\n}\n}\n" + judged + "\n}", "card_forward has no card_auth", ""},
		"proxied for a response":     {"handle /x {\n" + judged + "\n}\nhandle {\nreverse_proxy 127.0.0.1:9 {\nhandle_response {\n" + send + "\n}\n}\n}", open, ""},
		"asked before":               {"route {\nforward_auth 127.0.0.1:9 {\nuri /verify\n}\n" + judged + "\n}", "", "no card_auth has judged"},
		"nothing answers":            {"handle {\ncard_rate_limit\ncard_auth\n}", "", "no handler answers"},
		"self without auth":          {"handle /gateway/v1/* {\ncard_self\n}", "card_self has no card_auth", ""},
		"retries":                    {"handle {\ncard_rate_limit\ncard_auth\n" + send + " {\nlb_retries 2\n}\n}", "", "lb_retries"},
		"retries for a while":        {"handle {\ncard_rate_limit\ncard_auth\n" + send + " {\nlb_try_duration 2s\n}\n}", "", "lb_retries"},
		"a named route":              {"invoke x\n", "two card_auth", ""},
	} {
		warned, refused := orderOf(t, configFrom(t, "file x", "", named+"http://127.0.0.1:0 {\n"+c.site+"\n}\n"), true)
		if c.refused == "" && refused != nil || c.refused != "" && (refused == nil || !strings.Contains(refused.Error(), c.refused)) {
			t.Errorf("%s: refused: %v; want %q", name, refused, c.refused)
		}
		if c.warned == "" && warned != "" || !strings.Contains(warned, c.warned) {
			t.Errorf("%s: warned: %q; want %q", name, warned, c.warned)
		}
	}
}

// However the handlers are nested in routes without matchers, they are refused as
// they would be in one list.
func TestOrderIsTheSameNested(t *testing.T) {
	t.Parallel()
	names := []string{"card_rate_limit", "card_auth", "card_translate", "headers", "vars"}
	rapid.Check(t, func(r *rapid.T) {
		handlers := rapid.SliceOfN(rapid.SampledFrom(names), 1, 6).Draw(r, "handlers")
		var nest func(list []string) string
		nest = func(list []string) string {
			var routes []string
			for len(list) > 0 {
				n := rapid.IntRange(1, len(list)).Draw(r, "handlers of a route")
				var handle []string
				for _, name := range list[:n] {
					handle = append(handle, `{"handler":"`+name+`"}`)
				}
				route := `{"handle":[` + strings.Join(handle, ",") + `]}`
				if rapid.Bool().Draw(r, "inside") && n < 4 {
					route = `{"handle":[{"handler":"subroute","routes":` + nest(list[:n]) + `}]}`
				}
				routes, list = append(routes, route), list[n:]
			}
			return "[" + strings.Join(routes, ",") + "]"
		}
		config := `{"apps":{"http":{"servers":{"s":{"routes":` + nest(handlers) + `}}}}}`
		_, refused := orderOf(t, config, false)
		auth := slices.Index(handlers, "card_auth")
		wrong := false
		for i, name := range handlers {
			switch name {
			case "card_auth":
				wrong = wrong || i != auth
			case "card_rate_limit":
				wrong = wrong || auth < i
			case "card_translate":
				wrong = wrong || auth < 0 || i < auth
			}
		}
		if wrong != (refused != nil) {
			r.Fatalf("%s: refused: %v; want %t", config, refused, wrong)
		}
	})
}

// `validate` says it as well, whichever handler comes first, and warns of trusted
// proxies that are whole networks.
func TestValidateChecksTheOrder(t *testing.T) {
	for name, c := range map[string]struct{ site, refused string }{
		"fine":    {"route {\ncard_rate_limit\ncard_auth\ncard_translate\nrespond 204\n}", ""},
		"behind":  {"route {\ncard_auth\nrespond /x 204\ncard_auth\n}", "two card_auth"},
		"before":  {"route {\ncard_rate_limit\ncard_translate\ncard_auth\n}", "card_translate comes before"},
		"path":    {"card_rate_limit\ncard_auth\nreverse_proxy host:9000/v2", "host:9000/v2"},
		"no path": {"card_rate_limit\ncard_auth\nreverse_proxy tcp/host:9000 unix//run/issuer.sock {$NONE:h}:80 {\ndynamic a issuer.example 80\n}", ""},
		"in part": {"route {\nroute {\ncard_rate_limit\ncard_auth\n}\nroute {\ncard_rate_limit\n}\n}", "card_rate_limit comes after"},
	} {
		log := filepath.Join(t.TempDir(), "log")
		global := "log warnings {\noutput file " + log + "\nlevel WARN\nformat card\n}\nservers {\ntrusted_proxies static private_ranges\ntrusted_proxies_strict\n}"
		err := validated(t, configFrom(t, "file "+t.TempDir(), global, "http://127.0.0.1:0 {\n"+c.site+"\n}\n"))
		if c.refused == "" && err != nil || c.refused != "" && (err == nil || !strings.Contains(err.Error(), c.refused)) {
			t.Errorf("%s: %v, want %q", name, err, c.refused)
		}
		written, _ := os.ReadFile(log)
		if warned := strings.Count(string(written), "name the addresses of your load balancers"); warned != 1 {
			t.Errorf("%s: warned %d times of the proxies, want once: %s", name, warned, written)
		}
	}
}
