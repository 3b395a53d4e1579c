package issuer

// A route is an operation with its pattern, in lower case, the largest body that it
// reads, and the fields of that body; without fields it warns of none.
type route struct {
	pattern string
	limit   int64
	op      operation
	fields  []string
}

// operations returns what this issuer answers: the paths that the published
// interface shows, and those that Caddyfile.example declares. To make a webhook
// endpoint is the sandbox's own, so that there is one to list.
func (i *Issuer) operations() []route {
	return []route{
		{"POST /api/v1/customers", maxBody, i.createCustomer, customerFieldNames()},
		{"GET /api/v1/customers", maxBody, i.listCustomers, nil},
		{"GET /api/v1/customers/{id}", maxBody, i.getCustomer, nil},
		{"PATCH /api/v1/customers/{id}", maxBody, i.updateCustomer, customerFieldNames()},
		{"GET /api/v1/customers/{id}/transactions", maxBody, i.listCustomerTransactions, nil},
		{"POST /api/v1/customers/{id}/applicant", maxBody, i.submitApplicant, []string{"documents"}},
		{"GET /api/v1/customers/{id}/applicant", maxBody, i.getApplicant, nil},
		{"PUT /api/v1/customers/{id}/applicant", maxBody, i.resubmitApplicant, []string{"documents"}},

		{"POST /api/v1/cards", maxBody, i.issueCard, []string{"customerId", "productId", "currency", "shippingAddress"}},
		{"GET /api/v1/cards", maxBody, i.listCards, nil},
		{"GET /api/v1/cards/{id}", maxBody, i.getCard, nil},
		{"GET /api/v1/cards/{id}/sensitive", maxBody, i.getSensitiveCard, nil},
		{"GET /api/v1/cards/{id}/balance", maxBody, i.getCardBalance, nil},
		{"GET /api/v1/cards/{id}/transactions", maxBody, i.listCardTransactions, nil},
		{"POST /api/v1/cards/{id}/activate", maxBody, i.activateCard, nil},
		{"POST /api/v1/cards/{id}/freeze", maxBody, i.freezeCard, nil},
		{"POST /api/v1/cards/{id}/unfreeze", maxBody, i.unfreezeCard, nil},
		{"POST /api/v1/cards/{id}/cancel", maxBody, i.cancelCard, nil},
		{"POST /api/v1/cards/{id}/replace", maxBody, i.replaceCard, []string{"reason", "shippingAddress"}},
		{"POST /api/v1/cards/{id}/pin", maxBody, i.setCardPIN, []string{"pin"}},
		{"GET /api/v1/cards/{id}/limits", maxBody, i.getCardLimits, nil},
		{"POST /api/v1/cards/{id}/limits", maxBody, i.updateCardLimits, nil},

		{"POST /api/v1/cards/{id}/top-ups", maxBody, i.topUpCard, []string{"amount", "currency", "reference"}},
		{"GET /api/v1/cards/{id}/top-ups", maxBody, i.listTopUps, nil},
		{"GET /api/v1/top-ups/{id}", maxBody, i.getTopUp, nil},

		{"GET /api/v1/transactions", maxBody, i.listTransactions, nil},
		{"GET /api/v1/transactions/{id}", maxBody, i.getTransaction, nil},
		{"GET /api/v1/products", maxBody, i.listProducts, nil},
		{"GET /api/v1/products/{id}", maxBody, i.getProduct, nil},
		{"POST /api/v1/documents", maxDocuments, i.uploadDocuments, nil},
		{"GET /api/v1/webhooks", maxBody, i.listWebhooks, nil},
		{"POST /api/v1/webhooks", maxBody, i.createWebhook, []string{"url", "events"}},
	}
}
