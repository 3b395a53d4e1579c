package ops

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/card-gateway/card-gateway/tests/harness"
)

// A composed is ops/compose.yml.
type composed struct {
	Services map[string]struct {
		Image, Build any
		Command      []string
		Volumes      []string
	}
	Volumes map[string]any
}

// TestCompose requires that each file that ops/compose.yml mounts is there, that the
// services find each other by name, and that each configuration is accepted by the
// program that reads it.
func TestCompose(t *testing.T) {
	t.Parallel()
	var c composed
	readYAML(t, "../../ops/compose.yml", &c)
	inside := make(map[string]string) // file in a container: file here
	for name, service := range c.Services {
		for _, volume := range service.Volumes {
			source, target, _ := strings.Cut(volume, ":")
			target, _, _ = strings.Cut(target, ":")
			if !strings.HasPrefix(source, "./") {
				if _, declared := c.Volumes[source]; !declared {
					t.Errorf("%s mounts the volume %s, which is not declared", name, source)
				}
				continue
			}
			file := filepath.Join("../../ops", source)
			if _, err := os.Stat(file); err != nil {
				t.Errorf("%s mounts %s: %v", name, source, err)
			}
			inside[target] = file
		}
		for _, word := range service.Command {
			_, path, found := strings.Cut(word, "=/etc/")
			if found && inside["/etc/"+path] == "" {
				t.Errorf("%s starts with %s, which is not mounted", name, word)
			}
		}
	}
	provisioned := readFile(t, inside["/etc/grafana/provisioning/dashboards/card-gateway.yml"])
	if inside["/etc/grafana/dashboards/card-gateway.json"] == "" || !strings.Contains(provisioned, "path: /etc/grafana/dashboards\n") {
		t.Error("Grafana's provisioning does not name the directory of the dashboard")
	}
	for file, names := range map[string][]string{
		inside["/etc/prometheus/prometheus.yml"]:                         {"alertmanager:9093", "gateway:9180", "job_name: card-gateway", "scrape_native_histograms: true", "always_scrape_classic_histograms: true"},
		inside["/etc/grafana/provisioning/datasources/card-gateway.yml"]: {"http://prometheus:9090"},
		inside["/etc/card-gateway/Caddyfile"]:                            {"redis:6379", ":9180"},
	} {
		for _, name := range names {
			if !strings.Contains(readFile(t, file), name) {
				t.Errorf("%s does not name %s", file, name)
			}
		}
	}
	checkConfigurations(t, inside)
}

// newerOption is an option that the Prometheus of ops/compose.yml knows, and that of
// the distribution does not.
var newerOption = regexp.MustCompile(`(?m)^ +(scrape_native_histograms|always_scrape_classic_histograms): .*\n`)

// checkConfigurations lets promtool and the gateway read theirs. That amtool accepts
// Alertmanager's is another test.
func checkConfigurations(t *testing.T, inside map[string]string) {
	t.Helper()
	dir := t.TempDir()
	for target, file := range inside {
		if path, of := strings.CutPrefix(target, "/etc/prometheus/"); of {
			text := newerOption.ReplaceAllString(readFile(t, file), "")
			if err := os.WriteFile(filepath.Join(dir, path), []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
		}
	}
	promtool(t, "check", "config", filepath.Join(dir, "prometheus.yml"))
	adapt := exec.Command(harness.Binary(t), "adapt", "--adapter", "caddyfile", "--config", inside["/etc/card-gateway/Caddyfile"])
	if out, err := adapt.CombinedOutput(); err != nil {
		t.Errorf("adapt: %v\n%s", err, out)
	}
}
