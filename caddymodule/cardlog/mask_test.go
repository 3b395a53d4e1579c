package cardlog

import "testing"

func TestMaskTarget(t *testing.T) {
	for _, c := range []struct{ in, want string }{
		{"/api/v1/cards", "/api/v1/cards"},
		{"/api/v1/cards?", "/api/v1/cards?"},
		{"/api/v1/cards?limit=20&offset=0", "/api/v1/cards?limit=***&offset=***"},
		{"/api/v1/cards?api_key=ak_test_1&token=%73ecret", "/api/v1/cards?api_key=***&token=***"},
		{"/api/v1/cards?v&=x&a=b=c", "/api/v1/cards?v&=***&a=***"},
		{"/api/v1/cards?%73ecret", "/api/v1/cards?***"},
		{"/api/v1/cards?4111111111111111", "/api/v1/cards?***"},
		{"/api/v1/cards?averyveryveryverylongvaluewithoutname", "/api/v1/cards?***"},
		{"/api/v1/cards/4111111111111111/x", "/api/v1/cards/***/x"},
		{"/api/v1/cards/4111-1111-1111-1111", "/api/v1/cards/***"},
		{"/api/v1/cards/4111%31111+1111 1111", "/api/v1/cards/***"},
		{"/api/v1/cards/0b0e9a56-7f0b-4d57-9a5e-3f6a5e2f8a11", "/api/v1/cards/0b0e9a56-7f0b-4d57-9a5e-3f6a5e2f8a11"},
		{"/api/v1/cards/12345678-1234-4123-8123-123456789012", "/api/v1/cards/***"},
		{"/api/v1/cards/4111/1111/1111/1111/x", "/api/v1/cards/***/x"},
		{"/api/v1/cards/4111111111111112", "/api/v1/cards/***"},
		{"/api/v1/cards/a4111111111111111b/x", "/api/v1/cards/***/x"},
		{"/api/v1/cards?4111&1111&1111&1111", "/api/v1/cards?***"},
		{"/api/v1/1234567/a4111111111111111b/7654321", "/api/***"},
		{"https://h/p?x=1", "https://h/p?x=***"},
	} {
		if got := maskTarget(c.in); got != c.want {
			t.Errorf("%s became %s, want %s", c.in, got, c.want)
		}
	}
}

func TestMaskPlaces(t *testing.T) {
	for in, want := range map[string]string{
		"the store cannot answer: dial tcp 10.0.0.5:6379: connect: connection refused": "the store cannot answer: dial tcp *** connect: connection refused",
		"the store cannot answer: dial tcp [2001:db8::1]:6379: i/o timeout":            "the store cannot answer: dial tcp *** *** timeout",
		"directory /var/lib/card-gateway is used by another process: stop that one":    "directory *** is used by another process: stop that one",
		"redis was emptied; keys must be imported again, 503 until then":               "redis was emptied; keys must be imported again, 503 until then",
		"the master key does not open what is stored":                                  "the master key does not open what is stored",
	} {
		if got := MaskPlaces(in); got != want {
			t.Errorf("%q became %q, want %q", in, got, want)
		}
	}
}
