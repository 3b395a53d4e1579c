package cardclient

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime/multipart"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// A Client calls the card API of one gateway with one key. Set the fields before
// the first call; after it, a Client is safe for use by many goroutines.
type Client struct {
	// BaseURL is the scheme and host of the gateway, such as
	// "https://cards.example.com"; a path in it is put before each path.
	BaseURL string
	// Transport signs and sends; it holds the key id and the secret.
	Transport Transport
	// Header is sent with each request.
	Header http.Header
	// Timeout is for a whole call, all attempts included; 0 means 2 minutes.
	Timeout time.Duration

	once sync.Once
	http http.Client
}

// New returns a client for the gateway at baseURL.
func New(baseURL, keyID, secret string) *Client {
	return &Client{BaseURL: baseURL, Transport: Transport{Signer: Signer{KeyID: keyID, Secret: secret}}}
}

// An Answer is an answer with a status below 300.
type Answer struct {
	Status int
	Header http.Header
	Body   []byte
}

// Decode stores the JSON of the body in v.
func (a *Answer) Decode(v interface{}) error { return json.Unmarshal(a.Body, v) }

// Get reads the path with the parameters of the query; nil for none.
func (c *Client) Get(ctx context.Context, path string, query url.Values) (*Answer, error) {
	if len(query) > 0 {
		joint := "?"
		if strings.Contains(path, "?") {
			joint = "&"
		}
		path += joint + query.Encode()
	}
	return c.Do(ctx, http.MethodGet, path, nil)
}

// A Body is what a request carries.
type Body struct {
	ContentType string
	Bytes       []byte
}

// JSON returns a value as the body of a request. It is encoded once: what is
// signed is what is sent.
func JSON(v interface{}) (*Body, error) {
	text, err := json.Marshal(v)
	return &Body{"application/json", text}, err
}

// A File is one file of a form.
type File struct {
	Field, Name string
	Content     []byte
}

// Form returns a multipart form with the fields and one file.
func Form(fields map[string]string, field, filename string, content []byte) (*Body, error) {
	return FormOf(fields, File{field, filename, content})
}

// FormOf returns a multipart form with the fields and files.
func FormOf(fields map[string]string, files ...File) (*Body, error) {
	var b bytes.Buffer
	w := multipart.NewWriter(&b)
	for name, value := range fields {
		if err := w.WriteField(name, value); err != nil {
			return nil, err
		}
	}
	for _, file := range files {
		part, err := w.CreateFormFile(file.Field, file.Name)
		if err != nil {
			return nil, err
		}
		if _, err := part.Write(file.Content); err != nil {
			return nil, err
		}
	}
	if err := w.Close(); err != nil {
		return nil, err
	}
	return &Body{w.FormDataContentType(), b.Bytes()}, nil
}

// Post sends a value as JSON; nil for no body.
func (c *Client) Post(ctx context.Context, path string, v interface{}) (*Answer, error) {
	return c.send(ctx, http.MethodPost, path, v)
}

// Patch sends a value as JSON.
func (c *Client) Patch(ctx context.Context, path string, v interface{}) (*Answer, error) {
	return c.send(ctx, http.MethodPatch, path, v)
}

func (c *Client) send(ctx context.Context, method, path string, v interface{}) (*Answer, error) {
	if v == nil {
		return c.Do(ctx, method, path, nil)
	}
	body, err := JSON(v)
	if err != nil {
		return nil, err
	}
	return c.Do(ctx, method, path, body)
}

// NewCall returns a nonce and the time of the gateway's clock, as far as it is known.
func (c *Client) NewCall() (Call, error) {
	nonce, err := c.Transport.nonce()
	ahead := time.Duration(atomic.LoadInt32(&c.Transport.offset)) * time.Second
	return Call{nonce, c.Transport.now().Add(ahead)}, err
}

// CloseCall makes sure that a call whose outcome is not known is never executed. nil: it
// was not, and never will be. A [TakenError]: it was taken before; read what it made. Any
// other error decides nothing; after [Call.Until] it is always an [UnknownError].
func (c *Client) CloseCall(ctx context.Context, call Call) error {
	now, err := c.NewCall()
	if err != nil {
		return err
	}
	passed := &UnknownError{Call: call, Err: errors.New("its time has passed, so that nothing can execute it any more, and the gateway has forgotten its nonce")}
	if now.Timestamp.After(call.Until()) {
		return passed
	}
	// With the timestamp of the call: a gateway that has lost its nonce refuses that.
	answer, err := c.Send(ctx, Request{Method: http.MethodPost, Path: "/gateway/v1/nonce/close", Call: &call})
	if taken := new(TakenError); errors.As(err, &taken) && taken.perhaps {
		return &UnknownError{Call: call, Err: err} // it was perhaps taken by this close, whose answer was lost
	}
	var closed struct{ Data struct{ Nonce string } }
	if err == nil {
		err = answer.Decode(&closed)
	}
	if err == nil && closed.Data.Nonce != call.Nonce { // the timestamp was refused, and another nonce signed
		return passed
	}
	return err
}

// Do sends a request: path is the escaped path and query, body nil for none. It
// returns an [UnsignableError], [ConnectionError], [UnprovenError], [RedirectError],
// [APIError], [TakenError] or [UnknownError].
func (c *Client) Do(ctx context.Context, method, path string, body *Body) (*Answer, error) {
	return c.Send(ctx, Request{Method: method, Path: path, Body: body})
}

// A Request is one request, with what seldom is needed.
type Request struct {
	Method, Path string // the path is escaped, and has the query
	Body         *Body  // nil: none
	Header       http.Header
	// Call is the nonce and the timestamp, if the caller has chosen them and stored them
	// with what the request is for: see [Client.NewCall].
	Call *Call
}

// Send sends a request as [Client.Do] does.
func (c *Client) Send(ctx context.Context, request Request) (*Answer, error) {
	c.once.Do(func() {
		c.Transport.whole = true
		c.http = http.Client{
			Transport:     &c.Transport,
			CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		}
	})
	timeout := c.Timeout
	if timeout == 0 {
		timeout = 2 * time.Minute
	}
	ctx, cancel := context.WithTimeout(ctx, timeout) // that of http.Client would replace our errors
	defer cancel()
	r, err := c.build(ctx, request)
	if err != nil {
		return nil, &UnsignableError{err.Error()}
	}
	answer, err := c.http.Do(r)
	if wrapped := new(url.Error); errors.As(err, &wrapped) {
		err = wrapped.Err
	}
	if err != nil {
		return nil, err
	}
	return read(answer)
}

func (c *Client) build(ctx context.Context, request Request) (*http.Request, error) {
	var content io.Reader
	if request.Body != nil {
		content = bytes.NewReader(request.Body.Bytes)
	}
	r, err := http.NewRequestWithContext(ctx, request.Method, strings.TrimSuffix(c.BaseURL, "/")+request.Path, content)
	if err != nil {
		return nil, err
	}
	for _, all := range []http.Header{c.Header, {"User-Agent": {"card-gateway-go/" + Version}}, request.Header} {
		for name, values := range all {
			r.Header[http.CanonicalHeaderKey(name)] = values
		}
	}
	if request.Body != nil {
		r.Header.Set("Content-Type", request.Body.ContentType)
	}
	if request.Call != nil {
		r.Header.Set(headerNonce, request.Call.Nonce)
		r.Header.Set(headerTimestamp, strconv.FormatInt(request.Call.Timestamp.Unix(), 10))
	}
	return r, nil
}

// read reads the whole answer.
func read(r *http.Response) (*Answer, error) {
	defer r.Body.Close()
	body, err := io.ReadAll(r.Body)
	switch {
	case err != nil:
		return nil, &ConnectionError{Sent: true, Attempts: 1, Err: fmt.Errorf("the answer ends early: %w", err)}
	case r.StatusCode >= 400:
		return nil, newAPIError(r, body)
	case r.StatusCode >= 300:
		return nil, &RedirectError{r.StatusCode, r.Header.Get("Location")}
	}
	return &Answer{r.StatusCode, r.Header, body}, nil
}
