package issuer

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"
)

// How long this issuer takes to decide about an applicant, and to book a top-up.
const decisionTime = 2 * time.Second

// The moves of kyc_state, which the published interface does not show, are
// not_submitted, by Submit pending, after decisionTime approved or rejected, and
// from rejected by Resubmit pending again. The first submission of a customer
// whose external_reference begins with refusedReference is rejected.
const (
	kycNotSubmitted = "not_submitted"
	kycPending      = "pending"
	kycApproved     = "approved"
	kycRejected     = "rejected"

	refusedReference = "reject"
)

// An applicant is what a customer has submitted for its verification.
type applicant struct {
	documents   []string
	submissions int
	submitted   time.Time
	decided     *string
}

// applicantAnswer is the sandbox's answer to the three applicant operations, whose
// fields the published interface does not show.
type applicantAnswer struct {
	CustomerID  string   `json:"customerId"`
	KYCState    string   `json:"kycState"`
	Submissions int      `json:"submissions"`
	Documents   []string `json:"documents"`
	SubmittedAt *string  `json:"submittedAt"`
	DecidedAt   *string  `json:"decidedAt"`
	Reason      *string  `json:"reason"`
}

// decide moves a customer on whose verification has taken its time.
func (cu *customer) decide(now time.Time) {
	due := cu.applicant.submitted.Add(decisionTime)
	if cu.KYCState != kycPending || now.Before(due) {
		return
	}
	decided := stamp(due)
	cu.KYCState, cu.applicant.decided, cu.UpdatedAt = kycApproved, &decided, &decided
	if reference := cu.ExternalReference; reference != nil && cu.applicant.submissions == 1 &&
		strings.HasPrefix(strings.ToLower(*reference), refusedReference) {
		cu.KYCState = kycRejected
	}
}

func (cu *customer) applicantAnswer() applicantAnswer {
	a := applicantAnswer{
		CustomerID: cu.ID, KYCState: cu.KYCState, Submissions: cu.applicant.submissions,
		Documents: append([]string{}, cu.applicant.documents...), DecidedAt: cu.applicant.decided,
	}
	if cu.applicant.submissions > 0 {
		at := stamp(cu.applicant.submitted)
		a.SubmittedAt = &at
	}
	if cu.KYCState == kycRejected {
		reason := "the sandbox rejects the first submission of an external_reference that begins with " + refusedReference
		a.Reason = &reason
	}
	return a
}

func (i *Issuer) getApplicant(c *call) (int, any, *problem) {
	found, bad := i.customerOf(c)
	if bad != nil {
		return 0, nil, bad
	}
	return http.StatusOK, found.applicantAnswer(), nil
}

func (i *Issuer) submitApplicant(c *call) (int, any, *problem) {
	return i.takeApplicant(c, kycNotSubmitted, http.StatusCreated)
}

func (i *Issuer) resubmitApplicant(c *call) (int, any, *problem) {
	return i.takeApplicant(c, kycRejected, http.StatusOK)
}

// takeApplicant takes a submission of a customer that is in the state.
func (i *Issuer) takeApplicant(c *call, from string, status int) (int, any, *problem) {
	found, bad := i.customerOf(c)
	if bad != nil {
		return 0, nil, bad
	}
	documents, bad := i.applicantDocuments(c)
	if bad != nil {
		return 0, nil, bad
	}
	if found.KYCState != from {
		return 0, nil, wrongState(fmt.Sprintf("the applicant is %s; this operation needs one that is %s", found.KYCState, from))
	}
	updated := stamp(c.now)
	found.KYCState, found.UpdatedAt = kycPending, &updated
	found.applicant = applicant{
		documents:   slices.Concat(found.applicant.documents, documents),
		submissions: found.applicant.submissions + 1, submitted: c.now,
	}
	return status, found.applicantAnswer(), nil
}

// applicantDocuments reads the body of a submission: nothing, or an object whose
// documents are ids that Upload Documents has returned.
func (i *Issuer) applicantDocuments(c *call) ([]string, *problem) {
	if len(c.body) == 0 {
		return nil, nil
	}
	var given struct {
		Documents []string `json:"documents"`
	}
	if err := json.Unmarshal(c.body, &given); err != nil {
		return nil, invalid(detail{"", `the body must be empty or an object such as {"documents":["<documentId>"]}`})
	}
	var wrong []detail
	for n, id := range given.Documents {
		given.Documents[n] = strings.ToLower(id)
		if i.tenantLocked(c.tenant).documents[given.Documents[n]] == nil {
			wrong = append(wrong, detail{fmt.Sprintf("documents[%d]", n), "no document has this id"})
		}
	}
	if wrong != nil {
		return nil, invalid(wrong...)
	}
	return given.Documents, nil
}
