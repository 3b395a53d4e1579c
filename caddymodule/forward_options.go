package caddymodule

import (
	"crypto/sha256"
	"crypto/tls"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/caddyserver/caddy/v2"

	"github.com/card-gateway/card-gateway/forward"
)

// pooledForwarder is a forwarder in the pool.
type pooledForwarder struct{ *forward.Forwarder }

// Destruct closes the forwarder. Requests in flight are not stopped.
func (p pooledForwarder) Destruct() error {
	p.Close()
	return nil
}

// Provision takes the forwarder from the pool, or makes it.
func (h *Forward) Provision(ctx caddy.Context) error {
	h.log = ctx.Logger()
	app, err := appOf(ctx, "card_forward", h)
	if err != nil {
		return err
	}
	h.unjudged = newUnjudged(app)
	if err := h.provision(); err != nil {
		return fmt.Errorf("card_forward: %w", err)
	}
	return nil
}

func (h *Forward) provision() error {
	if err := h.HeaderRule.provision(); err != nil {
		return err
	}
	if h.Host != clientHost && strings.ContainsAny(h.Host, "{} \t") {
		return fmt.Errorf("host is %q; it must be a name, or %s", h.Host, clientHost)
	}
	if err := h.expand(); err != nil {
		return err
	}
	options, err := h.options()
	if err != nil {
		return err
	}
	key, err := h.place()
	if err != nil {
		return err
	}
	pooled, _, err := process.forwarders.LoadOrNew(key, func() (caddy.Destructor, error) {
		f, err := forward.New(options)
		return pooledForwarder{f}, err
	})
	if err != nil {
		return err
	}
	for _, issuer := range h.Issuers {
		upstreamConnections.WithLabelValues(issuer)
	}
	h.poolKey, h.forwarder = key, pooled.(pooledForwarder).Forwarder
	return nil
}

// Cleanup gives the forwarder back.
func (h *Forward) Cleanup() error {
	if h.poolKey == "" {
		return nil
	}
	_, err := process.forwarders.Delete(h.poolKey)
	return err
}

// expand replaces the placeholders of addresses and files.
func (h *Forward) expand() error {
	texts := make([]*string, 0, len(h.Issuers)+3)
	for i := range h.Issuers {
		texts = append(texts, &h.Issuers[i])
	}
	if h.TLS != nil {
		texts = append(texts, &h.TLS.CAFile, &h.TLS.Certificate, &h.TLS.Key)
	}
	replacer := caddy.NewReplacer()
	for _, text := range texts {
		expanded, err := replacer.ReplaceOrErr(*text, true, true)
		if err != nil {
			return fmt.Errorf("%s: %w", *text, err)
		}
		*text = expanded
	}
	return nil
}

// place returns the key of the forwarder in the pool: its options, and a hash of
// the authorities, which are read once.
func (h *Forward) place() (string, error) {
	place, err := json.Marshal(&Forward{
		Issuers: h.Issuers, Policy: h.Policy,
		DialTimeout: h.DialTimeout, AnswerTimeout: h.AnswerTimeout, KeepAlive: h.KeepAlive, MaxConnections: h.MaxConnections,
		TLS: h.TLS, FailFor: h.FailFor, FailAfter: h.FailAfter, Check: h.Check,
	})
	if err != nil || h.TLS == nil || h.TLS.CAFile == "" {
		return string(place), err
	}
	authorities, err := os.ReadFile(h.TLS.CAFile)
	if err != nil {
		return "", fmt.Errorf("reading the authorities: %w", err)
	}
	sum := sha256.Sum256(authorities)
	return string(place) + hex.EncodeToString(sum[:]), nil
}

// options returns the options of the forwarder.
func (h *Forward) options() (forward.Options, error) {
	o := forward.Options{
		DialTimeout: time.Duration(h.DialTimeout), AnswerTimeout: time.Duration(h.AnswerTimeout), IdleTimeout: time.Duration(h.KeepAlive),
		MaxConnections: h.MaxConnections, FailFor: time.Duration(h.FailFor), FailAfter: h.FailAfter,
		Observer: forward.Observer{Connections: countConnections, Problem: logIssuerProblem},
	}
	for _, issuer := range h.Issuers {
		if strings.Contains(issuer, "://") {
			return o, fmt.Errorf("issuer %q: write host:port; TLS is the option tls", issuer)
		}
		o.Issuers = append(o.Issuers, forward.Issuer{Address: issuer})
	}
	var err error
	if o.Policy, err = forwardPolicy(h.Policy); err != nil {
		return o, err
	}
	if h.Check != nil {
		o.Check = &forward.Check{Path: h.Check.Path, Every: time.Duration(h.Check.Every)}
	}
	if h.TLS == nil {
		return o, nil
	}
	o.TLS = &forward.TLS{CAFile: h.TLS.CAFile, ServerName: h.TLS.ServerName, CertificateFile: h.TLS.Certificate, KeyFile: h.TLS.Key}
	o.TLS.MinVersion, err = tlsVersion(h.TLS.Min)
	return o, err
}

func forwardPolicy(name string) (forward.Policy, error) {
	switch name {
	case "", "least":
		return forward.Least, nil
	case "round_robin":
		return forward.RoundRobin, nil
	case "first":
		return forward.First, nil
	default:
		return 0, fmt.Errorf("policy %q: write least, round_robin or first", name)
	}
}

func tlsVersion(name string) (uint16, error) {
	switch name {
	case "", "tls1.2":
		return tls.VersionTLS12, nil
	case "tls1.3":
		return tls.VersionTLS13, nil
	default:
		return 0, errors.New("min " + name + ": write tls1.2 or tls1.3")
	}
}
