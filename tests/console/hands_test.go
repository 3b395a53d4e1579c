package console

import (
	"fmt"
	"strings"
	"time"

	"github.com/card-gateway/card-gateway/tests/harness"
)

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

// tabTo presses Tab until the focus is where the expression about e holds, on a page
// that is not about to be replaced.
func (p *page) tabTo(what string) {
	p.t.Helper()
	for deadline := time.Now().Add(harness.Patience); time.Now().Before(deadline); {
		if p.eval("!document.querySelector('[aria-busy]') && (e => "+what+")(document.activeElement)") == "true" {
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

// gone waits until no element of the page fits the selector.
func (p *page) gone(selector string) {
	p.t.Helper()
	harness.Eventually(p.t, selector+" is gone", func() bool { return p.eval("document.querySelector('"+selector+"')") == "null" })
}

// use goes to a control by the keyboard and presses Enter.
func (p *page) use(what string) {
	p.t.Helper()
	p.tabTo(what)
	p.press("Enter")
}
