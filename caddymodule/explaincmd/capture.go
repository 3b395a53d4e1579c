package explaincmd

import (
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"
)

// A capture is a request as a client sent it.
type capture struct {
	method, target string
	host           string
	header         http.Header
	body           []byte
	at             time.Time // when it was sent; zero: not known
	notes          []string  // what may not be as it was sent
}

var errNoRequest = errors.New("this is no request: want raw HTTP (METHOD PATH HTTP/1.1 and headers), a curl command, or a HAR file")

// splitAddress parts the host of a URL from path and query, which stay as they
// are written.
func splitAddress(address string) (host, target string, err error) {
	_, rest, ok := strings.Cut(address, "://")
	if !ok {
		rest = address
	}
	rest, _, _ = strings.Cut(rest, "#")
	if rest == "" || address[0] == '/' {
		return "", "", fmt.Errorf("%.80q is no URL with a host", address)
	}
	at := strings.IndexAny(rest, "/?")
	if at < 0 {
		return rest, "/", nil
	}
	host, target = rest[:at], rest[at:]
	if target[0] == '?' {
		target = "/" + target
	}
	return host[strings.LastIndexByte(host, '@')+1:], target, nil
}
