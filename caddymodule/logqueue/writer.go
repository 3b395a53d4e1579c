// Package logqueue is the log output `card_queue`: it writes the lines of a
// log in the background, so that no request waits for the output.
//
// Begin with [Writer], the options; queue has what happens to a line, and journal what
// happens to a stream whose reader was started anew.
package logqueue

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"syscall"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/caddyconfig"
	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"
	"github.com/caddyserver/caddy/v2/modules/logging"
	"github.com/card-gateway/card-gateway/platform"
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
// When the process ends, the lines in the queues are written first, for at most
// five seconds. Until the first successful start, each line is written before the
// process goes on, and is copied to standard error if the output is another.
//
// A file is not opened before a configuration is started, so that `validate`, which
// may run as another user, does not create it.
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

// OpenWriter opens the output and begins to write to it. A file is only checked: the
// first line opens it.
func (w *Writer) OpenWriter() (io.WriteCloser, error) {
	room := limits{bytes: 8 << 20, lines: 1 << 14}
	file, isFile := w.out.(*logging.FileWriter)
	if !isFile {
		out, err := w.out.OpenWriter()
		if err != nil {
			return nil, err
		}
		switch w.out.(type) {
		case *caddy.StderrWriter:
			out = overJournal(out, syscall.Stderr)
		case *caddy.StdoutWriter:
			out = overJournal(out, syscall.Stdout)
		}
		q := newQueue(out, room)
		q.copies = !caddy.IsWriterStandardStream(w.out)
		return q, nil
	}
	if err := writable(file.Filename); err != nil {
		return nil, fmt.Errorf("card_queue: the file %s cannot be written: %w; use another path, or let the user of this process write it", file, err)
	}
	q := &queue{out: &lateFile{opener: file}, opened: opened, copies: true}
	q.begin(room)
	return q, nil
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

// lateFile is an output that the first line opens.
type lateFile struct {
	opener caddy.WriterOpener
	out    io.WriteCloser // nil: not open
	said   string         // the last error that standard error received
}

// Write opens the file unless it is open, and writes the line. While it cannot be
// opened, standard error has the reason.
func (f *lateFile) Write(line []byte) (int, error) {
	if f.out == nil {
		out, err := f.opener.OpenWriter()
		if err != nil {
			if text := "card_queue: " + err.Error() + "\n"; text != f.said {
				f.said = text
				terminal().put([]byte(text))
			}
			return 0, err
		}
		f.out = out
	}
	return f.out.Write(line)
}

// Close closes the file if it is open.
func (f *lateFile) Close() error {
	if f.out == nil {
		return nil
	}
	return f.out.Close()
}

// writable returns an error if a file cannot be written, or cannot be created
// because of its nearest directory that exists. It changes nothing.
func writable(path string) error {
	file, err := os.OpenFile(path, os.O_WRONLY|os.O_APPEND|syscall.O_NONBLOCK, 0)
	switch {
	case err == nil:
		return file.Close()
	case errors.Is(err, syscall.ENXIO): // a pipe that nobody reads yet
		return nil
	case !errors.Is(err, os.ErrNotExist):
		return err
	}
	dir, err := filepath.Abs(filepath.Dir(path))
	if err != nil {
		return err
	}
	for {
		switch info, err := os.Stat(dir); {
		case err == nil && !info.IsDir():
			return &os.PathError{Op: "open", Path: dir, Err: syscall.ENOTDIR}
		case err == nil:
			if err := platform.MayWrite(dir); err != nil {
				return &os.PathError{Op: "creating a file in", Path: dir, Err: err}
			}
			return nil
		case !errors.Is(err, os.ErrNotExist):
			return err
		}
		dir = filepath.Dir(dir)
	}
}
