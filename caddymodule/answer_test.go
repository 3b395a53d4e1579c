package caddymodule

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
	"go.uber.org/zap"

	"github.com/card-gateway/card-gateway/auth"
	"github.com/card-gateway/card-gateway/held"
	"github.com/card-gateway/card-gateway/translate"
)

func TestRefusalOf(t *testing.T) {
	own := auth.Refuse(auth.InvalidBody, "x")
	if refusalOf(own) != own {
		t.Error("a refusal changed")
	}
	if got := refusalOf(context.Canceled).Reason; got != auth.InternalError {
		t.Error(got)
	}
}

// TestAnswerMemory: an answer without room in the memory is withheld with 503,
// and its memory is released.
func TestAnswerMemory(t *testing.T) {
	for name, c := range map[string]struct {
		limit  int64
		status int
	}{"room": {16 << 20, http.StatusOK}, "none": {1 << 20, http.StatusServiceUnavailable}} {
		m := held.NewMemory("answer_budget", c.limit, answerShare, answerShareAddress)
		record := `{"first_name":"` + strings.Repeat("a", 600<<10) + `"}`
		info := &requestInfo{reporter: new(newReporter(zap.NewNop(), nil)), Key: &auth.Key{ID: "k1"}, Operation: &auth.Operation{Name: "get_customer"}}
		r := withInfo(httptest.NewRequest(http.MethodGet, "/", nil), info)
		w := httptest.NewRecorder()
		answer := newAnswerWriter(w, r, info, translate.ResponseOptions{Variant: translate.VariantC})
		answer.memory = info.reserve(m)
		var most int64
		err := serveTranslated(answer, r, caddyhttp.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) error {
			w.Header().Set("Content-Type", "application/json")
			_, err := io.WriteString(w, record)
			most = m.Used()
			return err
		}))
		if err != nil || w.Code != c.status {
			t.Errorf("%s: %d, %v; want %d", name, w.Code, err, c.status)
		}
		if c.status == http.StatusOK && most < 600<<10 || m.Used() != 0 {
			t.Errorf("%s: %d bytes were counted, %d are left", name, most, m.Used())
		}
	}
}
