package keys

import (
	"context"
	"errors"
	"slices"
	"strings"

	"github.com/card-gateway/card-gateway/store"
)

// List returns up to q.Limit keys that follow the cursor, and the cursor of the
// next page, which is empty at the end. If q.Tenant, q.Status or q.Search is set,
// it returns only matching keys, and each key whose record cannot be read: nobody
// knows whose that is, so no query hides it. A page may be shorter than the limit, or
// empty, although more pages follow.
func (k *Service) List(ctx context.Context, q ListQuery) ([]View, string, error) {
	if q.Status != "" && !slices.Contains(Statuses(), q.Status) {
		return nil, "", invalid("status", "want one of %v", Statuses())
	}
	if q.Limit <= 0 || q.Limit > censusPage {
		return nil, "", invalid("limit", "want 1 to %d", censusPage)
	}
	views := make([]View, 0, min(q.Limit, 64))
	cursor := q.Cursor
	for range listReads {
		page, err := k.backend.List(ctx, cursor, q.Limit-len(views))
		if err != nil {
			return nil, "", err
		}
		for _, damaged := range page.Damaged {
			views = append(views, k.damagedView(damaged))
		}
		for _, r := range page.Records {
			v, err := k.view(ctx, r)
			if errors.Is(err, store.ErrNotFound) {
				continue
			}
			if err != nil {
				return nil, "", err
			}
			if q.wants(&v) {
				views = append(views, v)
			}
		}
		cursor = page.Next
		if cursor == "" || len(views) >= q.Limit {
			break
		}
	}
	return views, cursor, nil
}

// listReads is the largest number of reads for one page.
const listReads = 20

// ListQuery chooses keys for [Service.List].
type ListQuery struct {
	Tenant, Status string // empty: all
	Search         string // a part of the id, the tenant or the description, in any case; empty: all
	Cursor         string // from the page before; empty: from the start
	Limit          int    // 1 to 500
}

func (q *ListQuery) wants(v *View) bool {
	return (q.Tenant == "" || q.Tenant == v.Tenant) && (q.Status == "" || q.Status == v.Status) &&
		(q.Search == "" || contains(v.ID, q.Search) || contains(v.Tenant, q.Search) || contains(v.Description, q.Search))
}

// contains reports whether a text has a part, in any case.
func contains(text, part string) bool {
	return strings.Contains(strings.ToLower(text), strings.ToLower(part))
}

// Show returns one key, also one whose record cannot be read, or [store.ErrNotFound].
func (k *Service) Show(ctx context.Context, id string) (View, error) {
	if !validID(id) {
		return View{}, store.ErrNotFound
	}
	r, err := k.backend.Get(ctx, id)
	var damaged *store.DamagedError
	if errors.As(err, &damaged) {
		return k.damagedView(damaged), nil
	}
	if err != nil {
		return View{}, err
	}
	return k.view(ctx, r)
}
