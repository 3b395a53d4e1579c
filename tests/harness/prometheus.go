package harness

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// A Prometheus is a running Prometheus of the distribution.
type Prometheus struct {
	t    testing.TB
	addr string
	log  string
}

// StartPrometheus starts a Prometheus with a configuration and further flags, and
// waits until it is ready. Its data is in a directory of its own.
func StartPrometheus(t testing.TB, config string, flags ...string) *Prometheus {
	t.Helper()
	path, err := exec.LookPath("prometheus")
	if err != nil {
		t.Fatal("prometheus is not installed; tests/install-tools.sh installs it (Debian package prometheus)")
	}
	dir := t.TempDir()
	file := filepath.Join(dir, "prometheus.yml")
	if err := os.WriteFile(file, []byte(config), 0o600); err != nil {
		t.Fatal(err)
	}
	p := &Prometheus{t: t, log: filepath.Join(dir, "log")}
	for range 5 { // another process may take a free port first
		p.addr = FreeAddress(t)
		args := append([]string{"--config.file=" + file, "--storage.tsdb.path=" + filepath.Join(dir, "data"), "--web.listen-address=" + p.addr}, flags...)
		if p.run(exec.Command(path, args...)) {
			return p
		}
	}
	text, _ := os.ReadFile(p.log)
	t.Fatalf("prometheus did not become ready:\n%s", text)
	return nil
}

// run starts the process and reports whether it became ready.
func (p *Prometheus) run(cmd *exec.Cmd) bool {
	p.t.Helper()
	log, err := os.Create(p.log)
	if err != nil {
		p.t.Fatal(err)
	}
	defer log.Close()
	cmd.Stdout, cmd.Stderr = log, log
	cmd.Env = append(os.Environ(), "GOGC=400") // it has memory enough, and a test needs the CPUs
	if err := cmd.Start(); err != nil {
		p.t.Fatal(err)
	}
	ended := make(chan struct{})
	go func() {
		_ = cmd.Wait()
		close(ended)
	}()
	p.t.Cleanup(func() {
		_ = cmd.Process.Kill()
		<-ended
	})
	for deadline := time.Now().Add(Patience); time.Now().Before(deadline); {
		if answer, err := http.Get("http://" + p.addr + "/-/ready"); err == nil {
			_ = answer.Body.Close()
			if answer.StatusCode == http.StatusOK {
				return true
			}
		}
		select {
		case <-ended:
			return false
		case <-time.After(20 * time.Millisecond):
		}
	}
	return false
}

// Ask calls a path below /api/v1/ and decodes the data of the answer.
func (p *Prometheus) Ask(path string, query url.Values, data any) {
	p.t.Helper()
	answer, err := http.Get("http://" + p.addr + "/api/v1/" + path + "?" + query.Encode())
	if err != nil {
		p.t.Fatal(err)
	}
	defer answer.Body.Close()
	var envelope struct {
		Status, Error string
		Data          json.RawMessage
	}
	if err := json.NewDecoder(answer.Body).Decode(&envelope); err != nil || envelope.Status != "success" {
		p.t.Fatalf("asking prometheus %s %v: %v %s", path, query, err, envelope.Error)
	}
	if err := json.Unmarshal(envelope.Data, data); err != nil {
		p.t.Fatal(err)
	}
}

// PrometheusConfig returns the part of a configuration that applies to all jobs:
// the intervals of scrapes and rules, and the files of rules.
func PrometheusConfig(interval time.Duration, ruleFiles ...string) string {
	every := fmt.Sprintf("%dms", interval.Milliseconds())
	text := fmt.Sprintf("global: {scrape_interval: %s, scrape_timeout: %s, evaluation_interval: %s}\n", every, every, every)
	quoted := make([]string, len(ruleFiles))
	for i, file := range ruleFiles {
		quoted[i] = fmt.Sprintf("%q", file)
	}
	return text + "rule_files: [" + strings.Join(quoted, ", ") + "]\n"
}
