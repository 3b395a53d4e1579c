package keyadmin

import "testing"

func TestLimitFlags(t *testing.T) {
	for _, bad := range []string{"", "total", "=1/1s", "total=", " = "} {
		if got, err := limitFlags([]string{bad}); err == nil {
			t.Errorf("%q: %v", bad, got)
		}
	}
	if got, err := limitFlags([]string{"a=1/1s", "a=2/1s"}); err == nil {
		t.Errorf("one name twice: %v", got)
	}
}
