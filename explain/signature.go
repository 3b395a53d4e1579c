package explain

import (
	"strconv"
	"time"

	"github.com/card-gateway/card-gateway/auth"
)

// signature explains rule 10: the form of X-Signature, a retired secret,
// another string to sign, another reading of the secret.
func (e *explainer) signature() {
	sent := readForm(e.Credentials.Signature)
	right := e.StringToSign()
	f, found := e.retired(&sent, right)
	if v := e.signedVariant(&sent, right); v != nil && !found {
		f, found = v.Finding, true
	}
	for _, s := range e.liveSecrets() {
		for _, v := range e.misreadings(s) {
			if v.fits(&sent, right) && !found {
				f, found = v.Finding, true
			}
		}
		if signs(s, right, &sent) {
			e.formOfRight(&sent, s, right)
			return
		}
	}
	e.addForm(&sent, "X-Signature")
	if !found {
		f = Finding{Kind: SignatureUnexplained}
	}
	e.found = append(e.found, f)
}

// signedVariant returns the first of the variants that a live secret has
// signed; nil when none was. It tries all of them in any case.
func (e *explainer) signedVariant(sent *form, right string) *variant {
	var signed *variant
	live, all := e.liveSecrets(), e.variants(right)
	for i := range all {
		for _, s := range live {
			if signs(s, all[i].text, sent) && signed == nil {
				signed = &all[i]
			}
		}
	}
	return signed
}

// SignedInstead returns the string that was signed instead of the right one, if
// one of the usual mistakes explains the signature. It can hold a body.
func SignedInstead(c *Case) (text string, found bool) {
	if c.Key == nil {
		return "", false
	}
	sent := readForm(c.Credentials.Signature)
	if v := (&explainer{Case: c}).signedVariant(&sent, c.StringToSign()); v != nil {
		return v.text, true
	}
	return "", false
}

// formOfRight explains a signature that is wrong by its form alone.
func (e *explainer) formOfRight(sent *form, s *auth.Secret, text string) {
	if sent.fits(digest(s, text)) {
		e.addForm(sent, "X-Signature")
		return
	}
	e.add(FormCase, "X-Signature")
}

// maxLive is how many live secrets a key has at most.
const maxLive = 2

// standIn is tried in place of live secrets that a key does not have, so that the
// time does not show how many there are. A signature by it is never accepted.
var standIn = auth.NewSecret(0, "in place of a missing secret", time.Time{})

// liveSecrets returns the secrets that verify requests now, and stand-ins for
// those that are missing.
func (e *explainer) liveSecrets() []*auth.Secret {
	live := make([]*auth.Secret, 0, maxLive)
	for _, s := range e.Key.Secrets {
		if s.Live(e.Now) {
			live = append(live, s)
		}
	}
	for len(live) < maxLive {
		live = append(live, standIn)
	}
	return live
}

// retired finds out whether a secret that has ended signed the request.
func (e *explainer) retired(sent *form, text string) (f Finding, found bool) {
	for _, list := range [][]*auth.Secret{e.Key.Secrets, e.Key.Retired} {
		for _, s := range list {
			if !signs(s, text, sent) || s.Expires().IsZero() {
				continue
			}
			f = Finding{SecretRetired, strconv.Itoa(s.Version()) + ", retired at " + s.Expires().UTC().Format(time.RFC3339)}
			found = true
		}
	}
	return f, found
}

// A misreading is a secret as a client may have read it.
type misreading struct {
	Finding
	secret *auth.Secret
}

func (m *misreading) fits(sent *form, text string) bool { return signs(m.secret, text, sent) }

// misreadings returns what clients make of a secret before they sign with it.
func (e *explainer) misreadings(s *auth.Secret) []misreading {
	var all []misreading
	for _, as := range readings {
		if misread := s.Read(as.text); misread != nil {
			all = append(all, misreading{Finding{Kind: as.kind}, misread})
		}
	}
	return append(all, misreading{Finding{Kind: SecretKeyID}, s.Read(func([]byte) []byte { return []byte(e.Credentials.KeyID) })})
}
