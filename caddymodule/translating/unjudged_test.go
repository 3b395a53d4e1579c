package translating

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/zap"

	"github.com/card-gateway/card-gateway/auth"
	"github.com/card-gateway/card-gateway/caddymodule/meter"
	"github.com/card-gateway/card-gateway/caddymodule/request"
)

// A request that no card_auth has judged is refused.
func TestTranslateWithoutAuth(t *testing.T) {
	table, err := auth.NewTable(nil)
	if err != nil {
		t.Fatal(err)
	}
	counters, err := meter.New(prometheus.NewPedanticRegistry(), table)
	if err != nil {
		t.Fatal(err)
	}
	to := request.NewReporter(zap.NewNop(), counters)
	u := request.NewUnjudged(&to, table.ByName(auth.OtherOperation))
	h := &Translate{unjudged: u}
	w := httptest.NewRecorder()
	if err := h.ServeHTTP(w, httptest.NewRequest(http.MethodPost, "/gateway/v1/key/rotate", nil), nil); err != nil || w.Code != http.StatusInternalServerError || !strings.Contains(w.Body.String(), "INTERNAL_ERROR") {
		t.Errorf("the answer is %d %s, %v", w.Code, w.Body, err)
	}
}
