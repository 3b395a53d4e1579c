package logqueue

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"syscall"

	"github.com/caddyserver/caddy/v2"
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
			return mayCreateIn(dir)
		case !errors.Is(err, os.ErrNotExist):
			return err
		}
		dir = filepath.Dir(dir)
	}
}
