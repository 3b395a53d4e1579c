package gate

import (
	"net/http"
	"net/netip"
	"strings"

	"github.com/card-gateway/card-gateway/auth"
)

// Asked is what a request asks for, read from its head alone.
type Asked struct {
	Request   auth.Request // of one without all five headers, only the key id
	Target    auth.Target
	Operation *auth.Operation // nil until it was found
}

// parse reads the head of a request: target, method, five headers and operation.
func (g *Gate) parse(a *Arrival) (asked Asked, refusal *auth.Refusal) {
	credentials, missing := auth.ParseCredentials(a.Request.Header)
	if missing != nil {
		asked.Request.Credentials.KeyID = a.Request.Header.Get(auth.HeaderKeyID)
	}
	fault := a.Fault
	if fault == nil {
		fault = checkHost(a.Request)
	}
	if fault == nil {
		fault = checkFields(a.Request)
	}
	if asked.Target, refusal = auth.ParseTarget(a.Target); refusal != nil {
		return asked, refusal
	}
	if fault != nil {
		return asked, fault
	}
	if refusal := auth.CheckMethod(a.Method); refusal != nil {
		return asked, refusal
	}
	var scope string
	if asked.Operation, scope, refusal = g.operation(a.Method, asked.Target.Path); refusal != nil {
		return asked, refusal
	}
	if missing != nil {
		return asked, missing
	}
	asked.Request = auth.Request{Method: a.Method, Target: a.Target, Credentials: credentials, Client: a.Client, Scope: scope}
	if err := g.Start(a.Context); err != nil {
		return asked, StoreRefusal(err)
	}
	return asked, nil
}

// operation returns the operation of a request, and the scope that the request needs.
// The operations that the gateway answers itself exist only with AnswersOwn. Elsewhere
// an issuer may answer their paths, which are then as closed as any that no operation
// names.
func (g *Gate) operation(method, path string) (operation *auth.Operation, scope string, refusal *auth.Refusal) {
	operation, scope, refusal = g.Table.Match(method, path)
	if refusal == nil && operation.Own && !g.AnswersOwn {
		operation, scope = g.Other, auth.ScopeAll
	}
	return operation, scope, refusal
}

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

// checkFields refuses a request of HTTP/2 or 3 that is malformed and that the
// servers let pass: with a Host that is not the :authority, or with blanks around a
// value (RFC 9113, sections 8.2.1 and 8.3.1; RFC 9110, section 5.5). HTTP/1 has one
// Host, and its blanks belong to no value.
func checkFields(r *http.Request) *auth.Refusal {
	if r.ProtoMajor < 2 {
		return nil
	}
	refuse := func(message string) *auth.Refusal {
		return &auth.Refusal{Reason: auth.MalformedRequest, Message: message, Log: message}
	}
	if hosts, named := r.Header["Host"]; named && (len(hosts) != 1 || !strings.EqualFold(hosts[0], r.Host)) {
		return refuse("The Host is not the :authority")
	}
	for _, values := range r.Header {
		for _, value := range values {
			if strings.Trim(value, " \t") != value {
				return refuse("The value of a header begins or ends with a blank")
			}
		}
	}
	return nil
}
