package forward

import "testing"

// TestSwitchIsRefused: an answer that switches protocols is a fault by itself,
// whatever follows it.
func TestSwitchIsRefused(t *testing.T) {
	t.Parallel()
	if fault, _ := new(head).line([]byte("HTTP/1.1 101 Switching Protocols\r\n")); fault != faultSwitch {
		t.Errorf("the fault is %q", fault)
	}
	for _, status := range []string{"100", "102", "103", "200"} {
		if fault, _ := new(head).line([]byte("HTTP/1.1 " + status + " X\r\n")); fault != "" {
			t.Errorf("%s: %s", status, fault)
		}
	}
}
