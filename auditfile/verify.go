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
	for _, f := range files {
		v := chainOf(chains, &f)
		if v == nil || f.first.Seq == from && !follows(v.last, f.first) {
			v = &verifier{from: from}
			chains = append(chains, v)
		}
		if v.report.Fault != "" {
			continue
		}
		v.report.Files = append(v.report.Files, f.path)
		if err := lines(f.path, v.line); err != nil {
			return v.report, err
		}
	}
	var report Report
	for i, v := range chains {
		if only := len(chains) == 1; only && v.report.Lines == 0 && v.report.Fault == "" {
			return v.report, ErrNoLines
		} else if v.report.Fault == "" {
			v.end(paths, only)
		}
		if i == 0 {
			report = v.report
		} else {
			report.Others = append(report.Others, v.report)
		}
	}
	if len(chains) == 0 {
		return report, ErrNoLines
	}
	return report, nil
}

// chainOf returns the chain that a file continues, by its first line, or by its head if it
// has no line; otherwise the one that is nearest before it, to name the fault. It returns
// nil if there is none, or if the file has lost all its lines.
func chainOf(chains []*verifier, f *recordFile) (nearest *verifier) {
	head, emptied, _ := readHead(f.path + headSuffix)
	emptied = emptied && f.first.Prev == ""
	for _, v := range chains {
		if follows(v.last, f.first) || emptied && v.last == head {
			return v
		}
		if !emptied && (nearest == nil || v.last.seq < f.first.Seq && (nearest.last.seq >= f.first.Seq || v.last.seq > nearest.last.seq)) {
			nearest = v
		}
	}
	return nearest
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
	from   uint64 // the number of the first line
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

// end compares the last line with the head beside one of the files, or, of an only chain,
// among them.
func (v *verifier) end(paths []string, only bool) {
	var head link
	have := false
	if !only {
		paths = v.report.Files
	}
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
