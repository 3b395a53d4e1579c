package request

import (
	"context"
	"testing"

	"github.com/card-gateway/card-gateway/auth"
)

func TestRefusalOf(t *testing.T) {
	own := auth.Refuse(auth.InvalidBody, "x")
	if RefusalOf(own) != own {
		t.Error("a refusal changed")
	}
	if got := RefusalOf(context.Canceled).Reason; got != auth.InternalError {
		t.Error(got)
	}
}
