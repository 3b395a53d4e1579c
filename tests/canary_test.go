package tests

import (
	"encoding/base64"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// canaries are texts that must not be found anywhere, by what they stand for.
type canaries map[string]string

// add notes a text, and digits also without the spaces between them.
func (c canaries) add(what, text string) string {
	c[what] = text
	if digits := strings.ReplaceAll(text, " ", ""); digits != text {
		c[what+" without spaces"] = digits
	}
	return text
}

// search looks for every canary in a text.
func (c canaries) search(t testing.TB, where, text string) {
	t.Helper()
	for what, canary := range c {
		if at := strings.Index(text, canary); at >= 0 {
			t.Errorf("%s shows the %s: …%s…", where, what, text[max(0, at-200):min(len(text), at+len(canary)+80)])
		}
	}
}

// TestCanary sends secrets and card data through every path, then looks for
// them in everything that the gateway writes or shows.
func TestCanary(t *testing.T) {
	t.Parallel()
	u := startUpstream(t)
	g := startGateway(t, site{upstream: u.addr, auth: "max_body 10KiB", limits: withLimits,
		global: "limit issue_card 2/1d\nlock_after 3", proxy: "transport http {\nresponse_header_timeout 200ms\n}"})
	c := make(canaries)
	keys := canaryKeys(g, c)
	var bodies []string
	send := func(r *request) {
		c.add("signature", r.value("X-Signature"))
		c.add("nonce", r.value("X-Nonce"))
		c.add("body hash", r.value("X-Body-Hash"))
		answer, err := g.try(r)
		if err == nil && answer.status >= 400 {
			bodies = append(bodies, answer.body)
		}
		c.search(t, "an error body", strings.Join(bodies, "\n"))
	}
	requests := canaryRequests(c, keys)
	for _, with := range canaryReplies(c) {
		u.replies(with)
		for _, r := range requests() {
			send(r)
		}
	}
	u.close()
	for _, r := range requests() {
		send(r)
	}
	g.sendRaw(t, "GET /api/v1/orders?q=CANARYquery HTTP/1.1\r\nHost: x\r\nX-Signature: CANARYheader\x00\r\n\r\n")
	searchEverything(t, g, c)
	g.reload(g.site)
	g.stop()
	searchEverything(t, g, c)
	// The logs hold what they should, else nothing is proven.
	g.logged("access.log", keys[0].id, `"operation":"issue_card"`, `"outcome":"accepted"`, `"tenant":"acme"`, `"request_id":"`)
	g.logged("default.log", `"level":"debug"`, "upstream roundtrip")
}

// canaryKeys makes keys whose secrets are canaries.
func canaryKeys(g *gateway, c canaries) []credentials {
	keys := []credentials{g.newKey(nil), g.newKey(nil), g.newKey(nil)}
	imported := g.importKey(credentials{"ak_canary", "CANARYsecret_0123456789abcdef"}, nil)
	rotated := credentials{keys[1].id, g.do(keys[1], "rotate").Secret}
	keys = append(keys, imported, rotated)
	for _, key := range keys {
		c.add("secret of "+key.id+key.secret[:2], key.secret)
	}
	master := strings.TrimSpace(g.read("master.key"))
	c.add("master key", master)
	raw, _ := base64.StdEncoding.DecodeString(master)
	c.add("master key in raw bytes", string(raw))
	return keys
}

// canaryRequests returns what makes a fresh round of requests: one accepted
// and one for each way to be refused.
func canaryRequests(c canaries, keys []credentials) func() []*request {
	body := `{"cardNumber":"` + c.add("card number", "4000 0012 3456 7899") + `","cvv":"` + c.add("cvv", "CANARYcvv") + `"}`
	query := "?q=" + c.add("query value", "CANARYquery") + "&%43ANARYname=1&" + c.add("card number in a query", "5105105105105100")
	path := "/api/v1/cards/" + c.add("card number in a path", "4222222222222220")
	c.add("decoded name", "%43ANARYname")
	return func() []*request {
		key, other := keys[0], keys[2]
		var all []*request
		for _, method := range []string{"GET", "POST"} {
			all = append(all,
				key.request(method, "/api/v1/orders"+query, body),
				key.request(method, path+query, body),
				key.request(method, path+"/sensitive", ""),
				key.request(method, path+query, body).forge(),
				key.request(method, path+query, body).set("X-Body-Hash", bodyHash("CANARY")).sign(key.secret),
				key.request(method, path+query, body).drop("X-Timestamp"),
				key.requestAt(time.Now().Add(-time.Hour), method, path+query, body),
				keys[3].request(method, path+query, body),
				keys[4].request(method, path+query, body),
				other.request(method, path+query, body).forge(),
				key.request(method, "/api/v1//orders"+query, body),
				key.request(method, "/api/v1/orders"+query+"%zz", body),
				key.request(method, "/api/v1/../x"+query, body),
				key.request(method, "/elsewhere"+query, body),
				key.request(method, "/api/v1/cards", strings.Repeat(body, 200)),
				key.request("BREW", path+query, body),
				credentials{c.add("unknown key id", "CANARYunknown"), key.secret}.request(method, path+query, body),
			)
		}
		all = append(all, key.post(), key.post(), key.post())
		for _, r := range all {
			r.add("Authorization", "Bearer "+c.add("bearer token", "CANARYbearer")).add("Cookie", "c="+c.add("cookie", "CANARYcookie"))
			r.add("X-Custom", c.add("custom header", "CANARYcustom")).add("Referer", "https://x/?card="+c.add("referer", "CANARYreferer"))
		}
		return append(all, all[0]) // once more: a replay
	}
}

// canaryReplies returns answers of the upstream that hold card data.
func canaryReplies(c canaries) []reply {
	card := c.add("card number of an answer", "4111 1111 1111 1111")
	return []reply{
		answer(200, `{"cardNumber":"`+card+`"}`, "Content-Type: application/json", "X-Card: "+card, "Set-Cookie: s="+c.add("set-cookie", "CANARYset")),
		answer(302, "", "Location: https://x/?card="+c.add("location", "CANARYlocation")),
		{raw: card + " is no HTTP\r\n\r\n", hangUp: true},
		{raw: "HTTP/1.1 200 OK\r\n" + card + "\r\n\r\n", hangUp: true},
		{raw: "HTTP/1.1 200 OK\r\nContent-Length: " + card + "\r\n\r\n", hangUp: true},
		{raw: "HTTP/1.1 200 OK\r\nContent-Length: 500\r\n\r\n" + card, hangUp: true},
		{raw: "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}" + card},
		{},
	}
}

// searchEverything looks through the directory and all that can be asked.
func searchEverything(t testing.TB, g *gateway, c canaries) {
	t.Helper()
	err := filepath.WalkDir(g.dir, func(path string, entry os.DirEntry, err error) error {
		if err != nil || !entry.Type().IsRegular() {
			return err
		}
		name, _ := filepath.Rel(g.dir, path)
		if name != "master.key" {
			c.search(t, name, g.read(name))
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	select {
	case <-g.done:
		return
	default:
	}
	for _, path := range []string{"/config/", "/card-gateway/keys", "/card-gateway/keys/ak_canary", "/card-gateway/status", "/metrics", "/debug/vars", "/reverse_proxy/upstreams"} {
		status, text := g.admin(http.MethodGet, path, "", "")
		if status != http.StatusOK {
			t.Errorf("%s on the admin endpoint: %d", path, status)
		}
		c.search(t, path, text)
	}
	c.search(t, "/metrics of the site", g.send(t, &request{method: "GET", target: "/metrics"}).body)
}

// TestUnredactedLogIsReported leaves `format card` out of the log blocks.
func TestUnredactedLogIsReported(t *testing.T) {
	t.Parallel()
	u := startUpstream(t)
	g := startGateway(t, site{upstream: u.addr, logs: "format json"})
	accepted(t, g.send(t, g.newKey(nil).get()))
	g.logged("default.log", `"level":"warn"`, "format card")
}
