package forward

import (
	"context"
	"io"
	"net/http"
	"strconv"
)

// maxCheckBody is the most bytes that are read of the answer to a check.
const maxCheckBody = 64 << 10

// check makes an active check of an issuer, over the connections that requests
// use. By the result it takes the issuer out or back.
func (f *Forwarder) check(ctx context.Context, is *issuer) {
	bounded, cancel := context.WithTimeout(ctx, f.options.Check.Timeout)
	defer cancel()
	x := newExchange(bounded, &Request{Method: http.MethodGet, Target: f.options.Check.Path}, &f.options)
	defer x.free()
	answer, err := x.on(is)
	switch {
	case ctx.Err() != nil, err != nil && err.Kind == KindBusy:
		// Nothing is known.
	case err != nil:
		is.checked(err.Text)
	case !f.options.Check.accepts(answer.Status):
		is.checked("the active check was answered with status " + strconv.Itoa(answer.Status))
	default:
		is.checked("")
	}
	if answer != nil {
		_, _ = io.CopyN(io.Discard, answer, maxCheckBody)
		_ = answer.Close()
	}
}

func (c *Check) accepts(status int) bool {
	return status == c.Status || c.Status == 0 && status >= 200 && status < 300
}

// checked takes the result of an active check: the fault of the issuer, or "".
func (is *issuer) checked(fault string) {
	if was := is.health.down.Swap(fault != ""); !was && fault != "" {
		is.report(KindCheck, "out by an active check: "+fault)
	}
}
