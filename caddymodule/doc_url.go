package caddymodule

import (
	"fmt"
	"net/http"
	"net/url"
	"strings"

	"github.com/card-gateway/card-gateway/auth"
)

// checkDocsURL refuses an address that an anchor cannot follow.
func checkDocsURL(address string) error {
	if address == "" {
		return nil
	}
	u, err := url.Parse(address)
	if err != nil || u.Scheme != "https" && u.Scheme != "http" || u.Host == "" || strings.Contains(address, "#") {
		return fmt.Errorf("docs_url %q: want the address of a page, without #: https://docs.example.com/errors", address)
	}
	return nil
}

// docURL returns error.doc_url of a refusal: the page with the anchor of its
// message, for the published ones of 401, or of its code; "" without a page.
func docURL(page string, refusal *auth.Refusal) string {
	switch {
	case page == "":
		return ""
	case refusal.Reason.Status() == http.StatusUnauthorized && refusal.Message == "":
		return page + "#" + anchor(refusal.Reason.Message())
	default:
		return page + "#" + anchor(refusal.Reason.Code())
	}
}

// anchor returns the name that GitHub and others give a heading of the text.
func anchor(heading string) string {
	return strings.Map(func(r rune) rune {
		switch {
		case r == ' ':
			return '-'
		case 'a' <= r && r <= 'z', '0' <= r && r <= '9', r == '-', r == '_':
			return r
		default:
			return -1
		}
	}, strings.ToLower(heading))
}
