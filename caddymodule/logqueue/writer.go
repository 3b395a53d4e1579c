// Package logqueue is the log output `card_queue`: it writes the lines of a
// log in the background, so that no request waits for the output.
package logqueue

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/caddyconfig"
	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"
)

const writers = "caddy.logging.writers."

func init() {
	caddy.RegisterModule(new(Writer))
}

// Writer is the log output `card_queue`. It puts the lines of a log into a
// queue in front of another output. So no answer waits for a pipe that nobody
// reads, a disk that hangs or a log server that is down. The queue holds 8 MiB or
// 16384 lines; lines that do not fit are dropped and counted in
// card_gateway_log_dropped_total.
//
// When the process ends or a reload removes the output, the lines in the queue
// are written first, for at most two seconds.
type Writer struct {
	// The output of the lines. Default: standard error.
	WriterRaw json.RawMessage `json:"writer,omitempty" caddy:"namespace=caddy.logging.writers inline_key=output"`

	out caddy.WriterOpener
}

// CaddyModule returns the Caddy module information.
func (*Writer) CaddyModule() caddy.ModuleInfo {
	return caddy.ModuleInfo{ID: writers + "card_queue", New: func() caddy.Module { return new(Writer) }}
}

// Provision loads the output behind the queue.
func (w *Writer) Provision(ctx caddy.Context) error {
	if w.WriterRaw == nil {
		w.WriterRaw = json.RawMessage(`{"output":"stderr"}`)
	}
	module, err := ctx.LoadModule(w, "WriterRaw")
	if err != nil {
		return fmt.Errorf("card_queue: loading its output: %w", err)
	}
	var ok bool
	if w.out, ok = module.(caddy.WriterOpener); !ok {
		return fmt.Errorf("card_queue: %T is not an output", module)
	}
	if _, queued := w.out.(*Writer); queued {
		return errors.New("card_queue: its output is a card_queue itself; write it once")
	}
	return nil
}

// String names the output for operators.
func (w *Writer) String() string { return w.out.String() }

// WriterKey makes all logs of one output share its queue.
func (w *Writer) WriterKey() string { return "card_queue:" + w.out.WriterKey() }

// OpenWriter opens the output and begins to write to it.
func (w *Writer) OpenWriter() (io.WriteCloser, error) {
	out, err := w.out.OpenWriter()
	if err != nil {
		return nil, err
	}
	return newQueue(out, limits{bytes: 8 << 20, lines: 1 << 14}), nil
}

// UnmarshalCaddyfile reads `card_queue [<output> ...]`, with the options of
// that output.
func (w *Writer) UnmarshalCaddyfile(d *caddyfile.Dispenser) error {
	d.Next()
	if !d.NextArg() {
		return nil
	}
	var out any
	name := d.Val()
	switch name {
	case "stdout":
		out = caddy.StdoutWriter{}
	case "stderr":
		out = caddy.StderrWriter{}
	case "discard":
		out = caddy.DiscardWriter{}
	default:
		module, err := caddyfile.UnmarshalModule(d, writers+name)
		if err != nil {
			return err
		}
		out = module
	}
	if d.NextArg() {
		return d.Errf("unexpected argument %q", d.Val())
	}
	w.WriterRaw = caddyconfig.JSONModuleObject(out, "output", name, nil)
	return nil
}

// Interface guards
var (
	_ caddy.Provisioner     = (*Writer)(nil)
	_ caddy.WriterOpener    = (*Writer)(nil)
	_ caddyfile.Unmarshaler = (*Writer)(nil)
)
