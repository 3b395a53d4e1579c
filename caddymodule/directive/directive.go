// Package directive reads the blocks of directives in a Caddyfile, a line for each
// option.
//
// Begin with [Block]. What an option means is decided by the handler that has it.
package directive

import (
	"cmp"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strconv"
	"strings"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"
	"github.com/dustin/go-humanize"

	"github.com/card-gateway/card-gateway/headers"
	"github.com/card-gateway/card-gateway/secret"
)

// An Option is one line of a block of the Caddyfile.
type Option struct {
	Name string
	Read func(d *caddyfile.Dispenser) error
	// Repeats is set if the option may be on several lines.
	Repeats bool
	// Instead is the advice in the error for a second line.
	Instead string
}

// Block reads the options of a block, if there is one. An unknown option,
// and a second line of one that does not repeat, are errors with the line.
func Block(d *caddyfile.Dispenser, of string, options []Option) error {
	given := make(map[string]bool)
	for nesting := d.Nesting(); d.NextBlock(nesting); {
		name := d.Val()
		at := slices.IndexFunc(options, func(o Option) bool { return o.Name == name })
		if at < 0 {
			return d.Errf("unknown option %s of %s; it takes %s", name, of, optionNames(options))
		}
		o := &options[at]
		if given[name] && !o.Repeats {
			return d.Errf("%s is given a second time; %s", name, cmp.Or(o.Instead, "write one line"))
		}
		given[name] = true
		if err := o.Read(d); err != nil {
			return err
		}
	}
	return nil
}

func optionNames(options []Option) string {
	names := make([]string, len(options))
	for i := range options {
		names[i] = options[i].Name
	}
	return strings.Join(names, ", ")
}

// Flag reads an option that takes no argument.
func Flag(name string, into *bool) Option {
	return Option{Name: name, Read: func(d *caddyfile.Dispenser) error {
		*into = true
		return NoMore(d)
	}}
}

// Text reads an option with one argument. Errors describe it as expected.
func Text(name, expected string, into *string) Option {
	return Option{Name: name, Read: func(d *caddyfile.Dispenser) (err error) {
		*into, err = OneArg(d, expected)
		return err
	}}
}

// Duration reads an option with a time span such as 5m.
func Duration(name string, into *caddy.Duration) Option {
	return Option{Name: name, Read: func(d *caddyfile.Dispenser) (err error) {
		*into, err = ReadDuration(d)
		return err
	}}
}

// Size reads an option with a size in bytes such as 1MiB.
func Size(name string, into *int64) Option {
	return Option{Name: name, Read: func(d *caddyfile.Dispenser) error {
		text, err := OneArg(d, "a size such as 1MiB")
		if err != nil {
			return err
		}
		*into, err = SizeOf(d, text)
		return err
	}}
}

// Share reads an option with a part of a whole, as 1/8 or 0.125.
func Share(name string, into *float64) Option {
	return Option{Name: name, Read: func(d *caddyfile.Dispenser) error {
		text, err := OneArg(d, "a part such as 1/8")
		if err != nil {
			return err
		}
		part, of, isRatio := strings.Cut(text, "/")
		share, err := strconv.ParseFloat(part, 64)
		if err == nil && isRatio {
			var whole float64
			whole, err = strconv.ParseFloat(of, 64)
			share /= whole
		}
		if err != nil || !(share > 0 && share <= 1) {
			return d.Errf("%s: %q is not a part of the whole; write for example 1/8 or 0.125", name, text)
		}
		*into = share
		return nil
	}}
}

// Number reads an option with a whole number, not below least.
func Number(name string, least int, into *int) Option {
	return Option{Name: name, Read: func(d *caddyfile.Dispenser) error {
		text, err := OneArg(d, "a number")
		if err != nil {
			return err
		}
		n, err := strconv.Atoi(text)
		if err != nil || n < least {
			return d.Errf("%s: %q is no number from %d on", name, text, least)
		}
		*into = n
		return nil
	}}
}

// NoMore refuses further arguments on the line.
func NoMore(d *caddyfile.Dispenser) error {
	if d.NextArg() {
		return d.Errf("unexpected argument %q", d.Val())
	}
	return nil
}

// OneArg returns the single argument of an option.
func OneArg(d *caddyfile.Dispenser, expected string) (string, error) {
	option := d.Val()
	if !d.NextArg() {
		return "", d.Errf("%s needs %s", option, expected)
	}
	value := d.Val()
	return value, NoMore(d)
}

// SizeOf returns the size in bytes that a text such as 1MiB names.
func SizeOf(d *caddyfile.Dispenser, text string) (int64, error) {
	size, err := humanize.ParseBytes(text)
	if err != nil || size < 1 || size > 1<<40 {
		return 0, d.Errf("%q is no size; write for example 1MiB or 65536", text)
	}
	return int64(size), nil
}

// ReadDuration reads a time span such as 5m.
func ReadDuration(d *caddyfile.Dispenser) (caddy.Duration, error) {
	option := d.Val()
	text, err := OneArg(d, "a time span such as 5m")
	if err != nil {
		return 0, err
	}
	span, err := caddy.ParseDuration(text)
	if err != nil || span < 0 {
		return 0, d.Errf("%s: %q is no time span; write for example 30s, 5m or 1h", option, text)
	}
	return caddy.Duration(span), nil
}

// HostPort returns an error for a text that is not host:port, with a host name or an
// address, IPv6 in brackets, and a port in digits.
func HostPort(text string) error {
	host, port, err := net.SplitHostPort(text)
	n, portErr := strconv.ParseUint(port, 10, 16)
	_, addressErr := netip.ParseAddr(host)
	if err != nil || portErr != nil || n == 0 || addressErr != nil && (host == "" || strings.ContainsAny(host, "/?#@:%[]{}<>\"\\|^` \t")) {
		return fmt.Errorf("%q is not host:port with a port from 1 to 65535 and nothing around it, such as 10.0.0.7:9000 or [fd00::7]:9000", text)
	}
	return nil
}

// Secret reads the tokens `env NAME` or `file PATH`.
func Secret(d *caddyfile.Dispenser) (*secret.Ref, error) {
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

// Handler reads a directive that takes no argument and a block of options.
func Handler(d *caddyfile.Dispenser, name string, options []Option) error {
	d.Next()
	if err := NoMore(d); err != nil {
		return err
	}
	return Block(d, name, options)
}

// Headers returns the options of a rule in a handler's block.
func Headers(rule *headers.Rule) []Option {
	return []Option{
		{Name: "pass_header", Repeats: true, Read: func(d *caddyfile.Dispenser) error {
			names := d.RemainingArgs()
			if len(names) == 0 {
				return d.Err("pass_header needs the names of headers")
			}
			rule.PassHeader = append(rule.PassHeader, names...)
			return nil
		}},
		{Name: "headers", Instead: "write all names on one line", Read: func(d *caddyfile.Dispenser) error {
			words := d.RemainingArgs()
			if len(words) < 2 || words[0] != "only" {
				return d.Err("expected: headers only, and the names of headers")
			}
			rule.OnlyHeaders = words[1:]
			return nil
		}},
	}
}

// At returns a function that puts the file and line of the current token in front
// of a later error.
func At(d *caddyfile.Dispenser) func(error) error {
	file, line := d.File(), d.Line()
	return func(err error) error { return fmt.Errorf("%s:%d: %w", file, line, err) }
}

// Expand replaces the placeholders of the texts. The error names the text with an
// unknown or empty one.
func Expand(texts ...*string) error {
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
