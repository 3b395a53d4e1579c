package matrix

import (
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/card-gateway/card-gateway/auth"
	"github.com/card-gateway/card-gateway/tests/harness"
)

// An answerCase is a request of a client that demands signed answers.
type answerCase struct {
	Name    string
	Method  string
	Content *string
	Headers map[string]string
	Clock   int
	Secret  string      // instead of the key's
	Issuer  faultAnswer // what the issuer answers; status 0: 200
	Between string      // what something between client and gateway does, a name of alterations

	Requests int  // how many arrive between; 0: 1
	Status   int  // of the answer that the client returns
	MayFail  bool `json:"may_fail"` // or it is an error of the type unproven
	Once     bool // the issuer sees it once, however often it arrives between
	Error    *struct {
		Type     string // "api": its status, for the ways that raise no errors
		Status   int
		Code     string
		Unsigned bool
	}
}

// demand sends a request of a client that demands signed answers.
func (b bench) demand(t *testing.T, c answerCase) {
	b.upstream.Took()
	issuer := c.Issuer
	if issuer.Status == 0 {
		issuer.Status = http.StatusOK
	}
	b.upstream.Replies(issuer.reply(""))
	way, base := startBetween(t, b.gateway.Addr, c.Between)
	secret := b.key.Secret
	if c.Secret != "" {
		secret = c.Secret
	}
	request := call{
		Do: "request", Adapter: b.adapter, Base: base, KeyID: b.key.ID, Secret: secret, VerifyAnswers: true,
		Method: c.Method, Target: "/api/v1/orders?limit=1", Headers: c.Headers, Clock: c.Clock,
	}
	if c.Content != nil {
		request.Body, request.HasBody = []byte(*c.Content), true
	}
	if c.Between == "the answer before" {
		if got := b.driver.do(t, request); got.Error != nil {
			t.Fatalf("the answer that is not yet altered: %+v", got.Error)
		}
	}
	got := b.driver.do(t, request)
	way.mu.Lock()
	defer way.mu.Unlock()
	requests := max(c.Requests, 1)
	if c.Method == http.MethodPost && c.Error != nil && c.Error.Type == "unproven" {
		requests = 3 // an answer that is not believed is none
	}
	if way.number != requests {
		t.Errorf("%d requests arrived, want %d", way.number, requests)
	}
	for _, accepts := range way.accepts {
		if accepts != "identity" {
			t.Errorf("Accept-Encoding is %q: the answer could not be verified", accepts)
		}
	}
	if all := b.upstream.Took(); c.Once && len(all) != 1 {
		t.Errorf("the issuer has executed %d requests, want one", len(all))
	}
	c.outcome(t, b, got)
}

// closes closes calls: one that was not sent, one that was taken, and one whose time has
// passed.
func (b bench) closes(t *testing.T) {
	b.upstream.Replies(harness.Answer(200, "{}"))
	now := time.Now().Unix()
	ask := call{Adapter: b.adapter, Base: "http://" + b.gateway.Addr, KeyID: b.key.ID, Secret: b.key.Secret, VerifyAnswers: true, Method: "POST", Target: "/api/v1/orders"}
	do := func(what, nonce string, stamp int64) result {
		ask.Do, ask.Nonce, ask.Timestamp = what, nonce, strconv.FormatInt(stamp, 10)
		return b.driver.do(t, ask)
	}
	prefix := b.driver.cmd.Path + b.adapter // of this client's nonces
	prefix = auth.BodyHash([]byte(prefix))[:12]
	if got := do("close", prefix+"lost", now); got.Error != nil || !got.Closed {
		t.Errorf("a call that never arrived is not closed: %+v", got.Error)
	}
	if got := do("request", prefix+"lost", now); got.Error == nil || got.Error.Type != "taken" {
		t.Errorf("a closed call results in %d %+v", got.Status, got.Error)
	}
	if got := do("request", prefix+"sent", now); got.Error != nil || got.Status != http.StatusOK {
		t.Fatalf("%d %+v", got.Status, got.Error)
	}
	if got := do("close", prefix+"sent", now); got.Error == nil || got.Error.Type != "taken" || got.Closed {
		t.Errorf("a call that was taken is closed: %+v", got.Error)
	}
	if got := do("close", prefix+"old", now-400); got.Error == nil || got.Error.Type != "unknown" {
		t.Errorf("a call of long ago is closed: %+v", got.Error)
	}
	if got := do("close", prefix+"late", now-330); got.Error == nil || got.Closed {
		t.Errorf("a call is closed that the gateway has forgotten: %+v", got)
	}
	// A gateway that has lost the nonce of a call refuses what has its timestamp, and
	// would accept a later one.
	way, base := startBetween(t, b.gateway.Addr, "")
	ask.Base = base
	stamp := now - 100
	if got := do("close", prefix+"stamp", stamp); !got.Closed || len(way.stamps) != 1 || way.stamps[0] != ask.Timestamp {
		t.Errorf("a call stamped %d is closed by a request stamped %v: %+v", stamp, way.stamps, got)
	}
}

// outcome checks what the client returns.
func (c answerCase) outcome(t *testing.T, b bench, got result) {
	switch want := c.Error; {
	case c.MayFail && got.Error != nil && got.Error.Type == "unproven" && !got.Error.Unsigned:
	case want == nil:
		if got.Error != nil || got.Status != c.Status {
			t.Errorf("the result is %d %+v, want %d", got.Status, got.Error, c.Status)
		}
		if body := c.Issuer.reply("").Raw; !c.MayFail && c.Method != http.MethodHead && !strings.HasSuffix(body, "\r\n\r\n"+string(got.Body)) {
			t.Errorf("the body is %.300q", got.Body)
		}
	case want.Type == "api" && !b.raises:
		if got.Error != nil || got.Status != want.Status {
			t.Errorf("the result is %d %+v, want %d", got.Status, got.Error, want.Status)
		}
	case want.Type == "unproven" && c.Method == http.MethodPost: // with the answer as its cause
		if got.Error == nil || got.Error.Type != "unknown" && got.Error.Type != "taken" {
			t.Errorf("the result is %d %+v, want that it is not known", got.Status, got.Error)
		}
	case got.Error == nil:
		t.Errorf("an answer that is not proven is handed over: %d %.300q", got.Status, got.Body)
	case got.Error.Type != want.Type || got.Error.Status != want.Status || got.Error.Unsigned != want.Unsigned ||
		want.Code != "" && got.Error.Code != want.Code:
		t.Errorf("the error is %+v, want %+v", *got.Error, *want)
	case got.Error.Message == "":
		t.Error("the error has no message")
	}
}

// answerVectors checks answers.json of tests/vectors.
func answerVectors(t *testing.T, d *driver) {
	for _, v := range harness.AnswerVectors(t) {
		got := d.do(t, call{
			Do: "verify", KeyID: "ak_test_1", Secret: "test_secret_0123456789abcdef", Nonce: v.Nonce, Now: v.Now,
			Status: v.Status, Answer: v.Headers, Body: v.Bytes(),
		})
		switch {
		case v.Expect == "signed":
			if got.Error != nil || !got.Verified {
				t.Errorf("%s: refused: %+v", v.Name, got.Error)
			}
		case got.Error == nil || got.Error.Type != "unproven" || got.Error.Unsigned != (v.Expect == "unsigned"):
			t.Errorf("%s: the result is %t %+v, want that it is %s", v.Name, got.Verified, got.Error, v.Expect)
		}
	}
}

// startSigning starts a gateway that signs its answers.
func startSigning(t *testing.T) bench {
	t.Helper()
	upstream := startIssuer(t)
	gateway := harness.StartGateway(t, harness.Site{Upstream: upstream.Addr, Global: "sign_responses", Extra: "handle /gateway/v1/* {\ncard_auth\ncard_self\n}\n"})
	return bench{upstream: upstream, gateway: gateway, key: gateway.NewKey(harness.Fields{"mode": "test"})}
}
