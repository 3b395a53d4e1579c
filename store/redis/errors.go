package redis

import (
	"errors"
	"fmt"
	"strings"

	"github.com/redis/go-redis/v9"

	"github.com/card-gateway/card-gateway/store"
)

// An UnfitError says that a server was reached and cannot be used.
type UnfitError struct {
	Server  string // its address, as far as known
	Problem string // what is wrong and what to do
	Cause   error  // what the server said, if it was an error
}

// Error names the server and the problem.
func (e *UnfitError) Error() string {
	s := "redis"
	if e.Server != "" {
		s += " at " + e.Server
	}
	s += ": " + e.Problem
	if e.Cause != nil {
		s += ": " + e.Cause.Error()
	}
	return s
}

// Unwrap returns the cause and [store.ErrUnavailable], which it is once the
// gateway runs.
func (e *UnfitError) Unwrap() []error {
	if e.Cause == nil {
		return []error{store.ErrUnavailable}
	}
	return []error{store.ErrUnavailable, e.Cause}
}

var (
	errNotChecked = fmt.Errorf("%w: redis was not reached yet", store.ErrUnavailable)
	errEmptied    = fmt.Errorf("%w: redis was emptied; create or import the keys again", store.ErrUnavailable)
	errLost       = fmt.Errorf("%w: the key is missing, and redis was emptied since this gateway started; import the key again, or restart the gateway when all keys are there", store.ErrUnavailable)
)

var errClosed = fmt.Errorf("%w: it was closed", store.ErrUnavailable)

// unavailable says that an answer could not be had, and why.
func unavailable(doing string, err error) error {
	if errors.Is(err, store.ErrUnavailable) {
		return err
	}
	return fmt.Errorf("%w: %s: %w", store.ErrUnavailable, doing, err)
}

// refusal returns an UnfitError when the error says that the server refuses
// our user, else nil.
func refusal(addr string, err error) error {
	for _, prefix := range []string{"NOAUTH", "WRONGPASS", "NOPERM"} {
		if redis.HasErrorPrefix(err, prefix) {
			return &UnfitError{Server: addr, Problem: "it refuses the user; check username, password and its ACL rule", Cause: err}
		}
	}
	return nil
}

// isMoving reports whether the script was turned away because its slot is
// being moved to another node, before it wrote anything.
func isMoving(err error) bool {
	return redis.HasErrorPrefix(err, "TRYAGAIN") ||
		err != nil && strings.Contains(err.Error(), "non local key")
}

// isUnloaded reports whether Redis does not know the script.
func isUnloaded(err error) bool { return redis.HasErrorPrefix(err, "NOSCRIPT") }

func movedElsewhere(err error) bool {
	return redis.HasErrorPrefix(err, "MOVED") || redis.HasErrorPrefix(err, "ASK")
}

// isFull reports whether Redis refused to write for want of memory.
func isFull(err error) bool { return redis.HasErrorPrefix(err, "OOM") }
