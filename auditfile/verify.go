package auditfile

import (
	"bufio"
	"cmp"
	"compress/gzip"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
)

// A Report is what Verify has found.
type Report struct {
	Files []string `json:"files"` // in the order of the chain
	Lines int      `json:"lines"`
	First uint64   `json:"first"` // numbers of lines
	Last  uint64   `json:"last"`
	Hash  string   `json:"hash"`            // of the last line, in hex
	Torn  []string `json:"torn,omitempty"`  // lines that a crash has cut off
	Fault string   `json:"fault,omitempty"` // the first line that is missing or changed
	// NoHead is whether no head was found, so that lines which are missing at the end
	// are not noticed.
	NoHead bool `json:"no_head,omitempty"`
}

// ErrNoLines means that the files have no line.
var ErrNoLines = errors.New("there is no line of an audit record")

// Verify checks the chain through the files, which may be compressed by gzip. It
// finds their order by their first lines, and skips heads. The head beside the
// last file shows whether that file lost its end. The chain need not begin with
// the first line ever written. The error is of a file that cannot be read.
func Verify(paths []string) (Report, error) {
	files, err := sorted(paths)
	if err != nil {
		return Report{}, err
	}
	v := new(verifier)
	for _, path := range files {
		v.report.Files = append(v.report.Files, path)
		if err := lines(path, v.line); err != nil || v.report.Fault != "" {
			return v.report, err
		}
	}
	if v.report.Lines == 0 {
		return v.report, ErrNoLines
	}
	v.end(paths)
	return v.report, nil
}

// sorted returns the files that have lines, by the numbers of the first ones.
func sorted(paths []string) ([]string, error) {
	first := make(map[string]uint64)
	var files []string
	for _, path := range paths {
		if strings.HasSuffix(path, headSuffix) {
			continue
		}
		number := uint64(1<<64 - 1) // no whole line: after all others
		err := lines(path, func(l fileLine) bool {
			e, whole := parseLine(l.text)
			if whole {
				number = e.Seq
			}
			return !whole
		})
		if err != nil {
			return nil, err
		}
		first[path], files = number, append(files, path)
	}
	slices.SortStableFunc(files, func(a, b string) int { return cmp.Compare(first[a], first[b]) })
	return files, nil
}

// fileLine is a line of a file. The last line of a file may have no line end.
type fileLine struct {
	text  []byte
	at    string // file and number
	ended bool
}

// lines calls visit for each line of a file, until it returns false.
func lines(path string, visit func(fileLine) bool) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	var text io.Reader = f
	if strings.HasSuffix(path, ".gz") {
		if text, err = gzip.NewReader(f); err != nil {
			return fmt.Errorf("%s: %w", path, err)
		}
	}
	reader := bufio.NewReaderSize(text, 64<<10)
	for number := 1; ; number++ {
		line, err := reader.ReadBytes('\n')
		if len(line) > 0 {
			ended := line[len(line)-1] == '\n'
			if !visit(fileLine{[]byte(strings.TrimSuffix(string(line), "\n")), fmt.Sprintf("%s:%d", path, number), ended}) {
				return nil
			}
		}
		switch {
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return fmt.Errorf("%s: %w", path, err)
		}
	}
}

// A verifier goes along the chain.
type verifier struct {
	report Report
	last   link
	at     string    // of the last line
	cut    *fileLine // a line that is not whole, until the next one explains it
}

func (v *verifier) fault(format string, args ...any) bool {
	v.report.Fault = fmt.Sprintf(format, args...)
	return false
}

func (v *verifier) line(l fileLine) bool {
	e, whole := parseLine(l.text)
	if !whole {
		if v.cut != nil {
			return v.fault("%s was changed: it is not a line of an audit record", v.cut.at)
		}
		v.cut = &l
		return true
	}
	// Without a line end it was the last line of its file.
	if cut := v.cut; cut != nil && (cut.ended && e.TornBytes != len(cut.text) || !follows(v.last, e)) {
		return v.fault("%s was changed: it is not a line of an audit record, and the next line does not say that a crash has cut it off", cut.at)
	}
	if v.cut != nil {
		v.report.Torn = append(v.report.Torn, v.cut.at)
		v.cut = nil
	}
	if v.report.Lines > 0 && !v.checkNext(e, l) {
		return false
	}
	v.last, v.at = linkOf(e, l.text), l.at
	if v.report.Lines == 0 {
		v.report.First = e.Seq
	}
	v.report.Lines++
	v.report.Last, v.report.Hash = e.Seq, hex.EncodeToString(v.last.hash[:])
	return true
}

// checkNext checks that a line is the one after the last.
func (v *verifier) checkNext(e entry, l fileLine) bool {
	switch {
	case e.Seq > v.last.seq+1:
		return v.fault("line %d is missing: %s has number %d, and %s number %d", v.last.seq+1, v.at, v.last.seq, l.at, e.Seq)
	case e.Seq <= v.last.seq:
		return v.fault("%s was changed or is in the wrong place: it has number %d after %d", l.at, e.Seq, v.last.seq)
	case !follows(v.last, e):
		return v.fault("%s (line %d) was changed: its hash is not the one in the line after it", v.at, v.last.seq)
	}
	return true
}

// end compares the last line with the head that is among the files or beside one
// of them.
func (v *verifier) end(paths []string) {
	var head link
	have := false
	for _, path := range paths {
		one, ok, err := readHead(strings.TrimSuffix(path, headSuffix) + headSuffix)
		if err == nil && ok && (!have || one.seq > head.seq) {
			head, have = one, true
		}
	}
	v.report.NoHead = !have
	switch {
	case have && head.seq > v.last.seq:
		v.fault("line %d is missing: %s is the last one, but %d were written", v.last.seq+1, v.at, head.seq)
	case have && head.seq == v.last.seq && head.hash != v.last.hash:
		v.fault("%s (line %d) was changed: its hash is not the one that was written", v.at, v.last.seq)
	case v.cut != nil && v.cut.ended:
		v.fault("%s was changed: it is not a line of an audit record", v.cut.at)
	case v.cut != nil:
		v.report.Torn = append(v.report.Torn, v.cut.at)
	}
}
