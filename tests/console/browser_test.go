// Package console looks at the console in a headless browser, against a real
// gateway.
package console

import (
	"bufio"
	"encoding/json"
	"os"
	"os/exec"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/card-gateway/card-gateway/tests/harness"
)

// TestMain ends the browser after the last test.
func TestMain(m *testing.M) {
	code := m.Run()
	theBrowser.end()
	os.Exit(code)
}

// theBrowser is shared by all tests, because its start takes seconds. Each page has
// a profile of its own.
var theBrowser browser

// A browser is a headless Chromium that is spoken to over two pipes.
type browser struct {
	once sync.Once
	run  *exec.Cmd
	out  *os.File // commands for it
	dir  string
	done chan struct{} // closed when it says nothing more

	mu      sync.Mutex
	last    int
	answers map[int]chan reply // nil: it has ended
	pages   map[string]*page   // by session
}

// A page is a tab. Its first console error, and whatever it loads from elsewhere,
// fails the test.
type page struct {
	t       *testing.T
	home    string // scheme, host and port of all that it may load
	session string
}

// A reply is an answer or an event of the browser (Chrome DevTools Protocol).
type reply struct {
	ID        int             `json:"id"`
	SessionID string          `json:"sessionId"`
	Method    string          `json:"method"`
	Params    json.RawMessage `json:"params"`
	Result    json.RawMessage `json:"result"`
	Error     *struct{ Message string }
}

// chromium returns the path of a Chromium, or skips the test.
func chromium(t *testing.T) string {
	t.Helper()
	for _, name := range []string{"chromium", "chromium-browser", "google-chrome"} {
		if found, err := exec.LookPath(name); err == nil {
			return found
		}
	}
	t.Skip("NOT TESTED: no Chromium is installed, so nobody has looked at the console; tests/install-tools.sh chromium installs it")
	return ""
}

// start runs the browser.
func (b *browser) start(t *testing.T, program string) {
	t.Helper()
	commands, toBrowser, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	fromBrowser, answers, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	if b.dir, err = os.MkdirTemp("", "cgb"); err != nil {
		t.Fatal(err)
	}
	b.run = exec.Command(program, "--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run",
		"--disable-background-networking", "--disable-component-update", "--hide-scrollbars", "--user-data-dir="+b.dir,
		"--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1", "--remote-debugging-pipe", "about:blank")
	b.run.Env = append(os.Environ(), "HOME="+b.dir, "TZ=UTC")
	b.run.ExtraFiles = []*os.File{commands, answers}
	if err := b.run.Start(); err != nil {
		t.Fatal(err)
	}
	_, _ = commands.Close(), answers.Close()
	b.out, b.answers, b.pages, b.done = toBrowser, make(map[int]chan reply), make(map[string]*page), make(chan struct{})
	go func() {
		defer close(b.done)
		b.listen(fromBrowser)
	}()
}

// end stops the browser, if it runs.
func (b *browser) end() {
	if b.done == nil {
		return
	}
	_ = b.run.Process.Kill()
	_ = b.run.Wait()
	<-b.done
	_ = os.RemoveAll(b.dir)
}

// openPage opens a tab on a path of a site, as somebody who types its address.
func openPage(t *testing.T, home, path string) *page {
	t.Helper()
	program := chromium(t)
	theBrowser.once.Do(func() { theBrowser.start(t, program) })
	if theBrowser.done == nil {
		t.Fatal("the browser did not start")
	}
	p := &page{t: t, home: home}
	var made struct{ BrowserContextID, TargetID, SessionID string }
	p.do("Target.createBrowserContext", nil, &made)
	p.do("Target.createTarget", map[string]any{"url": "about:blank", "browserContextId": made.BrowserContextID}, &made)
	p.do("Target.attachToTarget", map[string]any{"targetId": made.TargetID, "flatten": true}, &made)
	p.session = made.SessionID
	theBrowser.watch(p, p)
	t.Cleanup(func() {
		theBrowser.watch(p, nil)
		(&page{t: t}).do("Target.disposeBrowserContext", map[string]any{"browserContextId": made.BrowserContextID}, nil)
	})
	for _, domain := range []string{"Page", "Runtime", "Network", "Log"} {
		p.do(domain+".enable", nil, nil)
	}
	p.do("Emulation.setFocusEmulationEnabled", map[string]any{"enabled": true}, nil)
	p.do("Page.navigate", map[string]any{"url": home + path}, nil)
	return p
}

// watch sends the events of a page to a listener from now on; nil: to nobody.
func (b *browser) watch(p, listener *page) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.pages[p.session] = listener
}

// listen reads what the browser says until it ends.
func (b *browser) listen(from *os.File) {
	lines := bufio.NewReader(from)
	for {
		text, err := lines.ReadBytes(0)
		b.mu.Lock()
		if err != nil {
			for _, waiting := range b.answers {
				close(waiting)
			}
			b.answers = nil
			b.mu.Unlock()
			return
		}
		var r reply
		if json.Unmarshal(text[:len(text)-1], &r) == nil {
			b.hear(&r)
		}
		b.mu.Unlock()
	}
}

// hear passes a reply on; b.mu is held.
func (b *browser) hear(r *reply) {
	if p := b.pages[r.SessionID]; r.ID == 0 && p != nil {
		p.event(r)
	}
	if waiting := b.answers[r.ID]; waiting != nil {
		delete(b.answers, r.ID)
		waiting <- *r
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

// ask sends a command, and returns where its answer arrives; nil: the browser has ended.
func (b *browser) ask(session, method string, params any) (chan reply, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.answers == nil {
		return nil, os.ErrClosed
	}
	b.last++
	command := map[string]any{"id": b.last, "method": method}
	if params != nil {
		command["params"] = params
	}
	if session != "" {
		command["sessionId"] = session
	}
	text, err := json.Marshal(command)
	if err != nil {
		return nil, err
	}
	waiting := make(chan reply, 1)
	b.answers[b.last] = waiting
	_, err = b.out.Write(append(text, 0))
	return waiting, err
}

// do gives the browser a command for the page and reads its result.
func (p *page) do(method string, params, into any) {
	p.t.Helper()
	waiting, err := theBrowser.ask(p.session, method, params)
	if err != nil {
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
