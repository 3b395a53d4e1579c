package rpc

import (
	"errors"
	"fmt"
	"strings"

	"github.com/redis/go-redis/v9"

	"github.com/card-gateway/card-gateway/store"
)

// An UnfitError says that a server was reached and cannot be used.
type UnfitError struct {
	Server  string // its address; empty if it is not known
	Problem string // the problem and its remedy
	Cause   error  // the error of the server, if there was one
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

// Unwrap returns the cause and [store.ErrUnavailable]: while the gateway runs, an
// unfit server is one that cannot answer.
func (e *UnfitError) Unwrap() []error {
	if e.Cause == nil {
		return []error{store.ErrUnavailable}
	}
	return []error{store.ErrUnavailable, e.Cause}
}

// Unavailable returns an error that wraps err and [store.ErrUnavailable].
func Unavailable(doing string, err error) error {
	if errors.Is(err, store.ErrUnavailable) {
		return err
	}
	return fmt.Errorf("%w: %s: %w", store.ErrUnavailable, doing, err)
}

// Unusable returns the [UnfitError] of [Refusal], or that of [Unavailable].
func Unusable(addr, doing string, err error) error {
	if unfit := Refusal(addr, err); unfit != nil {
		return unfit
	}
	return Unavailable(doing, err)
}

// Refusal returns an UnfitError if the error means that the server refuses the
// gateway's user, else nil.
func Refusal(addr string, err error) error {
	for _, prefix := range []string{"NOAUTH", "WRONGPASS", "NOPERM"} {
		if redis.HasErrorPrefix(err, prefix) {
			return &UnfitError{Server: addr, Problem: "it refuses the user; check username, password and its ACL rule", Cause: err}
		}
	}
	if err != nil && strings.Contains(err.Error(), "user executing the script can't") {
		return &UnfitError{Server: addr, Problem: "it refuses the user a command of a script; check its ACL rule", Cause: err}
	}
	return nil
}

// IsMoving reports whether Redis refused a command, before it wrote anything,
// because its slot is with another node, or is being moved to it.
func IsMoving(err error) bool { return movedElsewhere(err) || isHalfMoved(err) }

func movedElsewhere(err error) bool {
	return redis.HasErrorPrefix(err, "MOVED") || redis.HasErrorPrefix(err, "ASK")
}

// isHalfMoved reports whether the keys of the command are on two nodes.
func isHalfMoved(err error) bool {
	return redis.HasErrorPrefix(err, "TRYAGAIN") ||
		err != nil && strings.Contains(err.Error(), "non local key")
}

// isUnloaded reports whether Redis does not know the script.
func isUnloaded(err error) bool { return redis.HasErrorPrefix(err, "NOSCRIPT") }

// IsFull reports whether Redis refused to write because its memory is full.
func IsFull(err error) bool { return redis.HasErrorPrefix(err, "OOM") }
