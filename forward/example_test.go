package forward_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"

	"github.com/card-gateway/card-gateway/forward"
)

// A handler forwards a request that it has checked. If that fails, the kind of
// the error decides the answer.
func Example() {
	issuer := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprintf(w, "%s %s of %s", r.Method, r.RequestURI, r.Header.Get("X-Gateway-Tenant"))
	}))
	defer issuer.Close()
	f, err := forward.New(forward.Options{
		Issuers: []forward.Issuer{{Address: issuer.Listener.Addr().String()}},
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer f.Close()

	handle := func(ctx context.Context, w http.ResponseWriter) {
		answer, err := f.Do(ctx, &forward.Request{
			Method: "POST", Target: "/api/v1/cards",
			Fields: []forward.Field{{Name: "X-Gateway-Tenant", Value: "acme"}},
			Body:   []byte(`{}`),
		})
		// The body is no longer read: its buffer may be used again.
		var failed *forward.Error
		if errors.As(err, &failed) {
			w.WriteHeader(failed.Kind.Status())
			return
		}
		for _, field := range answer.Fields {
			w.Header().Add(field.Name, field.Value)
		}
		w.WriteHeader(answer.Status)
		if _, err := answer.CopyTo(w, http.NewResponseController(w).Flush); err != nil {
			panic(http.ErrAbortHandler) // the client must notice that the body is not complete
		}
	}
	client := httptest.NewRecorder()
	handle(context.Background(), client)
	fmt.Println(client.Code, client.Body)
	// Output: 200 POST /api/v1/cards of acme
}
