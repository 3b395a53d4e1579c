// Command fill makes nonces live in a store, by its contract: it settles
// accepted requests that nobody has sent. Or it makes keys. The bench measures with
// them what many live nonces and many keys cost.
//
//	fill file DIRECTORY COUNT
//	fill redis URL COUNT
//	fill keys URL COUNT FILE
//
// The keys of the store get the nonces in turn. No gateway may use the directory
// meanwhile. The file holds the master key of new keys, which are made in Redis; their ids
// and secrets are printed.
package main

import (
	"context"
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"strconv"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/card-gateway/card-gateway/auth"
	"github.com/card-gateway/card-gateway/keys"
	"github.com/card-gateway/card-gateway/keys/keyring"
	"github.com/card-gateway/card-gateway/store"
	"github.com/card-gateway/card-gateway/store/file"
	"github.com/card-gateway/card-gateway/store/redis"
	"github.com/card-gateway/card-gateway/store/redis/rpc"
)

const (
	// window is that of a gateway without the option; with another one, its
	// first requests would change the window of each key.
	window = 5 * time.Minute
	// ahead is how far the requests are stamped ahead, so that their nonces live
	// for almost twice the window.
	ahead = 4 * time.Minute
	// patience bounds one call: the machine is full meanwhile.
	patience = 10 * time.Second
	workers  = 32
)

func main() {
	if err := fill(context.Background(), os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "fill:", err)
		os.Exit(1)
	}
}

func fill(ctx context.Context, args []string) (err error) {
	if len(args) == 4 && args[0] == "keys" {
		return makeKeys(ctx, args[1], args[2], args[3])
	}
	if len(args) != 3 {
		return errors.New("want file or redis, the directory or URL, and how many nonces; or keys, the URL, how many, and the file of the master key")
	}
	count, err := strconv.Atoi(args[2])
	if err != nil || count < 1 {
		return fmt.Errorf("%q is not a number of nonces", args[2])
	}
	backend, err := open(args[0], args[1])
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, backend.Close()) }()
	if err := backend.Start(ctx); err != nil {
		return err
	}
	keys, err := list(ctx, backend)
	if err != nil {
		return err
	}
	if len(keys) == 0 {
		return errors.New("the store has no keys")
	}
	return settle(ctx, backend, keys, count)
}

func open(kind, place string) (store.Backend, error) {
	switch kind {
	case "file":
		return file.Open(place, file.Options{RuntimeDir: file.DefaultRuntimeDir("")})
	case "redis":
		return redis.New(redis.Options{Options: rpc.Options{URL: place, IOTimeout: patience}, SettleTimeout: patience, ChangeTimeout: patience, MaxNoncesPerKey: -1})
	default:
		return nil, fmt.Errorf("%q is no kind of store; write file or redis", kind)
	}
}

// list returns all records. It fails if one cannot be read.
func list(ctx context.Context, backend store.Backend) (all []*store.Record, _ error) {
	for cursor := ""; ; {
		page, err := backend.List(ctx, cursor, 1000)
		if err != nil {
			return nil, err
		}
		for _, damaged := range page.Damaged {
			return nil, damaged
		}
		all = append(all, page.Records...)
		if cursor = page.Next; cursor == "" {
			return all, nil
		}
	}
}

// makeKeys makes keys in a Redis, and prints them.
func makeKeys(ctx context.Context, url, number, masterKey string) (err error) {
	count, err := strconv.Atoi(number)
	if err != nil || count < 1 {
		return fmt.Errorf("%q is not a number of keys", number)
	}
	text, err := os.ReadFile(masterKey)
	if err != nil {
		return err
	}
	ring, err := keyring.Parse(string(text))
	if err != nil {
		return err
	}
	backend, err := open("redis", url)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, backend.Close()) }()
	if err := backend.Start(ctx); err != nil {
		return err
	}
	service := keys.New(backend, ring, keys.Options{})
	defer service.Stop()
	fields := store.Fields{Tenant: "bench", Scopes: []string{"cards:write"}, AllowedIPs: []string{"127.0.0.1"}}
	return each(count, func(int) error {
		made, err := service.Create(ctx, keys.CreateRequest{Fields: fields}, keys.By{Actor: "fill"})
		if err == nil {
			_, err = fmt.Println(made.ID, made.Secret)
		}
		return err
	})
}

// settle makes the nonces live, each of another request. It fails if one of the
// requests is not accepted.
func settle(ctx context.Context, backend store.Backend, keys []*store.Record, count int) error {
	var run [8]byte
	rand.Read(run[:])
	return each(count, func(i int) error {
		claim := claimOf(keys[i%len(keys)], binary.BigEndian.AppendUint64(run[:8:8], uint64(i)))
		verdict, err := backend.Settle(ctx, claim)
		if err == nil && (verdict.Stale || verdict.Reason != auth.Accepted) {
			err = fmt.Errorf("nonce %d of key %s: the store answers %v", i, claim.KeyID, verdict.Reason)
		}
		return err
	})
}

// each calls do for 0 to count-1, several at once, until one of them fails.
func each(count int, do func(i int) error) error {
	var all errgroup.Group
	all.SetLimit(workers)
	var failed atomic.Bool
	for i := 0; i < count && !failed.Load(); i++ {
		all.Go(func() error {
			err := do(i)
			failed.CompareAndSwap(false, err != nil)
			return err
		})
	}
	return all.Wait()
}

// claimOf returns the claim of a correct request.
func claimOf(key *store.Record, nonce []byte) *store.Claim {
	now := time.Now()
	return &store.Claim{
		KeyID: key.ID, Revision: key.Revision, NextRevision: "not needed: nothing is locked", SecretVersion: 1,
		Now: now, Timestamp: now.Add(ahead).Unix(), Window: window,
		Nonce:     [16]byte(nonce),
		LockAfter: 1 << 40,
	}
}
