package issuer

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"mime/multipart"
	"net/http"
	"strings"
	"testing"
)

// form makes an upload of files, and of fields as name=value.
func form(t *testing.T, files map[string]string, fields ...string) *http.Request {
	t.Helper()
	var body bytes.Buffer
	w := multipart.NewWriter(&body)
	for _, field := range fields {
		name, value, _ := strings.Cut(field, "=")
		if err := w.WriteField(name, value); err != nil {
			t.Fatal(err)
		}
	}
	for name, content := range files {
		part, err := w.CreateFormFile("file", name)
		if err != nil {
			t.Fatal(err)
		}
		_, _ = part.Write([]byte(content))
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	r := request("POST", "/api/v1/documents", body.String())
	r.Header.Set("Content-Type", w.FormDataContentType())
	return r
}

// upload uploads one file and returns its id.
func upload(t *testing.T, i *Issuer, fields ...string) string {
	t.Helper()
	answer := ask(t, i, 201, form(t, map[string]string{"passport.png": "PNG"}, fields...))
	return at(t, at(t, answer, "data").([]any)[0], "documentId").(string)
}

func TestUploadDocuments(t *testing.T) {
	i := newTestIssuer(Options{})
	customerID := createAnn(t, i)
	large := strings.Repeat("0123456789abcdef", 5<<20/16)
	sum := sha256.Sum256([]byte(large))
	answer := at(t, ask(t, i, 201, form(t, map[string]string{"Zoë.pdf": large}, "customerId="+customerID, "type=passport")), "data").([]any)
	for name, want := range map[string]any{
		"fileName": "Zoë.pdf", "size": 5.0 * (1 << 20), "sha256": hex.EncodeToString(sum[:]), "customerId": customerID, "type": "passport",
	} {
		if got := at(t, answer[0], name); got != want {
			t.Errorf("%s is %v, want %v", name, got, want)
		}
	}
	if two := at(t, ask(t, i, 201, form(t, map[string]string{"a": "1", "b": "2"})), "data").([]any); len(two) != 2 || at(t, two[0], "customerId") != nil {
		t.Errorf("two files are %v", two)
	}
	ask(t, i, 404, form(t, map[string]string{"a": "1"}, "customerId="+virtualProduct))
	ask(t, i, 422, form(t, nil, "type=passport"))
	ask(t, i, 415, request("POST", "/api/v1/documents", "{}"))
	cutOff := request("POST", "/api/v1/documents", "--x\r\nContent-Disposition: form-data; name=\"file\"; filename=\"a\"\r\n\r\n1")
	cutOff.Header.Set("Content-Type", "multipart/form-data; boundary=x")
	ask(t, i, 422, cutOff)
}
