package issuer

import (
	"encoding/json"
	"net/http"
)

// A problem is an error answer in the look of this issuer, the problem details of
// RFC 9457. The published interface does not show the look of an issuer's errors.
// This one differs from the gateway's, so that a client sees who has answered.
type problem struct {
	status  int
	code    string
	message string
	details []detail
}

// A detail is what is wrong with one field. The field is empty if it is the
// body as a whole, and as the issuer writes it otherwise.
type detail struct {
	Field   string `json:"field"`
	Message string `json:"message"`
}

func notFound(what, id string) *problem {
	return &problem{status: http.StatusNotFound, code: "NOT_FOUND", message: "no " + what + " " + id}
}

func invalid(details ...detail) *problem {
	return &problem{
		status: http.StatusUnprocessableEntity, code: "VALIDATION_ERROR",
		message: "the request does not pass validation", details: details,
	}
}

func wrongState(message string) *problem {
	return &problem{status: http.StatusConflict, code: "INVALID_STATE", message: message}
}

func full(what string) *problem {
	return &problem{
		status: http.StatusInsufficientStorage, code: "SANDBOX_FULL",
		message: "the sandbox holds its largest number of " + what + "; restart it to begin anew",
	}
}

func writeProblem(w http.ResponseWriter, p *problem) {
	text, err := json.Marshal(struct {
		Type   string   `json:"type"`
		Title  string   `json:"title"`
		Status int      `json:"status"`
		Code   string   `json:"code"`
		Detail string   `json:"detail"`
		Errors []detail `json:"errors,omitempty"`
	}{"about:blank", http.StatusText(p.status), p.status, p.code, p.message, p.details})
	if err != nil { // not possible: the shape has strings and a number only
		text = []byte(`{}`)
	}
	writeText(w, p.status, "application/problem+json", text)
}
