package cardsign

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/card-gateway/card-gateway/tests/scripts"
)

func TestMain(m *testing.M) { scripts.Main(m) }

// Each script has a server at $ISSUER that checks signatures of the key
// $CARD_KEY_ID without the code under test.
func TestScripts(t *testing.T) {
	scripts.Run(t, func(env *testscript.Env) error {
		issuer := httptest.NewServer(http.HandlerFunc(checkingIssuer))
		env.Defer(issuer.Close)
		env.Setenv("ISSUER", issuer.URL)
		env.Setenv("CARD_KEY_ID", scriptKeyID)
		env.Setenv("CARD_SECRET", scriptSecret)
		return nil
	}, scripts.Commands{"paste": paste})
}

const (
	scriptKeyID  = "ck_test_script"
	scriptSecret = "it's a $ecret \"with\" `all` of it"
)

// paste runs the last command's output in a shell, as a user would, and
// appends what it prints to the file "pasted".
func paste(ts *testscript.TestScript, _ bool, _ []string) {
	out, err := exec.Command("sh", "-c", ts.ReadFile("stdout")).Output()
	ts.Check(err)
	ts.Check(os.WriteFile(filepath.Join(ts.Getenv("WORK"), "pasted"), out, 0o600))
}

// checkingIssuer answers with the request that it received and whether that was
// signed correctly. The status of its answer is that of the header X-Want-Status.
func checkingIssuer(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	hash := sha256.Sum256(body)
	bodyHash := base64.StdEncoding.EncodeToString(hash[:])
	mac := hmac.New(sha256.New, []byte(scriptSecret))
	io.WriteString(mac, strings.Join([]string{r.Method, r.RequestURI, r.Header.Get("X-Timestamp"), r.Header.Get("X-Nonce"), bodyHash}, "\n"))
	signed := r.Header.Get("X-Api-Key") == scriptKeyID && r.Header.Get("X-Body-Hash") == bodyHash &&
		r.Header.Get("X-Signature") == base64.StdEncoding.EncodeToString(mac.Sum(nil))
	status, err := strconv.Atoi(r.Header.Get("X-Want-Status"))
	if err != nil {
		status = http.StatusOK
	}
	w.Header().Set("X-Seen", "yes")
	w.Header().Set("Location", "/elsewhere")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(map[string]any{
		"line": r.Method + " " + r.RequestURI, "signed": signed, "body": string(body), "host": r.Host,
		"type": r.Header.Get("Content-Type"), "extra": r.Header.Get("X-Extra"), "length": r.ContentLength,
	})
}
