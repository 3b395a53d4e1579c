// Package console looks at the console in a headless browser, against a real
// gateway.
package console

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/card-gateway/card-gateway/tests/harness"
)

// A page is a tab of a headless Chromium. Its first console error, and whatever it
// loads from elsewhere, fails the test.
type page struct {
	t       *testing.T
	home    string // scheme, host and port of all that it may load
	session string
	out     *os.File // commands for the browser

	mu      sync.Mutex
	last    int
	answers map[int]chan reply
}

// A reply is an answer or an event of the browser (Chrome DevTools Protocol).
type reply struct {
	ID     int             `json:"id"`
	Method string          `json:"method"`
	Params json.RawMessage `json:"params"`
	Result json.RawMessage `json:"result"`
	Error  *struct{ Message string }
}

// openPage opens a tab on a path of a site, as somebody who types its address.
func openPage(t *testing.T, home, path string) *page {
	t.Helper()
	program := ""
	for _, name := range []string{"chromium", "chromium-browser", "google-chrome"} {
		if found, err := exec.LookPath(name); err == nil {
			program = found
			break
		}
	}
	if program == "" {
		t.Skip("NOT TESTED: no Chromium is installed, so nobody has looked at the console; tests/install-tools.sh chromium installs it")
	}
	commands, toBrowser, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	fromBrowser, answers, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	dir, err := os.MkdirTemp("", "cgb")
	if err != nil {
		t.Fatal(err)
	}
	run := exec.Command(program, "--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run",
		"--disable-background-networking", "--disable-component-update", "--user-data-dir="+dir,
		"--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1", "--remote-debugging-pipe", "about:blank")
	run.Env = append(os.Environ(), "HOME="+dir)
	run.ExtraFiles = []*os.File{commands, answers}
	if err := run.Start(); err != nil {
		t.Fatal(err)
	}
	_, _ = commands.Close(), answers.Close()
	p := &page{t: t, home: home, out: toBrowser, answers: make(map[int]chan reply)}
	done := make(chan struct{})
	go func() {
		defer close(done)
		p.listen(fromBrowser)
	}()
	t.Cleanup(func() {
		_ = run.Process.Kill()
		_ = run.Wait()
		<-done
		_ = os.RemoveAll(dir)
	})
	var target struct{ TargetID, SessionID string }
	p.do("Target.createTarget", map[string]any{"url": "about:blank"}, &target)
	p.do("Target.attachToTarget", map[string]any{"targetId": target.TargetID, "flatten": true}, &target)
	p.session = target.SessionID
	for _, domain := range []string{"Page", "Runtime", "Network", "Log"} {
		p.do(domain+".enable", nil, nil)
	}
	p.do("Page.navigate", map[string]any{"url": home + path}, nil)
	return p
}

// listen reads what the browser says until it ends.
func (p *page) listen(from *os.File) {
	lines := bufio.NewReader(from)
	for {
		text, err := lines.ReadBytes(0)
		if err != nil {
			p.mu.Lock()
			defer p.mu.Unlock()
			for _, waiting := range p.answers {
				close(waiting)
			}
			p.answers = nil
			return
		}
		var r reply
		if json.Unmarshal(text[:len(text)-1], &r) != nil {
			continue
		}
		if r.ID == 0 {
			p.event(&r)
			continue
		}
		p.mu.Lock()
		waiting := p.answers[r.ID]
		delete(p.answers, r.ID)
		p.mu.Unlock()
		if waiting != nil {
			waiting <- r
		}
	}
}

// event fails the test for what a page must not do. That the browser reports the
// status of a refused call is no error of the page.
func (p *page) event(r *reply) {
	var params struct {
		Type    string
		Entry   struct{ Level, Source, Text string }
		Request struct{ URL string }
	}
	_ = json.Unmarshal(r.Params, &params)
	switch {
	case r.Method == "Runtime.exceptionThrown",
		r.Method == "Runtime.consoleAPICalled" && params.Type == "error",
		r.Method == "Log.entryAdded" && params.Entry.Level == "error" && params.Entry.Source != "network":
		p.t.Errorf("the browser reports %s", r.Params)
	case r.Method == "Network.requestWillBeSent" && !strings.HasPrefix(params.Request.URL, p.home+"/") && !strings.HasPrefix(params.Request.URL, "data:"):
		p.t.Errorf("the page loads %s", params.Request.URL)
	}
}

// do gives the browser a command and reads its result.
func (p *page) do(method string, params, into any) {
	p.t.Helper()
	waiting := make(chan reply, 1)
	p.mu.Lock()
	p.last++
	id := p.last
	if p.answers == nil {
		p.mu.Unlock()
		p.t.Fatalf("%s: the browser has ended", method)
	}
	p.answers[id] = waiting
	p.mu.Unlock()
	command := map[string]any{"id": id, "method": method}
	if params != nil {
		command["params"] = params
	}
	if p.session != "" {
		command["sessionId"] = p.session
	}
	text, err := json.Marshal(command)
	if err != nil {
		p.t.Fatal(err)
	}
	if _, err := p.out.Write(append(text, 0)); err != nil {
		p.t.Fatalf("%s: %v", method, err)
	}
	select {
	case r, ok := <-waiting:
		if !ok || r.Error != nil {
			p.t.Fatalf("%s: %+v", method, r.Error)
		}
		if into != nil {
			if err := json.Unmarshal(r.Result, into); err != nil {
				p.t.Fatal(err)
			}
		}
	case <-time.After(2 * harness.Patience):
		p.t.Fatalf("%s: the browser does not answer", method)
	}
}

// eval returns the text of an expression in the page.
func (p *page) eval(expression string) string {
	p.t.Helper()
	var found struct {
		Result struct{ Value any }
	}
	p.do("Runtime.evaluate", map[string]any{"expression": "(() => { try { return String(" + expression + ") } catch (e) { return 'error: ' + e } })()"}, &found)
	return fmt.Sprint(found.Result.Value)
}

// see waits until the whole text of the page has all the words.
func (p *page) see(words ...string) string {
	p.t.Helper()
	var text string
	for deadline := time.Now().Add(harness.Patience); time.Now().Before(deadline); time.Sleep(20 * time.Millisecond) {
		text = p.eval("document.body ? document.body.innerText : ''")
		found := 0
		for _, word := range words {
			if strings.Contains(text, word) {
				found++
			}
		}
		if found == len(words) {
			return text
		}
	}
	p.t.Fatalf("the page does not show %q:\n%s", words, text)
	return ""
}

// keys are those that are not letters.
var keys = map[string]int{"Tab": 9, "Enter": 13, "Escape": 27}

// press presses a key that is not a letter.
func (p *page) press(name string) {
	p.t.Helper()
	params := map[string]any{"type": "keyDown", "key": name, "code": name, "windowsVirtualKeyCode": keys[name]}
	if name == "Enter" {
		params["text"] = "\r"
	}
	p.do("Input.dispatchKeyEvent", params, nil)
	p.do("Input.dispatchKeyEvent", map[string]any{"type": "keyUp", "key": name, "code": name, "windowsVirtualKeyCode": keys[name]}, nil)
}

// tabTo presses Tab until the focus is where the expression about e holds.
func (p *page) tabTo(what string) {
	p.t.Helper()
	for range 80 {
		if p.eval("(e => "+what+")(document.activeElement)") == "true" {
			return
		}
		p.press("Tab")
	}
	p.t.Fatalf("no Tab reaches %s on\n%s", what, p.eval("document.body.innerText"))
}

// write types a text where the focus is.
func (p *page) write(text string) {
	p.t.Helper()
	p.do("Input.insertText", map[string]any{"text": text}, nil)
}

// use goes to a control by the keyboard and presses Enter.
func (p *page) use(what string) {
	p.t.Helper()
	p.tabTo(what)
	p.press("Enter")
}
