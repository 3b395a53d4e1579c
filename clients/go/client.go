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
	"strings"
	"sync"
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
		path += "?" + query.Encode()
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

// Form returns a multipart form with the fields and one file.
func Form(fields map[string]string, field, filename string, content []byte) (*Body, error) {
	var b bytes.Buffer
	w := multipart.NewWriter(&b)
	for name, value := range fields {
		if err := w.WriteField(name, value); err != nil {
			return nil, err
		}
	}
	part, err := w.CreateFormFile(field, filename)
	if err != nil {
		return nil, err
	}
	if _, err := part.Write(content); err != nil {
		return nil, err
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

// Do sends a request: path is the escaped path and query, body nil for none. It
// returns an [UnsignableError], [ConnectionError], [UnprovenError], [RedirectError]
// or [APIError].
func (c *Client) Do(ctx context.Context, method, path string, body *Body) (*Answer, error) {
	c.once.Do(func() {
		c.http = http.Client{
			Transport: &c.Transport, Timeout: c.Timeout,
			CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		}
		if c.Timeout == 0 {
			c.http.Timeout = 2 * time.Minute
		}
	})
	var content io.Reader
	if body != nil {
		content = bytes.NewReader(body.Bytes)
	}
	r, err := http.NewRequestWithContext(ctx, method, strings.TrimSuffix(c.BaseURL, "/")+path, content)
	if err != nil {
		return nil, &UnsignableError{err.Error()}
	}
	r.Header = c.Header.Clone()
	if r.Header == nil {
		r.Header = http.Header{}
	}
	r.Header.Set("User-Agent", "card-gateway-go/"+Version)
	if body != nil {
		r.Header.Set("Content-Type", body.ContentType)
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
