// The driver runs the cases of tests/clients/matrix through this client: one
// JSON object a line on standard input, one answer a line on standard output.
package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"strconv"
	"strings"
	"sync"
	"time"

	cardclient "github.com/card-gateway/card-gateway/clients/go"
)

type call struct {
	Do      string
	Adapter string
	Base    string
	KeyID   string `json:"key_id"`
	Secret  string
	Method  string
	Target  string
	Query   [][2]string
	Body    []byte // base64
	HasBody bool   `json:"has_body"`
	Kind    string // "stream", "form" or "bytes"
	Headers map[string]string
	Clock   int64 // seconds by which the clock is ahead
	Count   int

	Timestamp, Nonce string
	Attempts         int

	VerifyAnswers bool `json:"verify_answers"`
	Status        int
	Answer        map[string][]string
	Now           int64
}

type object map[string]interface{}

func main() {
	in := bufio.NewReader(os.Stdin)
	for {
		line, err := in.ReadBytes('\n')
		if err != nil {
			return
		}
		var c call
		if err := json.Unmarshal(line, &c); err != nil {
			panic(err)
		}
		answer, err := c.run()
		if err != nil {
			answer = object{"error": describe(err)}
		}
		text, err := json.Marshal(answer)
		if err != nil {
			panic(err)
		}
		fmt.Println(string(text))
	}
}

func (c *call) run() (object, error) {
	switch c.Do {
	case "hello":
		return object{"adapters": map[string]bool{"client": true, "transport": false}, "version": cardclient.Version}, nil
	case "sign":
		signer := cardclient.Signer{KeyID: c.KeyID, Secret: c.Secret, Nonce: func() string { return c.Nonce }}
		signer.Now = func() time.Time {
			seconds, _ := strconv.ParseInt(c.Timestamp, 10, 64)
			return time.Unix(seconds, 0)
		}
		headers, err := signer.Headers(c.Method, c.Target, c.Body)
		return object{"signature": headers["X-Signature"], "body_hash": headers["X-Body-Hash"]}, err
	case "verify":
		return c.verify()
	case "trusts":
		base, err := url.Parse(c.Base)
		return object{"trusted": cardclient.TrustsDate(base)}, err
	case "parallel":
		return c.parallel(), nil
	case "close":
		seconds, _ := strconv.ParseInt(c.Timestamp, 10, 64)
		err := c.client().CloseCall(context.Background(), cardclient.Call{Nonce: c.Nonce, Timestamp: time.Unix(seconds, 0)})
		return object{"closed": err == nil}, err
	}
	return c.request(c.client())
}

func (c *call) client() *cardclient.Client {
	client := cardclient.New(c.Base, c.KeyID, c.Secret)
	client.Transport.Now = func() time.Time { return time.Now().Add(time.Duration(c.Clock) * time.Second) }
	client.Transport.VerifyAnswers, client.Transport.Attempts = c.VerifyAnswers, c.Attempts
	return client
}

func (c *call) verify() (object, error) {
	signer := cardclient.Signer{KeyID: c.KeyID, Secret: c.Secret, Now: func() time.Time { return time.Unix(c.Now, 0) }}
	header := http.Header{}
	for name, values := range c.Answer {
		header[http.CanonicalHeaderKey(name)] = values
	}
	err := signer.VerifyAnswer(c.Nonce, c.Status, header, c.Body)
	return object{"verified": err == nil}, err
}

func (c *call) parallel() object {
	client := c.client()
	statuses := make([]int, c.Count)
	var all sync.WaitGroup
	for i := range statuses {
		all.Add(1)
		go func(i int) {
			defer all.Done()
			answer, err := c.request(client)
			if err == nil {
				statuses[i] = answer["status"].(int)
			}
		}(i)
	}
	all.Wait()
	return object{"statuses": statuses}
}

func (c *call) request(client *cardclient.Client) (object, error) {
	if c.Adapter == "transport" {
		return c.transport(client)
	}
	var body *cardclient.Body
	var err error
	switch {
	case c.Kind == "form":
		body, err = cardclient.Form(map[string]string{"type": "passport"}, "file", "Zoë.pdf", c.Body)
	case c.HasBody:
		body = &cardclient.Body{ContentType: "application/json", Bytes: c.Body}
	}
	if err != nil {
		return nil, err
	}
	target := c.Target
	if c.Query != nil {
		target += "?" + c.values().Encode()
	}
	client.Header = header(c.Headers)
	request := cardclient.Request{Method: c.Method, Path: target, Body: body}
	if c.Nonce != "" {
		seconds, _ := strconv.ParseInt(c.Timestamp, 10, 64)
		request.Call = &cardclient.Call{Nonce: c.Nonce, Timestamp: time.Unix(seconds, 0)}
	}
	answer, err := client.Send(context.Background(), request)
	if err != nil {
		return nil, err
	}
	return object{"status": answer.Status, "body": answer.Body}, nil
}

func (c *call) values() url.Values {
	values := url.Values{}
	for _, pair := range c.Query {
		values.Add(pair[0], pair[1])
	}
	return values
}

// transport sends through a plain http.Client, which follows redirects.
func (c *call) transport(client *cardclient.Client) (object, error) {
	target, body := c.Target, c.Body
	if c.Query != nil {
		target += "?" + c.values().Encode()
	}
	kind := "application/json"
	if c.Kind == "form" {
		form, err := cardclient.Form(map[string]string{"type": "passport"}, "file", "Zoë.pdf", c.Body)
		if err != nil {
			return nil, err
		}
		body, kind = form.Bytes, form.ContentType
	}
	var content io.Reader
	if c.HasBody {
		content = bytes.NewReader(body)
	}
	if c.Kind == "stream" {
		content = io.MultiReader(strings.NewReader(string(body)))
	}
	r, err := http.NewRequestWithContext(context.Background(), c.Method, c.Base+target, content)
	if err != nil {
		return nil, &cardclient.UnsignableError{Reason: err.Error()}
	}
	r.Header = header(c.Headers)
	if c.HasBody {
		r.Header.Set("Content-Type", kind)
	}
	if c.Nonce != "" {
		r.Header.Set("X-Nonce", c.Nonce)
		r.Header.Set("X-Timestamp", c.Timestamp)
	}
	answer, err := (&http.Client{Transport: &client.Transport}).Do(r)
	if err != nil {
		return nil, err
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	if err != nil {
		return nil, &cardclient.ConnectionError{Sent: true, Attempts: 1, Err: err}
	}
	return object{"status": answer.StatusCode, "body": text}, nil
}

func header(values map[string]string) http.Header {
	h := http.Header{}
	for name, value := range values {
		h.Set(name, value)
	}
	return h
}

func describe(err error) object {
	var unsignable *cardclient.UnsignableError
	var api *cardclient.APIError
	var redirect *cardclient.RedirectError
	var connection *cardclient.ConnectionError
	var unproven *cardclient.UnprovenError
	var taken *cardclient.TakenError
	var unknown *cardclient.UnknownError
	switch {
	case errors.As(err, &taken):
		return object{"type": "taken", "nonce": taken.Nonce, "timestamp": taken.Timestamp.Unix(), "message": err.Error()}
	case errors.As(err, &unknown):
		return object{
			"type": "unknown", "nonce": unknown.Nonce, "timestamp": unknown.Timestamp.Unix(), "until": unknown.Until().Unix(),
			"attempts": unknown.Attempts, "message": err.Error(),
		}
	case errors.As(err, &unsignable):
		return object{"type": "unsignable", "message": unsignable.Reason}
	case errors.As(err, &api):
		return object{
			"type": "api", "status": api.Status, "code": api.Code, "message": api.Message, "details": api.Details,
			"request_id": api.RequestID, "retry_after": api.RetryAfter.Seconds(), "not_executed": api.NotExecuted(),
		}
	case errors.As(err, &unproven):
		return object{"type": "unproven", "status": unproven.Status, "unsigned": unproven.Unsigned, "message": unproven.Error()}
	case errors.As(err, &redirect):
		return object{"type": "redirect", "location": redirect.Location}
	case errors.As(err, &connection):
		return object{"type": "connection", "sent": connection.Sent, "attempts": connection.Attempts}
	}
	return object{"type": "other", "message": err.Error()}
}
