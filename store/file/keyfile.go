package file

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"github.com/card-gateway/card-gateway/platform"
	"github.com/card-gateway/card-gateway/store"
)

// The key file begins with one JSON object, written by a program and checked as a
// whole:
//
//	{"format":"card-gateway keys","version":1,"sha256":"<hex, of data>","data":{"meta":{
//	"name":"base64"
//	},"keys":[
//	{"id":"ck_live_…", …}
//	]}}
//
// Every key has a line of its own. A file with any other byte is damaged. The seal
// of a record is a named value, "seal:" and the id: an earlier version refuses a
// key file with a field that it does not know, and keeps all named values.
//
// In a file of version 2 the changes since then follow, an object in one line each,
// with such data: the record of a key, the id of one that is "deleted", or a named
// value (null: it is removed). The checksum of a change is of the checksum before it
// and its data, so that no line can be missing. A last line without its end was
// being written when the process ended. Earlier versions of the gateway, which would
// not see the changes, refuse version 2; a store that is closed leaves version 1.
const (
	keyFileName    = "keys.json"
	keyFileWhole   = 1 // version of a file without changes
	keyFileGrowing = 2
	keyFileStart   = `{"format":"card-gateway keys","version":`
	keyFileSum     = `,"sha256":"`
	keyFileData    = `","data":`
	keyFileEnd     = "}\n"
	dataEnd        = "\n]}" // of the first object
	sealPrefix     = "seal:"
)

// A keyFile is what a key file holds, or one of the objects in it.
type keyFile struct {
	Meta    map[string][]byte `json:"meta,omitempty"`
	Keys    []*store.Record   `json:"keys,omitempty"`
	Deleted string            `json:"deleted,omitempty"`

	version int    // 0: there is no file
	sum     string // the checksum of the last object
}

// damaged returns an error with the fault of a key file, and what an operator can do.
func damaged(path, what string) error {
	return fmt.Errorf("key file %s is damaged (%s): restore it from a backup, or move it away to begin without keys", path, what)
}

// readKeyFile reads the key file, if there is one.
func readKeyFile(path string) (f keyFile, err error) {
	b, err := readOwn(path)
	switch {
	case errors.Is(err, os.ErrNotExist):
		return keyFile{Meta: make(map[string][]byte)}, nil
	case err != nil:
		return f, fmt.Errorf("reading the key file: %w", err)
	}
	return parseKeyFile(path, b)
}

// parseKeyFile accepts exactly what appendObject writes.
func parseKeyFile(path string, b []byte) (f keyFile, err error) {
	var changes []byte
	if at := bytes.Index(b, []byte(dataEnd+keyFileEnd)); at >= 0 && bytes.HasPrefix(b, []byte(keyFileStart+"2")) {
		at += len(dataEnd + keyFileEnd)
		b, changes = b[:at], bytes.TrimRight(b[at:], "\x00")
	}
	keys := make(map[string]*store.Record)
	f.Meta = make(map[string][]byte)
	c, err := parseObject(path, b, "")
	if f.version, f.sum = c.version, c.sum; err != nil {
		return f, err
	}
	for n := bytes.Count(b, []byte("\n")) + 1; ; n++ {
		for _, r := range c.Keys {
			keys[r.ID] = r
			delete(f.Meta, sealPrefix+r.ID)
		}
		delete(keys, c.Deleted)
		maps.Copy(f.Meta, c.Meta)
		if len(keys) < len(c.Keys) {
			return f, damaged(path, "it holds a key twice")
		}
		line, rest, ended := bytes.Cut(changes, []byte("\n"))
		if !ended {
			line = line[:max(len(line)-1, 0)] // is it whole, and its end another byte?
		}
		if c, err = parseObject(path, append(slices.Clip(line), '\n'), f.sum); err != nil && !ended {
			break
		}
		if err != nil || !ended || c.version != keyFileGrowing {
			return f, damaged(path, fmt.Sprintf("its line %d, a change, is not as it was written", n))
		}
		f.sum, changes = c.sum, rest
	}
	f.Keys = slices.Collect(maps.Values(keys))
	for _, r := range f.Keys {
		r.Seal = f.Meta[sealPrefix+r.ID]
	}
	maps.DeleteFunc(f.Meta, func(name string, value []byte) bool { // seals of deleted keys, too
		return value == nil || strings.HasPrefix(name, sealPrefix)
	})
	return f, nil
}

// parseObject parses the first object, or a change. before is the checksum of the one
// before it.
func parseObject(path string, b []byte, before string) (f keyFile, err error) {
	rest, ok := bytes.CutPrefix(b, []byte(keyFileStart))
	if !ok {
		return f, damaged(path, "it does not begin as a key file")
	}
	version, rest, ok := bytes.Cut(rest, []byte(keyFileSum))
	if f.version, err = strconv.Atoi(string(version)); !ok || err != nil || strconv.Itoa(f.version) != string(version) {
		return f, damaged(path, "its first line is not that of a key file")
	} else if f.version != keyFileWhole && f.version != keyFileGrowing {
		return f, fmt.Errorf("key file %s has format %d, this version reads formats %d and %d: use the version that wrote it", path, f.version, keyFileWhole, keyFileGrowing)
	}
	sum, rest, found := bytes.Cut(rest, []byte(keyFileData))
	data, complete := bytes.CutSuffix(rest, []byte(keyFileEnd))
	if !found || !complete {
		return f, damaged(path, "it is cut off")
	}
	if f.sum = dataSum(before, data); string(sum) != f.sum {
		return f, damaged(path, "its content does not fit its checksum")
	}
	dec := json.NewDecoder(bytes.NewReader(data))
	dec.DisallowUnknownFields()
	if err := dec.Decode(&f); err != nil {
		return f, damaged(path, err.Error())
	}
	if _, err := dec.Token(); err == nil {
		return f, damaged(path, "more follows after its data")
	}
	for i, r := range f.Keys {
		switch {
		case r == nil || r.ID == "" || r.Revision == "":
			return f, damaged(path, fmt.Sprintf("key %d lacks its id or revision", i+1))
		case r.Seal != nil:
			return f, damaged(path, "its key "+r.ID+" has an unknown field \"seal\"")
		}
	}
	return f, nil
}

// dataSum returns the checksum of an object.
func dataSum(before string, data []byte) string {
	sum := sha256.New()
	sum.Write([]byte(before))
	sum.Write(data)
	return hex.EncodeToString(sum.Sum(nil))
}

// newStored returns a record with its text in the key file.
func newStored(r *store.Record) (*storedRecord, error) {
	bare := *r
	bare.Seal = nil
	line, err := json.Marshal(&bare)
	if err != nil {
		return nil, fmt.Errorf("key %s: %w", r.ID, err)
	}
	s := &storedRecord{record: r, line: line}
	if r.Seal != nil {
		s.seal = valueLine(sealPrefix+r.ID, r.Seal)
	}
	return s, nil
}

// change returns the data of the change that writes the record.
func (s *storedRecord) change() []byte {
	return fmt.Appendf(nil, `{"meta":{%s},"keys":[%s]}`, s.seal, s.line)
}

// otherChange returns the data of a change of named values, or of a key that is deleted.
func otherChange(c keyFile) []byte {
	data, _ := json.Marshal(c) // without records it cannot fail
	return data
}

// valueLine returns the line of a named value.
func valueLine(name string, value []byte) []byte {
	line, _ := json.Marshal(map[string][]byte{name: value}) // of these types it cannot fail
	return line[1 : len(line)-1]
}

// appendObject encodes an object of a key file, behind one with the checksum before.
// appendData encodes its data.
func appendObject(b []byte, version int, before string, appendData func([]byte) []byte) (_ []byte, sum string) {
	b = append(b, keyFileStart...)
	b = strconv.AppendInt(b, int64(version), 10)
	b = append(b, keyFileSum...)
	sumAt := len(b)
	b = append(b, make([]byte, hex.EncodedLen(sha256.Size))...)
	b = append(b, keyFileData...)
	dataAt := len(b)
	b = appendData(b)
	sum = dataSum(before, b[dataAt:])
	copy(b[sumAt:], sum)
	return append(b, keyFileEnd...), sum
}

// appendAll encodes the data of all keys, in the order of their ids, and named values.
func (st *state) appendAll(b []byte) []byte {
	b = append(b, `{"meta":{`...)
	separator := "\n"
	add := func(line []byte) {
		b = append(b, separator...)
		b = append(b, line...)
		separator = ",\n"
	}
	for _, name := range slices.Sorted(maps.Keys(st.meta)) {
		add(valueLine(name, st.meta[name]))
	}
	for _, id := range st.ids {
		if s := st.key(id).stored.Load(); s.seal != nil {
			add(s.seal)
		}
	}
	b = append(b, "\n},\"keys\":["...)
	separator = "\n"
	for _, id := range st.ids {
		add(st.key(id).stored.Load().line)
	}
	return append(b, dataEnd...)
}

// A keyLog is the key file while changes are appended to it. The guard of st.changes
// guards it.
type keyLog struct {
	f    *os.File // nil: the next change writes the file anew
	size int64    // of the file
	most int64    // size at which it is written anew, so that the cost of a change is constant
}

// record writes a change, which its data describes, into the key file, through to the
// disk. The caller must hold st.changes.
func (st *state) record(data []byte) error {
	before := *st.keySum.Load()
	if st.appendChange(data) {
		return nil
	}
	err := st.writeKeyFile(data)
	if err != nil {
		st.note(before)
	}
	return err
}

// note writes into the journal which object is the last of the key file. If the journal
// cannot be written, the key file still counts.
func (st *state) note(sum string) {
	st.keySum.Store(&sum)
	_ = st.journal.Drop(nil, st.opt.Clock().Unix())
}

// appendChange appends the change to the key file. It returns false if the file must be
// written anew.
func (st *state) appendChange(data []byte) bool {
	l := &st.log
	if l.f == nil || l.size >= l.most || !sameFile(l.f, st.path) {
		return false
	}
	b, sum := appendObject(nil, keyFileGrowing, *st.keySum.Load(), func(b []byte) []byte { return append(b, data...) })
	st.note(sum)
	_, err := l.f.WriteAt(b, l.size)
	if cmp.Or(err, st.opt.sync(l.f)) != nil {
		_ = l.f.Truncate(l.size) // no change that fails is read again
		return false
	}
	l.size += int64(len(b))
	return true
}

// writeKeyFile writes the key file anew: the state, and the change behind it if its data
// are not nil. The caller must hold st.changes.
func (st *state) writeKeyFile(data []byte) error {
	_ = st.log.f.Close() // which frees the room of the file that is replaced
	st.log = keyLog{}
	if st.version = keyFileWhole; data != nil {
		st.version = keyFileGrowing
	}
	b, sum := appendObject(st.document[:0], st.version, "", st.appendAll)
	if data != nil {
		b, sum = appendObject(b, st.version, sum, func(b []byte) []byte { return append(b, data...) })
	}
	st.document = b
	st.note(sum)
	err := replaceFile(st.path, b, st.opt.sync)
	if spare := st.spare; fullDisk(err) && spare.f != nil && spare.size >= len(b) {
		st.spare = keySpare{}
		err = putInPlace(spare.f, st.path, b, st.opt.sync)
		st.prepareSpare() // of the room that the old file has left
	}
	if err != nil {
		return fmt.Errorf("%w: writing the key file: %w", store.ErrUnavailable, err)
	}
	if f, err := platform.OpenOwn(st.path, os.O_WRONLY, 0); err == nil {
		size := int64(len(b))
		st.log = keyLog{f, size, size + max(size/2, spareMargin)}
	}
	return nil
}

// replaceFile replaces the content of the file. It first writes the new file under
// another name.
func replaceFile(path string, content []byte, sync func(*os.File) error) error {
	f, err := createAnew(path + ".new")
	if err != nil {
		return err
	}
	return putInPlace(f, path, content, sync)
}

// putInPlace writes the content into a file, closes it and puts it at the path. Even
// after a crash, either the old or the new file is there on the disk, complete. If f is
// as long as the content, nothing is allocated for it.
func putInPlace(f *os.File, path string, content []byte, sync func(*os.File) error) error {
	_, err := f.WriteAt(content, 0)
	if err = cmp.Or(err, f.Truncate(int64(len(content))), sync(f)); err == nil && !sameFile(f, f.Name()) {
		err = fmt.Errorf("%s is not the file that the gateway made", f.Name())
	}
	if err = cmp.Or(err, f.Close()); err == nil {
		err = os.Rename(f.Name(), path)
	}
	if err != nil {
		_ = os.Remove(f.Name())
		return err
	}
	dir, err := os.Open(filepath.Dir(path))
	if err == nil {
		err = sync(dir) // so that the rename survives a crash
	}
	return cmp.Or(err, dir.Close())
}

// sameFile reports whether the path is still that of the open file.
func sameFile(f *os.File, path string) bool {
	own, _ := f.Stat() // nil: they differ
	found, _ := os.Lstat(path)
	return os.SameFile(own, found)
}

// createAnew makes a file. A file or link of that name, left by a crash or planted,
// is removed and never followed.
func createAnew(path string) (*os.File, error) {
	_ = os.Remove(path)
	return os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
}

// A keySpare is room on the disk for the next key file, so that keys can be
// changed while the disk is full. The guard of st.changes guards it.
type keySpare struct {
	f    *os.File // nil: there is no room
	size int
}

const (
	spareSuffix = ".spare"
	spareMargin = 64 << 10 // bytes by which a key file may grow
	spareLeast  = 4 << 10  // the margin when the disk is almost full
)

// fullDisk reports whether an error means that there is no room.
func fullDisk(err error) bool {
	return errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT)
}

// prepareSpare makes room for the next key file if there is less than it needs.
// The caller must hold st.changes. Until the room is made, Status reports that
// changes of keys are in danger.
func (st *state) prepareSpare() {
	length := len(st.document)
	if info, err := os.Stat(st.path); err == nil { // of another process, or not written yet
		length = max(length, int(info.Size()))
	}
	if st.closed || st.spare.f != nil && st.spare.size >= length+spareLeast {
		return
	}
	st.dropSpare()
	err := st.makeSpare(length + spareMargin)
	if fullDisk(err) {
		err = st.makeSpare(length + spareLeast)
	}
	var trouble *string
	if err != nil {
		trouble = new(err.Error())
	}
	if before := st.spareTrouble.Swap(trouble); err != nil && before == nil {
		st.opt.OnProblem(fmt.Errorf("there is no room on the disk for changes of keys: %w", err))
	}
}

// makeSpare makes the file and allocates its blocks.
func (st *state) makeSpare(size int) error {
	f, err := createAnew(st.path + spareSuffix)
	if err != nil {
		return err
	}
	st.spare = keySpare{f, size}
	if err = cmp.Or(platform.Reserve(f, size), st.opt.sync(f)); err != nil {
		st.dropSpare()
	}
	return err
}

func (st *state) dropSpare() {
	_ = st.spare.f.Close()
	_ = os.Remove(st.path + spareSuffix)
	st.spare = keySpare{}
}
