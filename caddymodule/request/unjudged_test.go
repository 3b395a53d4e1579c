package request

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"github.com/card-gateway/card-gateway/auth"
	"github.com/card-gateway/card-gateway/caddymodule/meter"
)

// A handler that needs a judged request refuses every other one: nobody may know
// whose key it names. The answer is the gateway's own, and it is counted.
func TestMisplacedHandlers(t *testing.T) {
	core, lines := observer.New(zap.ErrorLevel)
	table, err := auth.NewTable(nil)
	if err != nil {
		t.Fatal(err)
	}
	counters, err := meter.New(prometheus.NewPedanticRegistry(), table)
	if err != nil {
		t.Fatal(err)
	}
	to := NewReporter(zap.New(core), counters)
	u := NewUnjudged(&to, table.ByName(auth.OtherOperation))
	requests := []string{"GET /gateway/v1/key", "POST /gateway/v1/echo", "POST /gateway/v1/key/rotate", "GET /api/v1/Customers"}
	counter := meter.RequestsTotal.WithLabelValues(auth.OtherOperation, auth.InternalError.String())
	before := testutil.ToFloat64(counter)
	for _, request := range requests {
		method, path, _ := strings.Cut(request, " ")
		w := httptest.NewRecorder()
		err := u.Misplaced(w, httptest.NewRequest(method, path, nil), "card_self")
		if err != nil || w.Code != http.StatusInternalServerError || !strings.Contains(w.Body.String(), "INTERNAL_ERROR") || w.Header().Get("X-Request-Id") == "" {
			t.Errorf("%s without card_auth is answered %d %s %v, %v", request, w.Code, w.Body, w.Header(), err)
		}
	}
	if got := testutil.ToFloat64(counter) - before; got != float64(len(requests)) {
		t.Errorf("%g of %d are counted", got, len(requests))
	}
	if !strings.Contains(lines.All()[0].Message, "card_self runs where card_auth has not run before; put card_auth in front of it") {
		t.Errorf("the log says %+v", lines.All())
	}
}
