package explaincmd

import (
	"crypto/sha256"
	"strconv"
	"time"

	"github.com/card-gateway/card-gateway/auth"
	"github.com/card-gateway/card-gateway/caddymodule/cardlog"
	"github.com/card-gateway/card-gateway/explain"
)

// window is how far X-Timestamp may be from the clock: the published
// interface, Authentication, rule 7.
const window = 5 * time.Minute

// examine finds out what is wrong with the captured request.
func (r *report) examine() {
	c := r.capture
	r.notes = append(r.notes, c.notes...)
	if refusal := auth.CheckMethod(c.method); refusal != nil {
		r.add("method", refusal.Text())
	}
	if _, refusal := auth.ParseTarget(c.target); refusal != nil {
		r.add("target", refusal.Text())
	}
	credentials, missing := auth.ParseCredentials(c.header)
	if missing != nil {
		r.found = append(r.found, missing.Details...)
		return
	}
	request := &explain.Case{
		Request: auth.Request{Method: c.method, Target: c.target, Credentials: credentials},
		Host:    c.host, Now: c.at, Window: window,
		Body: &explain.Body{Size: int64(len(c.body)), Sum: sha256.Sum256(c.body), Bytes: c.body},
	}
	if request.Now.IsZero() {
		request.Now = time.Now()
	}
	r.judge(request)
	if r.right = request.StringToSign(); request.View().StringToSign == "" {
		r.right = "" // it holds the secret
	}
	for _, f := range explain.Explain(request) {
		r.add(f.Kind.String(), f.Text())
		if f.Kind == explain.TimestampBehind && c.at.IsZero() {
			r.notes = append(r.notes, "the clock is that of this machine: the timestamp is no mistake if the request was captured so long ago")
		}
	}
	if text, known := explain.SignedInstead(request); known && r.right != "" {
		r.wrong = text
	}
	if r.signed != nil && r.right != "" && *r.signed != r.right {
		r.wrong = *r.signed
		r.add("string_to_sign", "the client signed another string than the request has. Sign "+partAt(r.right, differAt(r.right, r.wrong))+" as it is sent.")
	}
	r.compareArrived()
}

// judge finds out which rules the request fails that it can be judged by.
func (r *report) judge(c *explain.Case) {
	if r.secret == "" {
		r.notes = append(r.notes, "without the secret the signature is not checked: set CARD_SECRET, or name a file with --secret-file")
	} else {
		c.Key = &auth.Key{ID: c.Credentials.KeyID, Secrets: []*auth.Secret{auth.NewSecret(1, r.secret, time.Time{})}}
		c.Failed = auth.Judge(&c.Request, c.Key, c.Window, c.Now).Failed & auth.RuleSignature
	}
	if !auth.InWindow(c.Now, c.Credentials.Unix, c.Window) {
		c.Failed |= auth.RuleTimestamp
	}
	if !auth.BodyHashEqual(c.Credentials.BodyHash, c.Body.Sum) {
		c.Failed |= auth.RuleBodyHash
	}
}

// compareArrived compares the captured request with what the gateway received.
func (r *report) compareArrived() {
	if r.refusal == nil {
		return
	}
	r.found = append(r.found, r.refusal.Findings...)
	sent := cardlog.MaskLines(r.right) // as what arrived is
	if arrived := r.refusal.StringToSign; arrived != "" && r.right != "" && arrived != sent {
		r.add("changed_on_the_way", "the gateway received another "+partAt(sent, differAt(sent, arrived))+
			" than was captured. Look for a proxy or a library that rewrites requests, or a capture of another request.")
		r.right, r.wrong = sent, arrived
	}
	sum := sha256.Sum256(r.capture.body)
	if hash := r.refusal.ReceivedHash; hash != "" && hash != auth.EncodeHash(sum) {
		r.add("body_changed_on_the_way", "the gateway received "+strconv.FormatInt(*r.refusal.ReceivedBytes, 10)+" bytes of body, and "+
			strconv.Itoa(len(r.capture.body))+" others were captured. Look for a proxy or a library that rewrites bodies.")
	}
}
