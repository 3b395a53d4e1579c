package issuer

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io"
	"mime"
	"mime/multipart"
	"net/http"
	"strconv"
	"strings"
)

// A document is what the sandbox keeps of an uploaded file: not its content. The
// published interface shows neither the fields nor the form of the upload.
type document struct {
	DocumentID  string  `json:"documentId"`
	CustomerID  *string `json:"customerId"`
	Type        *string `json:"type"`
	FileName    string  `json:"fileName"`
	ContentType string  `json:"contentType"`
	Size        int     `json:"size"`
	SHA256      string  `json:"sha256"`
	CreatedAt   string  `json:"createdAt"`
}

// uploaded is a list of documents without pages: those of one upload.
type uploaded struct {
	Data []*document `json:"data"`
}

// uploadDocuments takes multipart/form-data with one file or more, and with
// customerId and type, if there are any, for all of them.
func (i *Issuer) uploadDocuments(c *call) (int, any, *problem) {
	fields, files, bad := readForm(c)
	if bad != nil {
		return 0, nil, bad
	}
	t := i.tenantLocked(c.tenant)
	var customerID, kind *string
	if id, ok := fields["customerId"]; ok {
		id = strings.ToLower(id)
		if t.customers[id] == nil {
			return 0, nil, notFound("customer", id)
		}
		customerID = &id
	}
	if text, ok := fields["type"]; ok {
		kind = &text
	}
	for _, made := range files {
		if bad := i.keepLocked(c.tenant, t, "documents"); bad != nil {
			return 0, nil, bad
		}
		made.CustomerID, made.Type, made.CreatedAt = customerID, kind, stamp(c.now)
		made.DocumentID = uuidOf("document", c.tenant, strconv.Itoa(len(t.documents)), made.SHA256)
		t.documents[made.DocumentID] = made
	}
	return http.StatusCreated, uploaded{files}, nil
}

// readForm returns the fields and the files of the body.
func readForm(c *call) (fields map[string]string, files []*document, p *problem) {
	kind, parameters, err := mime.ParseMediaType(c.Header.Get("Content-Type"))
	if err != nil || kind != "multipart/form-data" || parameters["boundary"] == "" {
		return nil, nil, &problem{
			status: http.StatusUnsupportedMediaType, code: "NOT_MULTIPART",
			message: "documents are uploaded as multipart/form-data with a boundary",
		}
	}
	fields = make(map[string]string)
	parts := multipart.NewReader(bytes.NewReader(c.body), parameters["boundary"])
	for {
		part, err := parts.NextPart()
		if errors.Is(err, io.EOF) {
			break
		}
		var content []byte
		if err == nil {
			content, err = io.ReadAll(part)
		}
		switch {
		case err != nil:
			return nil, nil, invalid(detail{"", "the body is not complete multipart/form-data"})
		case part.FileName() != "":
			files = append(files, newDocument(part, content))
		default:
			fields[part.FormName()] = string(content)
		}
	}
	if len(files) == 0 {
		return nil, nil, invalid(detail{"file", "at least one part with a file name is required"})
	}
	return fields, files, nil
}

func newDocument(part *multipart.Part, content []byte) *document {
	sum := sha256.Sum256(content)
	kind := part.Header.Get("Content-Type")
	if kind == "" {
		kind = "application/octet-stream"
	}
	return &document{FileName: part.FileName(), ContentType: kind, Size: len(content), SHA256: hex.EncodeToString(sum[:])}
}
