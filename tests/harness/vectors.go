package harness

import (
	"encoding/json"
	"net/http"
	"os"
	"path/filepath"
	"testing"
)

// An AnswerVector is one answer of tests/vectors/answers.json: to a request with the
// nonce, verified at Now.
type AnswerVector struct {
	Name, Nonce, Body, Expect string // Expect: signed, altered or unsigned
	Now                       int64  // Unix seconds
	Status                    int
	Headers                   http.Header
	BodyBase64                []byte `json:"body_base64"`
}

// Bytes returns the body.
func (v *AnswerVector) Bytes() []byte { return append([]byte(v.Body), v.BodyBase64...) }

// AnswerVectors returns the answers of the suite, of which there are many of each
// kind.
func AnswerVectors(t testing.TB) []AnswerVector {
	t.Helper()
	root, err := moduleRoot()
	if err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(filepath.Join(root, "tests", "vectors", "answers.json"))
	if err != nil {
		t.Fatal(err)
	}
	var suite struct{ Answers []AnswerVector }
	if err := json.Unmarshal(text, &suite); err != nil {
		t.Fatal(err)
	}
	counts := make(map[string]int)
	for _, v := range suite.Answers {
		counts[v.Expect]++
	}
	if counts["signed"] < 15 || counts["altered"] < 50 || counts["unsigned"] < 3 {
		t.Fatalf("only %v answers", counts)
	}
	return suite.Answers
}
