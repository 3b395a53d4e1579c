package file

import (
	"bytes"
	"encoding/binary"
	"hash/crc32"
	"strings"
	"testing"

	"github.com/card-gateway/card-gateway/auth"
	"github.com/card-gateway/card-gateway/store"
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// TestEarlierFormat: a journal of version 1, which stored neither its size nor
// its end, is read completely, and no damage is reported.
func TestEarlierFormat(t *testing.T) {
	for _, how := range []string{"killed", "closed"} {
		t.Run(how, func(t *testing.T) {
			b := newBench(t, Options{})
			var accepted []*store.Claim
			for range 10 {
				c := b.claim()
				b.expect(c, auth.Accepted)
				accepted = append(accepted, c)
			}
			b.crash(func(dir string) {
				path := segments(t, dir)[0]
				seg := readFile(t, path)
				copy(seg, "CGJRNL\x00\x01")
				binary.LittleEndian.PutUint64(seg[72:], uint64(crc32.Update(0, castagnoli, seg[8:72])))
				if how == "closed" {
					seg = seg[:segmentHead+len(bytes.TrimRight(seg[segmentHead:], "\x00"))]
				}
				writeFile(t, path, seg)
			})
			if told := b.problems.text(); told != "" {
				t.Errorf("told %q", told)
			}
			for _, c := range accepted {
				b.expect(c, auth.ReplayedNonce)
			}
		})
	}
}

// TestLaterFormat: an intact segment of another version makes the start fail
// with a text that names the remedy. Its checksum shows that it is another
// version and not a damaged byte.
func TestLaterFormat(t *testing.T) {
	b := newBench(t, Options{})
	b.expect(b.claim(), auth.Accepted)
	dir := copyDir(t, b.dir)
	path := segments(t, dir)[0]
	seg := readFile(t, path)
	seg[7] = 3
	binary.LittleEndian.PutUint32(seg[76:], crc32.Update(0, castagnoli, seg[:76]))
	writeFile(t, path, seg)
	s, err := Open(dir, b.opt)
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Start(t.Context()); err == nil || !strings.Contains(err.Error(), "has format 3, this version reads format 2; use the version that wrote it") {
		t.Fatalf("Start: %v, want that the format is another one", err)
	}
}
