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
	// Others are the reports of further chains, such as those of other gateways.
	Others []Report `json:"others,omitempty"`
}

// ErrNoLines means that the files have no line.
var ErrNoLines = errors.New("there is no line of an audit record")

// Verify checks the chains through the files, which may be compressed by gzip. It
// finds their order by their first lines, and skips heads. The head beside a file shows
// whether the last file of a chain lost its end. Each chain begins with the line of the
// number from: 1, unless the files before it were deleted. The error is of a file that
// cannot be read.
func Verify(paths []string, from uint64) (Report, error) {
	files, err := sorted(paths)
	if err != nil {
		return Report{}, err
	}
	var chains []*verifier
	seen := make(map[link]bool)
	for _, f := range files {
		at := slices.IndexFunc(chains, func(v *verifier) bool { return follows(v.last, f.first) })
		if at < 0 && (f.first.Seq == from || len(chains) == 0) {
			chains = append(chains, &verifier{from: from, seen: seen})
		}
		if at < 0 {
			at = len(chains) - 1
		}
		v := chains[at]
		if v.report.Files = append(v.report.Files, f.path); v.report.Fault != "" {
			continue
		}
		if err := lines(f.path, v.line); err != nil {
			return v.report, err
		}
	}
	if len(chains) == 0 || chains[0].report.Lines == 0 && chains[0].report.Fault == "" {
		return Report{}, ErrNoLines
	}
	for i, v := range chains {
		if len(chains) > 1 {
			paths = v.report.Files
		}
		if v.report.Fault == "" {
			v.end(paths)
		}
		if i > 0 {
			chains[0].report.Others = append(chains[0].report.Others, v.report)
		}
	}
	return chains[0].report, nil
}

// recordFile is a file with its first whole line.
type recordFile struct {
	path  string
	first entry
}

// sorted returns the files that have lines, by the numbers of the first ones.
func sorted(paths []string) ([]recordFile, error) {
	var files []recordFile
	for _, path := range paths {
		if strings.HasSuffix(path, headSuffix) {
			continue
		}
		f := recordFile{path, entry{Seq: 1<<64 - 1}} // no whole line: after all others
		err := lines(path, func(l fileLine) bool {
			e, whole := parseLine(l.text)
			if whole {
				f.first = e
			}
			return !whole
		})
		if err != nil {
			return nil, err
		}
		files = append(files, f)
	}
	slices.SortStableFunc(files, func(a, b recordFile) int { return cmp.Compare(a.first.Seq, b.first.Seq) })
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
	from   uint64        // the number of the first line
	seen   map[link]bool // of all chains
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
	if v.report.Lines == 0 && e.Seq > v.from {
		return v.fault("lines %d to %d are missing: %s begins with number %d; name their files too, or, if they were deleted after their time, write --from %d", v.from, e.Seq-1, l.at, e.Seq, e.Seq)
	}
	if v.report.Lines == 0 && e.Seq == 1 && !follows(link{}, e) {
		return v.fault("%s was changed: it has number 1, and the hash of a line before it", l.at)
	}
	if v.report.Lines > 0 && !v.checkNext(e, l) {
		return false
	}
	v.last, v.at = linkOf(e, l.text), l.at
	v.seen[v.last] = true
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

// end looks for the line of each head that is beside one of the files or among them.
func (v *verifier) end(paths []string) {
	v.report.NoHead = true
	for _, path := range paths {
		head, found, err := readHead(strings.TrimSuffix(path, headSuffix) + headSuffix)
		if err != nil || !found {
			continue
		}
		v.report.NoHead = false
		switch {
		case v.seen[head]:
		case head.seq > v.last.seq:
			v.fault("line %d is missing: %s is the last one, but %d were written", v.last.seq+1, v.at, head.seq)
		default:
			v.fault("%s (line %d) was changed, or line %d is missing: no hash is the one that was written", v.at, v.last.seq, head.seq)
		}
	}
	switch {
	case v.report.Fault != "" || v.cut == nil:
	case v.cut.ended:
		v.fault("%s was changed: it is not a line of an audit record", v.cut.at)
	default:
		v.report.Torn = append(v.report.Torn, v.cut.at)
	}
}
