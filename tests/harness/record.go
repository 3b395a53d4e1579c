package harness

import (
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
)

// AnswersDir names the environment variable with the directory into which tests
// write answers that they see, a file for each package. tests/openapi holds the
// document of the API against them. Unset: nothing is written.
const AnswersDir = "CARD_TEST_ANSWERS"

// A Recorded is a request and the answer to it.
type Recorded struct {
	Method string
	Target string
	Status int
	Header http.Header
	Body   string
}

const (
	recordedAlike = 2        // answers of one kind
	recordedBody  = 64 << 10 // largest body
)

// recorder writes the first answers of each kind.
type recorder struct {
	mu   sync.Mutex
	file *os.File
	seen map[string]int
}

// records is nil where nothing is to be written.
var records = sync.OnceValue(func() *recorder {
	dir := os.Getenv(AnswersDir)
	if dir == "" {
		return nil
	}
	// A directory of its own, so that go test finds a cached result outdated when
	// it is gone, and only then.
	dir = filepath.Join(dir, strings.TrimSuffix(filepath.Base(os.Args[0]), ".test"))
	if err := os.MkdirAll(dir, 0o755); err != nil {
		panic(err)
	}
	if _, err := os.ReadDir(dir); err != nil {
		panic(err)
	}
	file, err := os.Create(filepath.Join(dir, "answers.jsonl"))
	if err != nil {
		panic(err)
	}
	return &recorder{file: file, seen: make(map[string]int)}
})

// recordAnswer writes an answer down if it is of a kind that was seldom seen.
func recordAnswer(method, target string, r *Response) {
	to := records()
	if to == nil || len(r.Body) > recordedBody {
		return
	}
	kind := kindOf(method, target, r)
	to.mu.Lock()
	defer to.mu.Unlock()
	if to.seen[kind]++; to.seen[kind] > recordedAlike {
		return
	}
	line, err := json.Marshal(Recorded{method, target, r.Status, r.Header, r.Body})
	if err == nil {
		_, err = to.file.Write(append(line, '\n'))
	}
	if err != nil {
		panic(err)
	}
}

var (
	anID    = regexp.MustCompile(`[^/]*[0-9][^/]*`)
	aCode   = regexp.MustCompile(`"code":"[A-Z_]*"`)
	aMember = regexp.MustCompile(`"[A-Za-z_]+":`)
)

// kindOf returns what two answers have in common that need not both be kept: the
// path without ids, the status, the names of headers and of members, the code.
func kindOf(method, target string, r *Response) string {
	path, _, _ := strings.Cut(target, "?")
	var names []string
	for name := range r.Header {
		names = append(names, name)
	}
	members := aMember.FindAllString(r.Body, -1)
	slices.Sort(names)
	slices.Sort(members)
	return fmt.Sprint(method, anID.ReplaceAllString(path, "1"), r.Status, names, slices.Compact(members), aCode.FindString(r.Body))
}
