package main

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"time"
)

// An answer is what a probe expects: a status and a part of the body.
type answer struct {
	status int
	part   string
}

// probe sends the requests of the scenario without wrk and checks the answers,
// so that the scenario really measures what its name says.
func (l *lane) probe(ctx context.Context) error {
	spec := l.spec(1)
	fromIssuer := answer{http.StatusOK, `"cardId"`}
	first, second := spec.Request(), spec.Request()
	expected := [2]answer{fromIssuer, fromIssuer}
	if l.judged() {
		switch l.outcome {
		case signature:
			expected = [2]answer{{http.StatusUnauthorized, "ignature"}, {http.StatusUnauthorized, "ignature"}}
		case replayed:
			second, expected[1] = first, answer{http.StatusUnauthorized, "eplay"}
		case limited:
			expected[1] = answer{http.StatusTooManyRequests, ""}
		}
	}
	for i, request := range [][]byte{first, second} {
		if err := l.send(ctx, request, expected[i]); err != nil {
			return fmt.Errorf("%s, %s, request %d: %w", l.name, l.server.Kind.Name, i+1, err)
		}
	}
	return nil
}

// send sends one request on a new connection.
func (l *lane) send(ctx context.Context, request []byte, want answer) error {
	conn, err := new(net.Dialer).DialContext(ctx, "tcp", l.server.Addr())
	if err != nil {
		return err
	}
	defer conn.Close()
	_ = conn.SetDeadline(time.Now().Add(10 * time.Second))
	if _, err := conn.Write(request); err != nil {
		return err
	}
	got, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		return err
	}
	defer got.Body.Close()
	body, err := io.ReadAll(got.Body)
	if err == nil && (got.StatusCode != want.status || !bytes.Contains(body, []byte(want.part))) {
		err = fmt.Errorf("answered with %s %s, want %d with %q", got.Status, body, want.status, want.part)
	}
	return err
}
