// Command check verifies requests that it reads from standard input, one JSON
// document on each line, and prints which claim of each is wrong. The tests of
// Card Gateway run it.
package main

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"log"
	"os"
	"time"

	"github.com/go-jose/go-jose/v4"

	upstream "github.com/card-gateway/card-gateway/examples/upstream/go"
)

type line struct {
	Keys     *jose.JSONWebKeySet // only on the first line
	Issuer   string
	Audience string

	Now        int64
	Assertions []string
	Method     string
	Target     string
	Body       []byte
}

func main() {
	var verifier upstream.Verifier
	in := bufio.NewScanner(os.Stdin)
	in.Buffer(nil, 1<<20)
	for in.Scan() {
		var l line
		if err := json.Unmarshal(in.Bytes(), &l); err != nil {
			log.Fatal(err)
		}
		if l.Keys != nil {
			verifier.Keys, verifier.Issuer, verifier.Audience = *l.Keys, l.Issuer, l.Audience
			continue
		}
		claims, err := verifier.Verify(&upstream.Request{Assertions: l.Assertions, Method: l.Method, Target: l.Target, Body: l.Body}, time.Unix(l.Now, 0))
		var refused *upstream.RefusedError
		switch {
		case errors.As(err, &refused):
			fmt.Println("refused", refused.Claim)
		case err != nil:
			log.Fatal(err)
		default:
			fmt.Println("accepted", claims.KeyID, claims.Tenant)
		}
	}
	if err := in.Err(); err != nil {
		log.Fatal(err)
	}
}
