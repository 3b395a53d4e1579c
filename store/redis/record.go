package redis

import (
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/card-gateway/card-gateway/auth"
	"github.com/card-gateway/card-gateway/store"
)

// maxRecordBytes bounds the hash of a key that is read. The largest that a gateway
// writes has less than 2 MiB; a reply may have maxReplyBytes.
const maxRecordBytes = 8 << 20

var errOtherType = errors.New("redis has a value of another type in its place")

func tooLarge(bytes int64) error {
	return fmt.Errorf("it has more than %d bytes, at most %d are read", bytes, maxRecordBytes)
}

// isOtherType reports whether Redis has something else than the command expects.
func isOtherType(err error) bool { return redis.HasErrorPrefix(err, "WRONGTYPE") }

// readRecord makes a record from the fields of its hash, or returns a
// [store.DamagedError].
func readRecord(id string, hash map[string]string) (*store.Record, error) {
	damaged := func(field string, cause error) (*store.Record, error) {
		return nil, &store.DamagedError{ID: id, Field: field, Revision: hash["rev"], Cause: cause}
	}
	r := new(store.Record)
	if err := json.Unmarshal([]byte(hash["doc"]), r); err != nil {
		return damaged(store.DamagedDocument, documentError(err))
	}
	if r.ID != id {
		return damaged(store.DamagedID, errors.New("it is the record of another key"))
	}
	r.Revision = hash["rev"]
	var err error
	if r.Failures, err = strconv.Atoi("0" + hash["fails"]); err != nil {
		return damaged(store.DamagedFailures, errNoNumber)
	}
	if r.Lock, err = readLock(hash["lock"]); err != nil {
		return damaged(store.DamagedLock, errNoNumber)
	}
	if r.Lock != nil && r.Lock.At.After(r.UpdatedAt) {
		r.UpdatedAt = r.Lock.At
	}
	if r.LastUsed, err = readLastUsed(hash); err != nil {
		return damaged(store.DamagedLastUsed, errNoNumber)
	}
	return r, nil
}

var errNoNumber = errors.New("it is not a whole number in range")

// documentError returns what is wrong with a document, without anything that is in
// it: a text of encoding/json may have a part of a secret.
func documentError(err error) error {
	var syntax *json.SyntaxError
	var kind *json.UnmarshalTypeError
	switch {
	case errors.As(err, &syntax):
		return fmt.Errorf("it is not JSON from byte %d on", syntax.Offset)
	case errors.As(err, &kind):
		return fmt.Errorf("it has a value of the wrong type before byte %d", kind.Offset)
	default:
		return errors.New("it has a value of the wrong form")
	}
}

// readLock reads what Put and settle.lua write; nil for the empty text.
func readLock(text string) (*auth.Lock, error) {
	if text == "" {
		return nil, nil
	}
	n := fields{rest: text}
	lock := &auth.Lock{At: moment(n.next()), Until: moment(n.next()), Failures: int(n.next())}
	if n.err == nil && !(showable(lock.At) && showable(lock.Until) && lock.Failures >= 0) {
		n.err = errNoNumber
	}
	return lock, n.err
}

// showable reports whether JSON can show the time. One time that it cannot would
// spoil the list of all keys.
func showable(t time.Time) bool { return t.Year() >= 1 && t.Year() <= 9999 }

// readLastUsed returns when each secret was last used, by version; nil when none was.
func readLastUsed(hash map[string]string) (map[int]time.Time, error) {
	var used map[int]time.Time
	for field, value := range hash {
		version, found := strings.CutPrefix(field, "last:")
		if !found {
			continue
		}
		v, err1 := strconv.Atoi(version)
		minute, err2 := strconv.ParseInt(value, 10, 32)
		if err := errors.Join(err1, err2); err != nil {
			return nil, err
		}
		if minute < 0 {
			return nil, errNoNumber
		}
		if used == nil {
			used = make(map[int]time.Time, 2)
		}
		used[v] = time.Unix(minute*60, 0).UTC()
	}
	return used, nil
}
