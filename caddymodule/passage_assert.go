package caddymodule

import (
	"github.com/card-gateway/card-gateway/assertion"
	"github.com/card-gateway/card-gateway/auth"
)

// assert prepares the assertion of a request whose sender is proved. card_forward
// makes it of what it sends. For reverse_proxy it is made here, because there the
// handlers behind card_auth change nothing but the body, and only card_translate
// does. assert refuses every request if another handler could.
func (p *passage) assert() *auth.Refusal {
	site := p.site
	if site.signer == nil || site.behind.answersOwn || !p.identified() {
		return nil
	}
	if why := site.behind.unasserted; why != "" {
		return auth.Refuse(auth.InternalError, why)
	}
	key := p.info.Key
	p.info.asserting = asserting{signer: site.signer, claims: assertion.Claims{
		RequestID: p.info.RequestID, KeyID: key.ID, Nonce: p.request.Credentials.Nonce, Tenant: key.Tenant,
		Scopes: key.Scopes.String(), Operation: p.info.Operation.Name, Digest: p.bodySum,
	}}
	if site.behind.proxies {
		p.info.asserting.put(p.r)
	}
	return nil
}
