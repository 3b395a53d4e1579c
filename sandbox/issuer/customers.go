package issuer

import (
	"net/http"
	"strings"
)

func (i *Issuer) createCustomer(c *call) (int, any, *problem) {
	created := &customer{Status: "active", KYCState: "not_submitted", CreatedAt: stamp(c.now)}
	if bad := created.apply(c.body, true); bad != nil {
		return 0, nil, bad
	}
	t := i.tenantLocked(c.tenant)
	email := strings.ToLower(*created.Email)
	if t.emails[email] {
		return 0, nil, &problem{
			status: http.StatusConflict, code: "EMAIL_EXISTS", message: "a customer with this email exists already",
		}
	}
	if i.customers >= i.opt.MaxCustomers {
		return 0, nil, full("customers")
	}
	created.ID = uuidOf("customer", c.tenant, email)
	i.tenants[c.tenant] = t
	t.customers[created.ID] = created
	t.customerOrder = append(t.customerOrder, created)
	t.emails[email] = true
	i.customers++
	return http.StatusCreated, c.envelope(created, nil), nil
}

// customerFilters are the query parameters of the list of customers, beside those
// of a page.
var customerFilters = map[string]func(*customer) *string{
	"type":              func(c *customer) *string { return c.Type },
	"email":             func(c *customer) *string { return c.Email },
	"country":           func(c *customer) *string { return c.Country },
	"status":            func(c *customer) *string { return &c.Status },
	"kycState":          func(c *customer) *string { return &c.KYCState },
	"externalReference": func(c *customer) *string { return c.ExternalReference },
}

func (i *Issuer) listCustomers(c *call) (int, any, *problem) {
	all := i.tenantLocked(c.tenant).customerOrder
	for _, cu := range all {
		cu.decide(c.now)
	}
	query := c.URL.Query()
	shown, p, bad := paginate(query, matching(query, all, customerFilters))
	if bad != nil {
		return 0, nil, bad
	}
	return http.StatusOK, c.envelope(shown, p), nil
}

// customerOf returns the customer that the path names, or a problem.
func (i *Issuer) customerOf(c *call) (*customer, *problem) {
	id := c.PathValue("id")
	found := i.tenantLocked(c.tenant).customers[id]
	if found == nil {
		return nil, notFound("customer", id)
	}
	found.decide(c.now)
	return found, nil
}

func (i *Issuer) getCustomer(c *call) (int, any, *problem) {
	found, bad := i.customerOf(c)
	if bad != nil {
		return 0, nil, bad
	}
	return http.StatusOK, c.envelope(found, nil), nil
}

func (i *Issuer) updateCustomer(c *call) (int, any, *problem) {
	found, bad := i.customerOf(c)
	if bad != nil {
		return 0, nil, bad
	}
	changed := *found
	if bad := changed.apply(c.body, false); bad != nil {
		return 0, nil, bad
	}
	updated := stamp(c.now)
	changed.UpdatedAt = &updated
	*found = changed
	return http.StatusOK, c.envelope(found, nil), nil
}
