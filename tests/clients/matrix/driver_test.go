package matrix

import (
	"bufio"
	"encoding/json"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/card-gateway/card-gateway/tests/harness"
)

// installs says how to get what is missing.
const installs = "is not installed; tests/install-client-runtimes.sh installs it"

// startIssuer starts an issuer, or a server in the place of the gateway, to which
// other programs send.
func startIssuer(t *testing.T) *harness.Upstream {
	t.Helper()
	u := harness.StartUpstream(t)
	u.Trusts("the clients under test send, and the cases say what must arrive")
	return u
}

// skipWithout skips the test of a language whose programs or files are missing,
// and fails it in CI, which installs them.
func skipWithout(t *testing.T, needs []string) {
	t.Helper()
	for _, name := range needs {
		_, err := exec.LookPath(name)
		if filepath.IsAbs(name) {
			_, err = os.Stat(name)
		}
		switch {
		case err == nil:
		case os.Getenv("CI") == "true":
			t.Fatalf("%s %s", name, installs)
		default:
			t.Skipf("NOT TESTED: %s %s", name, installs)
		}
	}
}

// missing reports an adapter whose library is not installed.
func (l language) missing(t *testing.T, adapters map[string]bool) {
	t.Helper()
	for _, name := range l.adapters {
		if _, found := adapters[name]; found {
			continue
		}
		if os.Getenv("CI") == "true" {
			t.Errorf("%s %s", name, installs)
		}
		t.Logf("NOT TESTED: %s %s", name, installs)
	}
}

// install packs the client and installs it in an empty directory.
func (l language) install(t *testing.T) (dir string) {
	t.Helper()
	skipWithout(t, l.needs)
	dir = t.TempDir()
	cmd := exec.Command("bash", l.path("test/install.sh"), dir)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("the client is not installed from its package: %v\n%s", err, out)
	}
	return dir
}

func (l language) path(name string) string {
	path, err := filepath.Abs(filepath.Join("../../../clients", l.name, name))
	if err != nil {
		panic(err)
	}
	return path
}

// A call is what a driver is asked to do.
type call struct {
	Do      string            `json:"do"`
	Adapter string            `json:"adapter,omitempty"`
	Base    string            `json:"base,omitempty"`
	KeyID   string            `json:"key_id,omitempty"`
	Secret  string            `json:"secret,omitempty"`
	Method  string            `json:"method,omitempty"`
	Target  string            `json:"target,omitempty"`
	Query   [][2]string       `json:"query,omitempty"`
	Body    []byte            `json:"body"` // base64
	HasBody bool              `json:"has_body"`
	Kind    string            `json:"kind,omitempty"`
	Headers map[string]string `json:"headers,omitempty"`
	Clock   int               `json:"clock"`
	Count   int               `json:"count,omitempty"`

	Timestamp string `json:"timestamp,omitempty"`
	Nonce     string `json:"nonce,omitempty"`
	Attempts  int    `json:"attempts"` // 0: as many as the client makes

	VerifyAnswers bool                `json:"verify_answers"`
	Status        int                 `json:"status,omitempty"` // of an answer to verify
	Answer        map[string][]string `json:"answer"`           // its headers
	Now           int64               `json:"now,omitempty"`    // what the clock shows then
}

// A result is what a driver answers.
type result struct {
	Adapters map[string]bool `json:"adapters"` // whether it raises errors for refusals
	Version  string          `json:"version"`
	Closed   bool            `json:"closed"`

	Signature string `json:"signature"`
	BodyHash  string `json:"body_hash"`
	Trusted   bool   `json:"trusted"`
	Verified  bool   `json:"verified"`

	Status   int      `json:"status"`
	Body     []byte   `json:"body"`
	Statuses []int    `json:"statuses"`
	Error    *failure `json:"error"`
}

// A failure is a typed error of a client.
type failure struct {
	Type       string  `json:"type"`
	Status     int     `json:"status"`
	Code       string  `json:"code"`
	Message    string  `json:"message"`
	RequestID  string  `json:"request_id"`
	RetryAfter float64 `json:"retry_after"`
	Sent       *bool   `json:"sent"`
	Attempts   int     `json:"attempts"`
	Unsigned   bool    `json:"unsigned"` // of an answer that is not proven

	Nonce       string `json:"nonce"` // of a call that was taken, or whose outcome is not known
	Timestamp   int64  `json:"timestamp"`
	Until       int64  `json:"until"`
	NotExecuted bool   `json:"not_executed"`

	Details []struct {
		Field   string `json:"field"`
		Message string `json:"message"`
	} `json:"details"`
}

// A driver is a running program that has the client installed.
type driver struct {
	in  io.WriteCloser
	out *bufio.Reader
	cmd *exec.Cmd
	err *output
}

// An output is what a program has written so far.
type output struct {
	mu   sync.Mutex
	text strings.Builder
}

func (o *output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.text.Write(p)
}

func (o *output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.text.String()
}

func (l language) start(t *testing.T, dir string) *driver {
	t.Helper()
	d := &driver{cmd: exec.Command(filepath.Join(dir, "run"), l.path("test/"+l.driver)), err: new(output)}
	// A proxy would see what goes to 127.0.0.1.
	d.cmd.Env = slices.DeleteFunc(os.Environ(), func(v string) bool {
		return strings.Contains(strings.ToLower(strings.SplitN(v, "=", 2)[0]), "_proxy")
	})
	d.cmd.Stderr = d.err
	in, err := d.cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := d.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	d.in, d.out = in, bufio.NewReaderSize(out, 1<<20)
	if err := d.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = d.in.Close()
		kill := time.AfterFunc(time.Minute, func() { _ = d.cmd.Process.Kill() })
		if err := d.cmd.Wait(); err != nil {
			t.Errorf("the driver ends with %v", err)
		}
		kill.Stop()
		if t.Failed() {
			t.Logf("the driver's standard error:\n%.20000s", d.err)
		}
	})
	return d
}

// do sends a call and waits for its result.
func (d *driver) do(t *testing.T, c call) result {
	t.Helper()
	if c.Body == nil {
		c.Body = []byte{}
	}
	line, err := json.Marshal(c)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := d.in.Write(append(line, '\n')); err != nil {
		t.Fatalf("the driver has ended: %v\n%s", err, d.err)
	}
	text, err := d.out.ReadBytes('\n')
	if err != nil {
		t.Fatalf("the driver has ended: %v\n%s", err, d.err)
	}
	if c.Secret != "" && (strings.Contains(string(text), c.Secret) || strings.Contains(d.err.String(), c.Secret)) {
		t.Errorf("the secret is in what the client says:\n%s\n%s", text, d.err)
	}
	var r result
	if err := json.Unmarshal(text, &r); err != nil {
		t.Fatalf("%v: the driver wrote %.2000q", err, text)
	}
	return r
}
