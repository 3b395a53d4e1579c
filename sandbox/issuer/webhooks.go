package issuer

import (
	"encoding/json"
	"net/http"
	"net/url"
	"strconv"
)

// A webhook is an endpoint for events. The published interface shows neither its
// fields nor the events. The sandbox stores endpoints and sends nothing to them.
type webhook struct {
	ID        string   `json:"id"`
	URL       string   `json:"url"`
	Events    []string `json:"events"`
	CreatedAt string   `json:"createdAt"`
}

func (i *Issuer) listWebhooks(c *call) (int, any, *problem) {
	shown, p, bad := paginate(c.URL.Query(), i.tenantLocked(c.tenant).webhookOrder)
	if bad != nil {
		return 0, nil, bad
	}
	return http.StatusOK, page{shown, p}, nil
}

func (i *Issuer) createWebhook(c *call) (int, any, *problem) {
	made := webhook{Events: []string{}}
	if err := json.Unmarshal(c.body, &made); err != nil {
		return 0, nil, invalid(detail{"", `the body must be an object such as {"url":"https://example.com/hook","events":["card.frozen"]}`})
	}
	if at, err := url.Parse(made.URL); err != nil || at.Scheme != "https" || at.Host == "" {
		return 0, nil, invalid(detail{"url", "must be an https URL"})
	}
	t := i.tenantLocked(c.tenant)
	if bad := i.keepLocked(c.tenant, t, "webhook endpoints"); bad != nil {
		return 0, nil, bad
	}
	made.ID, made.CreatedAt = uuidOf("webhook", c.tenant, strconv.Itoa(len(t.webhookOrder))), stamp(c.now)
	t.webhookOrder = append(t.webhookOrder, &made)
	return http.StatusCreated, &made, nil
}
