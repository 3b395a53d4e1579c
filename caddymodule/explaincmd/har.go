package explaincmd

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"time"
)

// A harEntry is what is used of an entry of a HAR file.
type harEntry struct {
	Started time.Time  `json:"startedDateTime"`
	Request harRequest `json:"request"`
}

type harRequest struct {
	Method  string `json:"method"`
	URL     string `json:"url"`
	Headers []struct {
		Name  string `json:"name"`
		Value string `json:"value"`
	} `json:"headers"`
	PostData *struct {
		Text     string `json:"text"`
		Encoding string `json:"encoding"`
	} `json:"postData"`
}

// readHAR reads an entry of a HAR file, or one entry or request alone. The
// number counts from 1; 0 is the last entry that is signed.
func readHAR(text []byte, number int) (*capture, error) {
	var file struct {
		Log struct {
			Entries []harEntry `json:"entries"`
		} `json:"log"`
		harEntry
		harRequest
	}
	if err := json.Unmarshal(text, &file); err != nil {
		return nil, fmt.Errorf("the input looks like a HAR file and is none: %w", err)
	}
	entries := file.Log.Entries
	switch {
	case len(entries) > 0:
	case file.harEntry.Request.URL != "":
		entries = []harEntry{file.harEntry}
	case file.harRequest.URL != "":
		entries = []harEntry{{Request: file.harRequest}}
	}
	if number > len(entries) || number < 0 {
		return nil, fmt.Errorf("there is no entry %d: the HAR file has %d", number, len(entries))
	}
	if number > 0 {
		return entries[number-1].capture()
	}
	for i := len(entries) - 1; i >= 0; i-- {
		c, err := entries[i].capture()
		if err == nil && (c.header.Get("X-Signature") != "" || c.header.Get("X-API-Key") != "" || len(entries) == 1) {
			return c, nil
		}
	}
	return nil, fmt.Errorf("none of the %d entries of the HAR file has an X-Signature; name one with --entry", len(entries))
}

func (e *harEntry) capture() (*capture, error) {
	c := &capture{method: e.Request.Method, header: make(http.Header), at: e.Started}
	var err error
	if c.host, c.target, err = splitAddress(e.Request.URL); err != nil {
		return nil, err
	}
	for _, h := range e.Request.Headers {
		if !strings.HasPrefix(h.Name, ":") { // of HTTP/2
			c.header.Add(h.Name, h.Value)
		}
	}
	if data := e.Request.PostData; data != nil {
		c.body = []byte(data.Text)
		if data.Encoding == "base64" {
			if c.body, err = base64.StdEncoding.DecodeString(data.Text); err != nil {
				return nil, fmt.Errorf("reading the body of the HAR entry: %w", err)
			}
		}
	}
	return c, nil
}
