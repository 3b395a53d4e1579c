package caddymodule

import (
	"bytes"
	"encoding/json"
	goflag "flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/caddyserver/caddy/v2/caddyconfig"
	_ "github.com/caddyserver/caddy/v2/modules/standard"
)

var update = goflag.Bool("update", false, "write the golden files anew")

const goldenLine = "----------\n"

// TestCaddyfileGolden adapts the part of each file above the line and compares
// the gateway's part of the result, or the error, with the part below.
func TestCaddyfileGolden(t *testing.T) {
	files, err := filepath.Glob("testdata/caddyfile/*.txt")
	if err != nil || len(files) == 0 {
		t.Fatalf("no golden files: %v", err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txt"), func(t *testing.T) {
			content, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			input, want, _ := strings.Cut(string(content), goldenLine)
			got := adapted(t, input)
			if *update {
				if err := os.WriteFile(file, []byte(input+goldenLine+got), 0o644); err != nil {
					t.Fatal(err)
				}
				return
			}
			if got != want {
				t.Errorf("got:\n%s\nwant:\n%s", got, want)
			}
		})
	}
}

// adapted returns the gateway's part of the configuration as JSON, or the error
// of the adapter.
func adapted(t *testing.T, input string) string {
	t.Helper()
	config, _, err := caddyconfig.GetAdapter("caddyfile").Adapt([]byte(input), map[string]any{"filename": "Caddyfile"})
	if err != nil {
		return "error: " + err.Error() + "\n"
	}
	var all struct {
		Logging json.RawMessage `json:"logging,omitempty"`
		Apps    struct {
			Gateway json.RawMessage `json:"card_gateway,omitempty"`
			HTTP    json.RawMessage `json:"http,omitempty"`
		} `json:"apps"`
	}
	if err := json.Unmarshal(config, &all); err != nil {
		t.Fatal(err)
	}
	var handlers []json.RawMessage
	collectHandlers(t, all.Apps.HTTP, &handlers)
	ours, err := json.Marshal(map[string]any{"app": all.Apps.Gateway, "handlers": handlers, "logging": all.Logging})
	if err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	if err := json.Indent(&out, ours, "", "  "); err != nil {
		t.Fatal(err)
	}
	return out.String() + "\n"
}

// collectHandlers collects the gateway's handlers in their order in the
// configuration.
func collectHandlers(t *testing.T, raw json.RawMessage, into *[]json.RawMessage) {
	t.Helper()
	if len(raw) == 0 {
		return
	}
	switch raw[0] {
	case '[':
		var list []json.RawMessage
		if err := json.Unmarshal(raw, &list); err != nil {
			t.Fatal(err)
		}
		for _, item := range list {
			collectHandlers(t, item, into)
		}
	case '{':
		var kind struct {
			Handler string `json:"handler"`
		}
		if err := json.Unmarshal(raw, &kind); err == nil && strings.HasPrefix(kind.Handler, "card_") {
			*into = append(*into, raw)
			return
		}
		var object map[string]json.RawMessage
		if err := json.Unmarshal(raw, &object); err != nil {
			t.Fatal(err)
		}
		for _, name := range []string{"servers", "srv0", "routes", "handle"} {
			collectHandlers(t, object[name], into)
		}
	}
}

// FuzzCaddyfile: any text in the global block is adapted or refused, without a
// panic.
func FuzzCaddyfile(f *testing.F) {
	files, _ := filepath.Glob("testdata/caddyfile/*.txt")
	for _, file := range files {
		content, err := os.ReadFile(file)
		if err != nil {
			f.Fatal(err)
		}
		input, _, _ := strings.Cut(string(content), goldenLine)
		f.Add(input)
	}
	f.Fuzz(func(t *testing.T, input string) {
		_, _, _ = caddyconfig.GetAdapter("caddyfile").Adapt([]byte(input), nil)
	})
}
