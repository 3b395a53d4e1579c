package file

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
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

// The key file is one JSON object, written by a program and checked as a
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
const (
	keyFileName    = "keys.json"
	keyFileVersion = 1
	keyFileStart   = `{"format":"card-gateway keys","version":`
	keyFileSum     = `,"sha256":"`
	keyFileData    = `","data":`
	keyFileEnd     = "}\n"
	sealPrefix     = "seal:"
)

// A keyFile is what a key file holds.
type keyFile struct {
	Meta map[string][]byte `json:"meta"`
	Keys []*store.Record   `json:"keys"`
}

// A damageError reports the fault of a file, and what an operator can do.
type damageError struct{ path, what string }

func (e *damageError) Error() string {
	return fmt.Sprintf("key file %s is damaged (%s): restore it from a backup, or move it away to begin without keys", e.path, e.what)
}

// readKeyFile reads the key file; ok is false when there is none.
func readKeyFile(path string) (f keyFile, ok bool, err error) {
	b, err := readOwn(path)
	if errors.Is(err, os.ErrNotExist) {
		return f, false, nil
	}
	if err != nil {
		return f, false, fmt.Errorf("reading the key file: %w", err)
	}
	f, err = parseKeyFile(path, b)
	return f, err == nil, err
}

// parseKeyFile accepts exactly what appendKeyFile writes.
func parseKeyFile(path string, b []byte) (f keyFile, err error) {
	damaged := func(what string) (keyFile, error) { return keyFile{}, &damageError{path, what} }
	rest, ok := bytes.CutPrefix(b, []byte(keyFileStart))
	if !ok {
		return damaged("it does not begin as a key file")
	}
	version, rest, ok := bytes.Cut(rest, []byte(keyFileSum))
	if n, err := strconv.Atoi(string(version)); !ok || err != nil || strconv.Itoa(n) != string(version) {
		return damaged("its first line is not that of a key file")
	} else if n != keyFileVersion {
		return f, fmt.Errorf("key file %s has format %d, this version reads format %d: use the version that wrote it", path, n, keyFileVersion)
	}
	sum, rest, found := bytes.Cut(rest, []byte(keyFileData))
	data, complete := bytes.CutSuffix(rest, []byte(keyFileEnd))
	if !found || !complete {
		return damaged("it is cut off")
	}
	if want := sha256.Sum256(data); string(sum) != hex.EncodeToString(want[:]) {
		return damaged("its content does not fit its checksum")
	}
	dec := json.NewDecoder(bytes.NewReader(data))
	dec.DisallowUnknownFields()
	if err := dec.Decode(&f); err != nil {
		return damaged(err.Error())
	}
	if _, err := dec.Token(); err == nil {
		return damaged("more follows after its data")
	}
	if err := f.check(path); err != nil {
		return f, err
	}
	f.takeSeals()
	return f, nil
}

// takeSeals moves the seals from the named values into the records. The seal of a
// key that an earlier version has deleted is dropped.
func (f *keyFile) takeSeals() {
	for _, r := range f.Keys {
		r.Seal = f.Meta[sealPrefix+r.ID]
	}
	maps.DeleteFunc(f.Meta, func(name string, _ []byte) bool { return strings.HasPrefix(name, sealPrefix) })
}

func (f *keyFile) check(path string) error {
	seen := make(map[string]bool, len(f.Keys))
	for i, r := range f.Keys {
		switch {
		case r == nil || r.ID == "" || r.Revision == "":
			return &damageError{path, fmt.Sprintf("key %d lacks its id or revision", i+1)}
		case r.Seal != nil:
			return &damageError{path, "its key " + r.ID + " has an unknown field \"seal\""}
		case seen[r.ID]:
			return &damageError{path, "it holds key " + r.ID + " twice"}
		}
		seen[r.ID] = true
	}
	return nil
}

// newStored returns a record with its text in the key file.
func newStored(r *store.Record) (*storedRecord, error) {
	bare := *r
	bare.Seal = nil
	line, err := json.Marshal(&bare)
	s := &storedRecord{record: r, line: line}
	if err == nil && r.Seal != nil {
		s.seal, err = valueLine(sealPrefix+r.ID, r.Seal)
	}
	if err != nil {
		return nil, fmt.Errorf("key %s: %w", r.ID, err)
	}
	return s, nil
}

// valueLine returns the line of a named value.
func valueLine(name string, value []byte) ([]byte, error) {
	line, err := json.Marshal(map[string][]byte{name: value})
	if err != nil {
		return nil, fmt.Errorf("value %q: %w", name, err)
	}
	return line[1 : len(line)-1], nil
}

// appendKeyFile encodes a key file.
func appendKeyFile(b []byte, meta map[string][]byte, keys iter.Seq[*storedRecord]) ([]byte, error) {
	b = append(b, keyFileStart...)
	b = strconv.AppendInt(b, keyFileVersion, 10)
	b = append(b, keyFileSum...)
	sumAt := len(b)
	b = append(b, make([]byte, hex.EncodedLen(sha256.Size))...)
	b = append(b, keyFileData...)
	dataAt := len(b)

	b = append(b, `{"meta":{`...)
	separator := "\n"
	add := func(line []byte) {
		b = append(b, separator...)
		b = append(b, line...)
		separator = ",\n"
	}
	for _, name := range slices.Sorted(maps.Keys(meta)) {
		line, err := valueLine(name, meta[name])
		if err != nil {
			return nil, err
		}
		add(line)
	}
	for s := range keys {
		if s.seal != nil {
			add(s.seal)
		}
	}
	b = append(b, "\n},\"keys\":["...)
	separator = "\n"
	for s := range keys {
		add(s.line)
	}
	b = append(b, "\n]}"...)

	sum := sha256.Sum256(b[dataAt:])
	hex.Encode(b[sumAt:], sum[:])
	return append(b, keyFileEnd...), nil
}

// replaceFile replaces the content of the file. Even after a crash, either the
// old or the new file is on the disk, complete. It first writes the new file
// under another name.
func replaceFile(path string, content []byte, sync func(*os.File) error) error {
	next := path + ".new"
	f, err := createAnew(next)
	if err != nil {
		return err
	}
	_, err = f.Write(content)
	if err == nil {
		err = sync(f)
	}
	if closeErr := f.Close(); err == nil {
		err = closeErr
	}
	if err == nil {
		err = os.Rename(next, path)
	}
	if err != nil {
		_ = os.Remove(next)
		return err
	}
	return syncDir(filepath.Dir(path), sync)
}

// createAnew makes a file. A file or link of that name, left by a crash or planted,
// is removed and never followed.
func createAnew(path string) (*os.File, error) {
	_ = os.Remove(path)
	return os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
}

// syncDir writes the directory through to the disk, so that a rename in it
// survives a crash.
func syncDir(dir string, sync func(*os.File) error) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	defer d.Close()
	return sync(d)
}

// A change is the difference between the state and the key file that is about to
// be written: the record of one key (nil: the key is deleted), or the named
// values. The zero value is no difference.
type change struct {
	id     string
	stored *storedRecord
	meta   map[string][]byte
}

// writeKeyFile writes the key file from the state, with the change. The caller
// must hold st.changes. Locks that were only in the journal and in memory are
// then in the key file, too.
func (st *state) writeKeyFile(c change) error {
	unfolded := st.unfolded.Swap(false)
	if c.meta == nil {
		c.meta = *st.meta.Load()
	}
	b, err := appendKeyFile(st.document[:0], c.meta, st.records(c))
	if err == nil {
		st.document = b
		if err = replaceFile(st.path, b, st.opt.sync); fullDisk(err) {
			err = st.replaceFromSpare(b)
			st.prepareSpare() // of the room that the old file has left
		}
	}
	if err != nil {
		if unfolded {
			st.unfolded.Store(true)
		}
		return fmt.Errorf("%w: writing the key file: %w", store.ErrUnavailable, err)
	}
	return nil
}

// records yields the records of all keys in the order of their ids.
func (st *state) records(c change) iter.Seq[*storedRecord] {
	return func(yield func(*storedRecord) bool) {
		pending := c.stored != nil
		for _, id := range *st.ids.Load() {
			if pending && c.id <= id {
				pending = false
				if !yield(c.stored) {
					return
				}
			}
			if id == c.id {
				continue
			}
			if !yield(st.key(id).stored.Load()) {
				return
			}
		}
		if pending {
			yield(c.stored)
		}
	}
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
	path := st.path + spareSuffix
	f, err := createAnew(path)
	if err != nil {
		return err
	}
	if err = platform.Reserve(f, size); err == nil {
		err = st.opt.sync(f)
	}
	if err != nil {
		_ = f.Close()
		_ = os.Remove(path)
		return err
	}
	st.spare = keySpare{f, size}
	return nil
}

func (st *state) dropSpare() {
	if st.spare.f != nil {
		_ = st.spare.f.Close()
		_ = os.Remove(st.path + spareSuffix)
	}
	st.spare = keySpare{}
}

// replaceFromSpare replaces the key file by the spare with the content. Nothing is
// allocated for it.
func (st *state) replaceFromSpare(content []byte) error {
	s := st.spare
	if s.f == nil || s.size < len(content) {
		return fmt.Errorf("%w: the room for it is used up", store.ErrUnavailable)
	}
	st.spare = keySpare{}
	defer func() { _ = s.f.Close() }()
	path := st.path + spareSuffix
	if _, err := s.f.WriteAt(content, 0); err != nil {
		return err
	}
	if err := s.f.Truncate(int64(len(content))); err != nil {
		return err
	}
	if err := st.opt.sync(s.f); err != nil {
		return err
	}
	if err := sameFile(s.f, path); err != nil {
		return err
	}
	if err := os.Rename(path, st.path); err != nil {
		return err
	}
	return syncDir(filepath.Dir(st.path), st.opt.sync)
}

// sameFile checks that nobody has put another file in the place of an open one.
func sameFile(f *os.File, path string) error {
	own, err := f.Stat()
	if err != nil {
		return err
	}
	found, err := os.Lstat(path)
	if err == nil && !os.SameFile(own, found) {
		err = fmt.Errorf("%s is not the file that the gateway made", path)
	}
	return err
}
