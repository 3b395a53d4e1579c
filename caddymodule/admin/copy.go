package admin

import (
	"errors"
	"fmt"
	"path/filepath"

	"github.com/card-gateway/card-gateway/adminapi"
	"github.com/card-gateway/card-gateway/keys"
	"github.com/card-gateway/card-gateway/keys/fields"
	"github.com/card-gateway/card-gateway/store"
	"github.com/card-gateway/card-gateway/store/file"
)

// copyKeys copies the keys of another store, such as when a gateway moves to
// Redis. No gateway may use the other store meanwhile.
func copyKeys(c *adminCall, req adminapi.CopyRequest) (any, error) {
	from, err := c.openSource(&req)
	if err != nil {
		return nil, earlyError{err}
	}
	defer func() { _ = from.Close() }()
	if page, err := from.List(c, "", 1); err == nil && len(page.Records) == 0 && len(page.Damaged) == 0 && page.Next == "" {
		return nil, earlyError{&fields.InvalidError{Reason: "the other store: " + errNoKeys.Error()}}
	}
	done, err := c.keys.Copy(c, from, c.by)
	if err != nil {
		return nil, fmt.Errorf("%d keys were copied, then: %w; you can run the copy again", len(done.Copied), err)
	}
	return done, nil
}

// openSource opens and starts the store to copy from. An embedded store without
// keys is refused before the start, which would make it.
func (c *adminCall) openSource(req *adminapi.CopyRequest) (store.Backend, error) {
	var from store.Backend
	var err error
	field := "dir"
	switch {
	case (req.Dir == "") == (req.Store == nil):
		return nil, &fields.InvalidError{Reason: "give either dir or store"}
	case req.Store != nil:
		field = "store"
		from, err = c.gateway.OpenStore(req.Store)
	case !filepath.IsAbs(req.Dir):
		return nil, &fields.InvalidError{Field: "dir", Reason: "want the absolute path of the directory of an embedded store"}
	default:
		from, err = file.OpenExisting(req.Dir)
	}
	if err == nil {
		err = c.startSource(from)
		if err != nil {
			_ = from.Close()
		}
	}
	if err != nil {
		return nil, &fields.InvalidError{Field: field, Reason: err.Error()}
	}
	return from, nil
}

var errNoKeys = errors.New("holds no store with keys")

func (c *adminCall) startSource(from store.Backend) error {
	if local, ok := from.(store.LocalBackend); ok && local.Local() {
		if page, err := from.List(c, "", 1); err != nil || len(page.Records) == 0 {
			return errNoKeys
		}
	}
	return from.Start(c)
}

// restoreKey puts the record of a key back from a backup. Without a digest it changes
// nothing, and answers with the record in the backup and the digest to approve.
func restoreKey(c *adminCall, req adminapi.RestoreRequest) (any, error) {
	from, err := c.openSource(&req.CopyRequest)
	if err != nil {
		return nil, earlyError{err}
	}
	defer func() { _ = from.Close() }()
	if req.Digest == "" {
		view, err := c.keys.Restorable(c, c.id, from)
		return view, err
	}
	return c.keys.Restore(c, c.id, keys.Restoring{From: from, Digest: req.Digest}, c.by)
}
