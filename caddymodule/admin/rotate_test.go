package admin

import "testing"

// rotate shows the retired secrets, and forget drops them.
func TestRotateRetiresAndForgets(t *testing.T) {
	s := newAdminServer(t)
	_, made := s.call("POST", "/card-gateway/keys", `{"tenant":"acme","scopes":["*"]}`)
	path := "/card-gateway/keys/" + made["id"].(string)
	retired := func(body string) int {
		t.Helper()
		status, doc := s.call("POST", path+"/rotate", body)
		if status != 200 {
			t.Fatalf("%s: %d %v", body, status, doc)
		}
		list, _ := doc["retired_secrets"].([]any)
		return len(list)
	}
	for _, step := range []struct {
		body string
		want int
	}{
		{`{"overlap":"0"}`, 1}, {`{"overlap":"0","forget":false}`, 2}, {`{"overlap":"0"}`, 2}, {`{"forget":true}`, 0}, {`{"overlap":"0"}`, 2},
		{`{"overlap":"0","forget":true}`, 0},
	} {
		if n := retired(step.body); n != step.want {
			t.Errorf("%s: %d retired, want %d", step.body, n, step.want)
		}
	}
	if status, doc := s.call("POST", path+"/rotate", `{"forget":"yes"}`); status != 422 {
		t.Errorf("%d %v", status, doc)
	}
}
