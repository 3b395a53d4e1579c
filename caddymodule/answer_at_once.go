//go:build go1.27

package caddymodule

import "net/http"

// answerAtOnce lets a refusal go out although the request's body has not come
// in, which net/http would wait for, up to the size from which on it closes the
// connection instead.
func (p *passage) answerAtOnce() {
	const closesFrom = 256 << 10
	if !p.bodyRead && p.r.ProtoMajor == 1 && p.r.ContentLength != 0 && p.r.ContentLength < closesFrom {
		_ = http.NewResponseController(p.w).EnableFullDuplex() // else the answer comes late
	}
}
