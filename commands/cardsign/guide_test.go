package cardsign

import (
	"bytes"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"testing"
)

// signingGuide returns the code blocks of docs/signing.md of a language.
func signingGuide(t *testing.T, language string) []string {
	t.Helper()
	text, err := os.ReadFile("../../docs/signing.md")
	if err != nil {
		t.Fatal(err)
	}
	var blocks []string
	for _, match := range regexp.MustCompile("(?s)```"+language+"\n(.*?)```").FindAllSubmatch(text, -1) {
		blocks = append(blocks, string(match[1]))
	}
	if len(blocks) == 0 {
		t.Fatalf("the guide has no %s block", language)
	}
	return blocks
}

// The worked example's commands print what the guide says they print.
func TestSigningGuideExample(t *testing.T) {
	for _, block := range signingGuide(t, "console") {
		var commands, want strings.Builder
		for line := range strings.Lines(block) {
			switch command, isCommand := strings.CutPrefix(line, "$ "); {
			case isCommand:
				commands.WriteString(command)
			case strings.HasPrefix(line, " "):
				commands.WriteString(line)
			default:
				want.WriteString(line)
			}
		}
		got, err := exec.Command("sh", "-c", commands.String()).Output()
		if err != nil || string(got) != want.String() {
			t.Errorf("%s\nprints\n%s%v\nwant\n%s", commands.String(), got, err, want.String())
		}
	}
}

// The shell client of the guide signs what it sends.
func TestSigningGuideShellClient(t *testing.T) {
	issuer := httptest.NewServer(http.HandlerFunc(checkingIssuer))
	defer issuer.Close()
	for _, args := range [][]string{
		{"GET", "/api/v1/orders?b=2&a=1&q=a%20b%2f+%41[1-2]"},
		{"GET", "/api/v1/orders?"},
		{"POST", "/api/v1/orders", `{"name":"Zoë", "it's":"$1"}`},
		{"DELETE", "/api/v1/orders/7"},
	} {
		args[1] = issuer.URL + args[1]
		command := exec.Command("bash", append([]string{"-c", signingGuide(t, "bash")[0], "card-request.sh"}, args...)...)
		command.Env = append(os.Environ(), "CARD_KEY_ID="+scriptKeyID, "CARD_SECRET="+scriptSecret)
		if got, err := command.Output(); err != nil || !bytes.Contains(got, []byte(`"signed":true`)) {
			t.Errorf("%q: %s%v", args, got, err)
		}
	}
}
