package caddymodule

import (
	"strconv"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"
)

// UnmarshalCaddyfile reads:
//
//	card_forward <issuer>... {
//	    policy least|round_robin|first
//	    dial_timeout <time span>
//	    answer_timeout <time span>
//	    keepalive <time span>
//	    max_connections <n>
//	    host <name>|{client}
//	    tls {
//	        ca_file <path>
//	        server_name <name>
//	        client_certificate <certificate> <key>
//	        min tls1.2|tls1.3
//	    }
//	    fail_for <time span> after <failures> | never
//	    check <path> [every <time span>]
//	    pass_header <name>...
//	    headers only <name>...
//	}
func (h *Forward) UnmarshalCaddyfile(d *caddyfile.Dispenser) error {
	d.Next()
	if h.Issuers = d.RemainingArgs(); len(h.Issuers) == 0 {
		return d.Err("card_forward needs the address of an issuer, as host:port")
	}
	return readBlock(d, "card_forward", append([]option{
		{name: "policy", read: h.readPolicy},
		durationOption("dial_timeout", &h.DialTimeout),
		durationOption("answer_timeout", &h.AnswerTimeout),
		durationOption("keepalive", &h.KeepAlive),
		numberOption("max_connections", 1, &h.MaxConnections),
		textOption("host", "a name, or "+clientHost, &h.Host),
		{name: "tls", read: h.readTLS},
		{name: "fail_for", read: h.readFailFor},
		{name: "check", read: h.readCheck},
	}, h.HeaderRule.options()...))
}

func (h *Forward) readPolicy(d *caddyfile.Dispenser) (err error) {
	if h.Policy, err = oneArg(d, "least, round_robin or first"); err != nil {
		return err
	}
	if _, err := forwardPolicy(h.Policy); err != nil {
		return d.WrapErr(err)
	}
	return nil
}

func (h *Forward) readTLS(d *caddyfile.Dispenser) error {
	if err := noMore(d); err != nil {
		return err
	}
	h.TLS = new(ForwardTLS)
	return readBlock(d, "tls", []option{
		textOption("ca_file", "a path", &h.TLS.CAFile),
		textOption("server_name", "a name", &h.TLS.ServerName),
		{name: "client_certificate", read: func(d *caddyfile.Dispenser) error {
			if !d.Args(&h.TLS.Certificate, &h.TLS.Key) {
				return d.Err("client_certificate needs the paths of the certificate and of its key")
			}
			return noMore(d)
		}},
		{name: "min", read: func(d *caddyfile.Dispenser) (err error) {
			if h.TLS.Min, err = oneArg(d, "tls1.2 or tls1.3"); err != nil {
				return err
			}
			if _, err := tlsVersion(h.TLS.Min); err != nil {
				return d.WrapErr(err)
			}
			return nil
		}},
	})
}

// readFailFor reads `fail_for <time span> after <failures>`, or
// `fail_for never`.
func (h *Forward) readFailFor(d *caddyfile.Dispenser) (err error) {
	const expected = "fail_for needs: a time span, after, and a number of failures; or never"
	words := d.RemainingArgs()
	switch {
	case len(words) == 1 && words[0] == "never":
		h.FailAfter = -1
		return nil
	case len(words) != 3 || words[1] != "after":
		return d.Err(expected)
	}
	if h.FailFor, err = spanOf(d, words[0]); err != nil {
		return err
	}
	h.FailAfter, err = numberFrom1(d, words[2])
	return err
}

// readCheck reads `check <path> [every <time span>]`.
func (h *Forward) readCheck(d *caddyfile.Dispenser) (err error) {
	words := d.RemainingArgs()
	if len(words) != 1 && (len(words) != 3 || words[1] != "every") {
		return d.Err("check needs: a path, and perhaps every and a time span")
	}
	h.Check = &ForwardCheck{Path: words[0]}
	if len(words) == 3 {
		h.Check.Every, err = spanOf(d, words[2])
	}
	return err
}

// numberFrom1 parses a whole number of at least 1.
func numberFrom1(d *caddyfile.Dispenser, text string) (int, error) {
	n, err := strconv.Atoi(text)
	if err != nil || n < 1 {
		return 0, d.Errf("%q is not a number of at least 1", text)
	}
	return n, nil
}

// spanOf parses a time span above 0.
func spanOf(d *caddyfile.Dispenser, text string) (caddy.Duration, error) {
	span, err := caddy.ParseDuration(text)
	if err != nil || span <= 0 {
		return 0, d.Errf("%q is not a time span; write for example 10s", text)
	}
	return caddy.Duration(span), nil
}
