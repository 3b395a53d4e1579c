package caddymodule

import (
	"errors"
	"net"
	"net/http"
	"net/netip"
	"strings"

	"github.com/caddyserver/caddy/v2/modules/caddyhttp"

	"github.com/card-gateway/card-gateway/auth"
	"github.com/card-gateway/card-gateway/caddymodule/peek"
)

// clientAddress returns the address of the client as Caddy chose it, by the
// trusted proxies. The zero address passes no whitelist.
//
// If a trusted proxy names no address that can be read, Caddy chooses the
// proxy's own. That is not the client's, so addr is then zero: otherwise any
// client would pass a whitelist that contains the proxy.
func clientAddress(r *http.Request) (text string, addr netip.Addr) {
	text, _ = caddyhttp.GetVar(r.Context(), caddyhttp.ClientIPVarKey).(string)
	addr, err := netip.ParseAddr(text)
	if err != nil {
		return text, netip.Addr{}
	}
	addr = addr.WithZone("").Unmap()
	if fromProxy(r) && addr == peerAddress(r) {
		return text, netip.Addr{}
	}
	return text, addr
}

// fromProxy reports whether a trusted proxy sent the request.
func fromProxy(r *http.Request) bool {
	trusted, _ := caddyhttp.GetVar(r.Context(), caddyhttp.TrustedProxyVarKey).(bool)
	return trusted
}

// checkForwarded refuses a request of a trusted proxy if the client's entry in
// the header, or one right of it, is not an address or has a zone. Caddy skips
// the first and removes the zone of the second, so it may have chosen another
// address than the proxy meant.
func checkForwarded(server *caddyhttp.Server, r *http.Request) *auth.Refusal {
	if server == nil || !fromProxy(r) {
		return nil
	}
	text, known := clientAddress(r)
	chosen, _ := netip.ParseAddr(text)
	for _, name := range server.ClientIPHeaders {
		list := strings.Join(r.Header.Values(name), ",")
		if strings.TrimSpace(list) == "" {
			continue // the proxy names no client
		}
		for more := true; more; {
			comma := strings.LastIndexByte(list, ',')
			addr, ok := forwardedAddress(list[comma+1:])
			if !ok {
				return &auth.Refusal{
					Reason:  auth.MalformedRequest,
					Message: "A proxy on the way of the request wrote an address that cannot be read",
					Log:     name + " holds an entry that is no address or has a zone, at or right of the client's",
				}
			}
			if known.IsValid() && addr == chosen {
				return nil // the client wrote the entries left of it
			}
			if more = comma >= 0; more {
				list = list[:comma]
			}
		}
	}
	return nil
}

// forwardedAddress reads an entry as Caddy does: an address, with or without a
// port. It returns false for an address with a zone.
func forwardedAddress(entry string) (netip.Addr, bool) {
	host, _, err := net.SplitHostPort(entry)
	if err != nil {
		host = entry
	}
	addr, err := netip.ParseAddr(strings.TrimSpace(host))
	return addr, err == nil && addr.Zone() == ""
}

// peerAddress returns the address at the other end of the connection.
func peerAddress(r *http.Request) netip.Addr {
	peer, err := netip.ParseAddrPort(r.RemoteAddr)
	if err != nil {
		return netip.Addr{}
	}
	return peer.Addr().WithZone("").Unmap()
}

// checkTrustedProxies refuses a server with trusted_proxies and without
// trusted_proxies_strict. There Caddy takes the left-most address of
// X-Forwarded-For. A load balancer only appends to that header, so a client
// could choose the address that whitelists check.
func checkTrustedProxies(server *caddyhttp.Server) error {
	if server == nil || server.TrustedProxiesStrict > 0 {
		return nil
	}
	switch trusts, _, known := peek.TrustedProxies(server); {
	case !known:
		return errors.New("card_auth: this version of Caddy hides whether there are trusted proxies; add the line trusted_proxies_strict to the servers block, and build the gateway with the version of Caddy that its go.mod names")
	case trusts:
		return errors.New("card_auth: trusted_proxies is set without trusted_proxies_strict, so that clients could choose the address that IP whitelists see; add the line trusted_proxies_strict to the servers block")
	default:
		return nil
	}
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
