package main

import (
	"strings"
	"testing"
)

func TestReport(t *testing.T) {
	ended := func(name, action string, said ...string) (lines []event) {
		for _, text := range said {
			lines = append(lines, event{"output", "p", name, text})
		}
		return append(lines, event{action, "p", name, ""})
	}
	good := ended("TestGood", "pass", "=== RUN   TestGood\n", "    a_test.go:1: noise\n", "--- PASS: TestGood (0.00s)\n")
	skipped := ended("TestSkipped", "skip", "    a_test.go:2: no tool: install it\n", "--- SKIP: TestSkipped (0.00s)\n")
	again := ended("TestSkipped/too", "skip", "    a_test.go:9: no tool: install it\n", "    --- SKIP: TestSkipped/too (0.00s)\n")
	bad := ended("TestBad", "fail", "    a_test.go:3: why\n", "--- FAIL: TestBad (0.00s)\n")
	hung := []event{{"output", "p", "TestHung", "panic: too long\n"}}
	pass := ended("", "pass", "PASS\n", "ok  \tp\t0.1s\n")
	fail := ended("", "fail", "FAIL\tp\t0.1s\n")

	for name, c := range map[string]struct {
		events [][]event
		want   string
		ok     bool
	}{
		"all pass":   {[][]event{good, pass}, "ok  \tp\t0.1s\n", true},
		"skipped":    {[][]event{skipped, again, pass}, "ok  \tp\t0.1s\nskipped: p.TestSkipped and 1 more: no tool: install it\n", true},
		"one failed": {[][]event{good, bad, fail}, "    a_test.go:3: why\n--- FAIL: TestBad (0.00s)\nFAIL\tp\t0.1s\n", false},
		"one hung":   {[][]event{good, hung, fail}, "FAIL\tp\t0.1s\npanic: too long\n", false},
		"none":       {nil, "FAIL: no test was run\n", false},
	} {
		var said strings.Builder
		r := report{to: &said, depth: -1, said: map[string][]string{}, skipped: map[string][]string{}}
		for _, events := range c.events {
			for _, e := range events {
				r.take(e)
			}
		}
		if ok := r.end(); ok != c.ok || said.String() != c.want {
			t.Errorf("%s: ok %t, want %t; it prints\n%swant\n%s", name, ok, c.ok, said.String(), c.want)
		}
	}
}
