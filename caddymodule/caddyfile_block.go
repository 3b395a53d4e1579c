package caddymodule

import (
	"slices"
	"strconv"
	"strings"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"
)

// An option is one line of a block of the Caddyfile.
type option struct {
	name string
	read func(d *caddyfile.Dispenser) error
	// repeats is set if the option may be on several lines.
	repeats bool
	// instead is the advice in the error for a second line.
	instead string
}

// readBlock reads the options of a block, if there is one. An unknown option,
// and a second line of one that does not repeat, are errors with the line.
func readBlock(d *caddyfile.Dispenser, of string, options []option) error {
	given := make(map[string]bool)
	for nesting := d.Nesting(); d.NextBlock(nesting); {
		name := d.Val()
		at := slices.IndexFunc(options, func(o option) bool { return o.name == name })
		if at < 0 {
			return d.Errf("unknown option %s of %s; it takes %s", name, of, optionNames(options))
		}
		o := &options[at]
		if given[name] && !o.repeats {
			return d.Errf("%s is given a second time; %s", name, o.insteadOrDefault())
		}
		given[name] = true
		if err := o.read(d); err != nil {
			return err
		}
	}
	return nil
}

func (o *option) insteadOrDefault() string {
	if o.instead != "" {
		return o.instead
	}
	return "write one line"
}

func optionNames(options []option) string {
	names := make([]string, len(options))
	for i := range options {
		names[i] = options[i].name
	}
	last := len(names) - 1
	if last < 1 {
		return strings.Join(names, "")
	}
	return strings.Join(names[:last], ", ") + " and " + names[last]
}

// flagOption reads an option that takes no argument.
func flagOption(name string, into *bool) option {
	return option{name: name, read: func(d *caddyfile.Dispenser) error {
		*into = true
		return noMore(d)
	}}
}

// textOption reads an option with one argument. Errors describe it as expected.
func textOption(name, expected string, into *string) option {
	return option{name: name, read: func(d *caddyfile.Dispenser) (err error) {
		*into, err = oneArg(d, expected)
		return err
	}}
}

// durationOption reads an option with a time span such as 5m.
func durationOption(name string, into *caddy.Duration) option {
	return option{name: name, read: func(d *caddyfile.Dispenser) (err error) {
		*into, err = parseDuration(d)
		return err
	}}
}

// sizeOption reads an option with a size in bytes such as 1MiB.
func sizeOption(name string, into *int64) option {
	return option{name: name, read: func(d *caddyfile.Dispenser) (err error) {
		*into, err = parseSize(d)
		return err
	}}
}

// shareOption reads an option with a part of a whole, as 1/8 or 0.125.
func shareOption(name string, into *float64) option {
	return option{name: name, read: func(d *caddyfile.Dispenser) error {
		text, err := oneArg(d, "a part such as 1/8")
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

// numberOption reads an option with a whole number, not below least.
func numberOption(name string, least int, into *int) option {
	return option{name: name, read: func(d *caddyfile.Dispenser) (err error) {
		*into, err = parseNumber(d, least)
		return err
	}}
}
