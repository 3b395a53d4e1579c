package caddymodule

import (
	"net/http"
	"net/netip"
	"strings"

	"github.com/card-gateway/card-gateway/auth"
)

// checkHost refuses a Host that is not a host with or without a port (RFC 9110,
// section 7.2; RFC 9112, section 3.2). The issuer receives it as X-Forwarded-Host,
// and libraries differ in what they read from one that is malformed. Only HTTP/1.0
// has requests without a Host.
func checkHost(r *http.Request) *auth.Refusal {
	if hostWithPort(r.Host) || r.Host == "" && !r.ProtoAtLeast(1, 1) {
		return nil
	}
	const message = "The Host is not a host name or an address, with or without a port"
	return &auth.Refusal{Reason: auth.MalformedRequest, Message: message, Log: message}
}

// hostWithPort reports whether a text is a name, or an IPv6 address in brackets,
// and a port where there is a colon.
func hostWithPort(text string) bool {
	name, port, hasPort := strings.Cut(text, ":")
	if address, inBrackets := strings.CutPrefix(text, "["); inBrackets {
		var behind string
		var closed bool
		address, behind, closed = strings.Cut(address, "]")
		addr, err := netip.ParseAddr(address)
		if !closed || err != nil || !addr.Is6() || addr.Zone() != "" || behind != "" && behind[0] != ':' {
			return false
		}
		name, port, hasPort = address, strings.TrimPrefix(behind, ":"), behind != ""
	} else if strings.ContainsFunc(name, notOfNames) {
		return false
	}
	return name != "" && (!hasPort || isPort(port))
}

// notOfNames reports whether no name of a host has the character. RFC 3986,
// section 3.2.2, allows more, such as %2E for a dot, and that is where libraries
// differ.
func notOfNames(c rune) bool {
	return (c < 'a' || c > 'z') && (c < 'A' || c > 'Z') && (c < '0' || c > '9') && !strings.ContainsRune("-._", c)
}

// isPort reports whether a text is a number up to 65535; a URI may leave out the
// number behind the colon.
func isPort(text string) bool {
	number := 0
	for _, digit := range []byte(text) {
		if digit < '0' || digit > '9' || number > 65535 {
			return false
		}
		number = number*10 + int(digit-'0')
	}
	return number <= 65535
}
