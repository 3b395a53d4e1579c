package issuer

// A route is an operation with its pattern, in lower case, and the largest body
// that it reads.
type route struct {
	pattern string
	limit   int64
	op      operation
}

// operations returns what this issuer answers: the paths that the published
// interface shows, and those that Caddyfile.example declares. To make a webhook
// endpoint is the sandbox's own, so that there is one to list.
func (i *Issuer) operations() []route {
	return []route{
		{"POST /api/v1/customers", maxBody, i.createCustomer},
		{"GET /api/v1/customers", maxBody, i.listCustomers},
		{"GET /api/v1/customers/{id}", maxBody, i.getCustomer},
		{"PATCH /api/v1/customers/{id}", maxBody, i.updateCustomer},
		{"GET /api/v1/customers/{id}/transactions", maxBody, i.listCustomerTransactions},
		{"POST /api/v1/customers/{id}/applicant", maxBody, i.submitApplicant},
		{"GET /api/v1/customers/{id}/applicant", maxBody, i.getApplicant},
		{"PUT /api/v1/customers/{id}/applicant", maxBody, i.resubmitApplicant},

		{"POST /api/v1/cards", maxBody, i.issueCard},
		{"GET /api/v1/cards", maxBody, i.listCards},
		{"GET /api/v1/cards/{id}", maxBody, i.getCard},
		{"GET /api/v1/cards/{id}/sensitive", maxBody, i.getSensitiveCard},
		{"GET /api/v1/cards/{id}/balance", maxBody, i.getCardBalance},
		{"GET /api/v1/cards/{id}/transactions", maxBody, i.listCardTransactions},
		{"POST /api/v1/cards/{id}/activate", maxBody, i.activateCard},
		{"POST /api/v1/cards/{id}/freeze", maxBody, i.freezeCard},
		{"POST /api/v1/cards/{id}/unfreeze", maxBody, i.unfreezeCard},
		{"POST /api/v1/cards/{id}/cancel", maxBody, i.cancelCard},
		{"POST /api/v1/cards/{id}/replace", maxBody, i.replaceCard},
		{"POST /api/v1/cards/{id}/pin", maxBody, i.setCardPIN},
		{"GET /api/v1/cards/{id}/limits", maxBody, i.getCardLimits},
		{"POST /api/v1/cards/{id}/limits", maxBody, i.updateCardLimits},

		{"POST /api/v1/cards/{id}/top-ups", maxBody, i.topUpCard},
		{"GET /api/v1/cards/{id}/top-ups", maxBody, i.listTopUps},
		{"GET /api/v1/top-ups/{id}", maxBody, i.getTopUp},

		{"GET /api/v1/transactions", maxBody, i.listTransactions},
		{"GET /api/v1/transactions/{id}", maxBody, i.getTransaction},
		{"GET /api/v1/products", maxBody, i.listProducts},
		{"GET /api/v1/products/{id}", maxBody, i.getProduct},
		{"POST /api/v1/documents", maxDocuments, i.uploadDocuments},
		{"GET /api/v1/webhooks", maxBody, i.listWebhooks},
		{"POST /api/v1/webhooks", maxBody, i.createWebhook},
	}
}
