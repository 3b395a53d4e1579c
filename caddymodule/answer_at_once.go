//go:build go1.27

package caddymodule

import (
	"net/http"
)

// answerAtOnce makes net/http send a refusal before the request's body has
// arrived. Otherwise net/http would wait for a body below closesFrom bytes; with
// a larger one it closes the connection.
func (p *passage) answerAtOnce() {
	const closesFrom = 256 << 10
	if !p.decision.Body.Read && p.r.ProtoMajor == 1 && p.r.ContentLength != 0 && p.r.ContentLength < closesFrom {
		_ = http.NewResponseController(&p.w).EnableFullDuplex() // on failure the answer is only late
	}
}
