package harness

import (
	"encoding/base64"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// Canaries are texts that must appear nowhere. The key of the map is the
// meaning of the text.
type Canaries map[string]string

// Add adds a text. If it contains digits with spaces between them, Add also
// adds it without the spaces.
func (c Canaries) Add(what, text string) string {
	c[what] = text
	if digits := strings.ReplaceAll(text, " ", ""); digits != text {
		c[what+" without spaces"] = digits
	}
	return text
}

// Search looks for every canary in a text.
func (c Canaries) Search(t testing.TB, where, text string) {
	t.Helper()
	for what, canary := range c {
		if at := strings.Index(text, canary); at >= 0 {
			t.Errorf("%s shows the %s: …%s…", where, what, text[max(0, at-200):min(len(text), at+len(canary)+80)])
		}
	}
}

// Keys makes keys whose secrets are canaries.
func (c Canaries) Keys(g *Gateway) []Credentials {
	keys := []Credentials{g.NewKey(nil), g.NewKey(nil), g.NewKey(nil)}
	imported := g.ImportKey(Credentials{"ak_canary", "CANARYsecret_0123456789abcdef"}, nil)
	rotated := Credentials{keys[1].ID, g.Do(keys[1], "rotate").Secret}
	keys = append(keys, imported, rotated)
	for _, key := range keys {
		c.Add("secret of "+key.ID+key.Secret[:2], key.Secret)
	}
	master := strings.TrimSpace(g.ReadFile("master.key"))
	c.Add("master key", master)
	raw, _ := base64.StdEncoding.DecodeString(master)
	c.Add("master key in raw bytes", string(raw))
	return keys
}

// Requests returns a function that makes a new round of requests: one that is
// accepted, and one for each way to be refused.
func (c Canaries) Requests(keys []Credentials) func() []*Request {
	body := `{"cardNumber":"` + c.Add("card number", "4000 0012 3456 7899") + `","cvv":"` + c.Add("cvv", "CANARYcvv") + `"}`
	query := "?q=" + c.Add("query value", "CANARYquery") + "&%43ANARYname=1&" + c.Add("card number in a query", "5105105105105100")
	path := "/api/v1/cards/" + c.Add("card number in a path", "4222222222222220")
	c.Add("decoded name", "%43ANARYname")
	return func() []*Request {
		key, other := keys[0], keys[2]
		var all []*Request
		for _, method := range []string{"GET", "POST"} {
			all = append(all,
				key.Request(method, "/api/v1/orders"+query, body),
				key.Request(method, path+query, body),
				key.Request(method, path+"/sensitive", ""),
				key.Request(method, path+query, body).Forge(),
				key.Request(method, path+query, body).Set("X-Body-Hash", BodyHash("CANARY")).Sign(key.Secret),
				key.Request(method, path+query, body).Drop("X-Timestamp"),
				key.RequestAt(time.Now().Add(-time.Hour), method, path+query, body),
				keys[3].Request(method, path+query, body),
				keys[4].Request(method, path+query, body),
				other.Request(method, path+query, body).Forge(),
				key.Request(method, "/api/v1//orders"+query, body),
				key.Request(method, "/api/v1/orders"+query+"%zz", body),
				key.Request(method, "/api/v1/../x"+query, body),
				key.Request(method, "/elsewhere"+query, body),
				key.Request(method, "/api/v1/cards", strings.Repeat(body, 200)),
				key.Request("BREW", path+query, body),
				Credentials{c.Add("unknown key id", "CANARYunknown"), key.Secret}.Request(method, path+query, body),
			)
		}
		all = append(all, key.Post(), key.Post(), key.Post())
		for _, r := range all {
			r.Add("Authorization", "Bearer "+c.Add("bearer token", "CANARYbearer")).Add("Cookie", "c="+c.Add("cookie", "CANARYcookie"))
			r.Add("X-Custom", c.Add("custom header", "CANARYcustom")).Add("Referer", "https://x/?card="+c.Add("referer", "CANARYreferer"))
		}
		return append(all, all[0]) // the first again: a replay
	}
}

// Replies returns answers of the upstream that hold card data.
func (c Canaries) Replies() []Reply {
	card := c.Add("card number of an answer", "4111 1111 1111 1111")
	return []Reply{
		Answer(200, `{"cardNumber":"`+card+`"}`, "Content-Type: application/json", "X-Card: "+card, "Set-Cookie: s="+c.Add("set-cookie", "CANARYset")),
		Answer(302, "", "Location: https://x/?card="+c.Add("location", "CANARYlocation")),
		{Raw: card + " is no HTTP\r\n\r\n", HangUp: true},
		{Raw: "HTTP/1.1 200 OK\r\n" + card + "\r\n\r\n", HangUp: true},
		{Raw: "HTTP/1.1 200 OK\r\nContent-Length: " + card + "\r\n\r\n", HangUp: true},
		{Raw: "HTTP/1.1 200 OK\r\nContent-Length: 500\r\n\r\n" + card, HangUp: true},
		{Raw: "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}" + card},
		{},
	}
}

// SearchGateway searches the canaries in the files of the gateway and, while it
// runs, in everything that its admin endpoint and metrics return.
func (c Canaries) SearchGateway(t testing.TB, g *Gateway) {
	t.Helper()
	err := filepath.WalkDir(g.Dir, func(path string, entry os.DirEntry, err error) error {
		if err != nil || !entry.Type().IsRegular() {
			return err
		}
		name, _ := filepath.Rel(g.Dir, path)
		if name != "master.key" {
			c.Search(t, name, g.ReadFile(name))
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
		status, text := g.Admin(http.MethodGet, path, "", "")
		if status != http.StatusOK {
			t.Errorf("%s on the admin endpoint: %d", path, status)
		}
		c.Search(t, path, text)
	}
	c.Search(t, "/metrics of the site", g.Send(t, &Request{Method: "GET", Target: "/metrics"}).Body)
}
