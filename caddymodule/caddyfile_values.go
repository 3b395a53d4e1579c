package caddymodule

import (
	"strconv"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"
	"github.com/dustin/go-humanize"

	"github.com/card-gateway/card-gateway/caddymodule/secret"
)

// noMore refuses further arguments on the line.
func noMore(d *caddyfile.Dispenser) error {
	if d.NextArg() {
		return d.Errf("unexpected argument %q", d.Val())
	}
	return nil
}

// oneArg returns the single argument of an option.
func oneArg(d *caddyfile.Dispenser, expected string) (string, error) {
	option := d.Val()
	if !d.NextArg() {
		return "", d.Errf("%s needs %s", option, expected)
	}
	value := d.Val()
	return value, noMore(d)
}

// parseNumber reads a whole number that is not below the least.
func parseNumber(d *caddyfile.Dispenser, least int) (int, error) {
	option := d.Val()
	text, err := oneArg(d, "a number")
	if err != nil {
		return 0, err
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < least {
		return 0, d.Errf("%s: %q is no number from %d on", option, text, least)
	}
	return n, nil
}

// parseSize reads a size in bytes such as 1MiB.
func parseSize(d *caddyfile.Dispenser) (int64, error) {
	text, err := oneArg(d, "a size such as 1MiB")
	if err != nil {
		return 0, err
	}
	return sizeOf(d, text)
}

func sizeOf(d *caddyfile.Dispenser, text string) (int64, error) {
	size, err := humanize.ParseBytes(text)
	if err != nil || size < 1 || size > 1<<40 {
		return 0, d.Errf("%q is no size; write for example 1MiB or 65536", text)
	}
	return int64(size), nil
}

// parseDuration reads a time span such as 5m.
func parseDuration(d *caddyfile.Dispenser) (caddy.Duration, error) {
	option := d.Val()
	text, err := oneArg(d, "a time span such as 5m")
	if err != nil {
		return 0, err
	}
	span, err := caddy.ParseDuration(text)
	if err != nil || span < 0 {
		return 0, d.Errf("%s: %q is no time span; write for example 30s, 5m or 1h", option, text)
	}
	return caddy.Duration(span), nil
}

// parseSecretRef reads the tokens `env NAME` or `file PATH`.
func parseSecretRef(d *caddyfile.Dispenser) (*secret.Ref, error) {
	if !d.NextArg() {
		return nil, d.Err("expected: env NAME, or file PATH; the secret itself never stands in the configuration")
	}
	kind := d.Val()
	if kind != "env" && kind != "file" {
		return nil, d.Err("expected env or file after the option; the secret itself never stands in the configuration")
	}
	if !d.NextArg() {
		return nil, d.Errf("expected a name or path after %s", kind)
	}
	if kind == "env" {
		return &secret.Ref{Env: d.Val()}, nil
	}
	return &secret.Ref{File: d.Val()}, nil
}
