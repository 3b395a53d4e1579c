package cardexplain

import (
	"strings"
	"testing"

	"github.com/card-gateway/card-gateway/adminapi"
	"github.com/card-gateway/card-gateway/caddymodule/cardlog"
)

// The gateway remembers card numbers masked. What was captured is compared with
// that in the same form: a number in the URL is no change on the way.
func TestMaskedStringsAreCompared(t *testing.T) {
	t.Parallel()
	const sent = "GET\n/api/v1/cards/4111111111111111\n1750000000\nn-0001\nhash"
	for arrived, want := range map[string]bool{
		sent:                                   false,
		strings.Replace(sent, "GET", "PUT", 1): true,
		strings.Replace(sent, "n-0001", "n-0002", 1): true,
	} {
		r := &report{capture: new(capture), right: sent, refusal: new(adminapi.Refusal)}
		r.refusal.StringToSign = cardlog.MaskLines(arrived)
		r.compareArrived()
		if found := len(r.found) > 0; found != want || found && strings.Contains(r.right+r.wrong, "4111") {
			t.Errorf("%q arrived: %v, %q, %q", arrived, r.found, r.right, r.wrong)
		}
	}
}
