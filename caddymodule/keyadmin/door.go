package keyadmin

import (
	"errors"
	"net"
	"net/http"
	"strings"

	"github.com/caddyserver/caddy/v2"
)

// A caller is who makes a call of the admin API, as it was authenticated.
type caller struct {
	name string // of its token, else unix: and the path of the socket
	role Role
}

// The two doors of the admin API: a unix socket, where the file system decides
// who may connect, and a token over loopback or TLS. Which one it is follows from
// the connection, not from the configuration: after a refused load, Caddy's admin
// endpoint listens where the refused configuration wanted it.
var (
	errNoToken = caddy.APIError{HTTPStatus: http.StatusForbidden, Err: errors.New(
		"every user of this machine can connect to an admin endpoint on TCP, so the key API wants a token there: " +
			"write `admin_token file PATH` into the block card_gateway and name a file with the token by --token-file, " +
			"or bind the endpoint to a unix socket, as in `admin unix//run/card-gateway/admin.sock|0660`")}
	errOpenNetwork = caddy.APIError{HTTPStatus: http.StatusForbidden, Err: errors.New(
		"the key API answers on a unix socket, on loopback and over TLS only: a token must not cross a network unencrypted")}
	errTokenOnSite = caddy.APIError{HTTPStatus: http.StatusUnauthorized, Err: errors.New(
		"the console wants a token of the option admin_token")}
	errReadOnly = caddy.APIError{HTTPStatus: http.StatusForbidden, Err: errors.New(
		"this console only reads: make changes by card-keys, or write `changes` into the block card_console")}
	errWrongToken = caddy.APIError{HTTPStatus: http.StatusUnauthorized, Err: errors.New("admin_token has no such token")}
	errViewer     = caddy.APIError{HTTPStatus: http.StatusForbidden, Err: errors.New("the role viewer may only read; this needs a token of the role keys")}
)

// A door is where calls arrive. The zero value is Caddy's admin endpoint.
type door struct {
	site     bool // a site, where a token is needed also on a unix socket: a proxy may be before it
	readOnly bool // whatever the role of the token
}

// authenticate returns the caller of a request, with the role that it has at this
// door. The error is one of the above.
func (d door) authenticate(r *http.Request, tokens *Tokens) (caller, error) {
	who, err := d.identify(r, tokens)
	if err != nil {
		return who, err
	}
	refusal := errViewer
	if d.readOnly {
		who.role, refusal = RoleViewer, errReadOnly
	}
	if who.role != RoleKeys && r.Method != http.MethodGet && r.Method != http.MethodHead {
		return who, refusal
	}
	return who, nil
}

func (d door) identify(r *http.Request, tokens *Tokens) (caller, error) {
	if !Private(r) {
		return caller{}, errOpenNetwork
	}
	if given := r.Header.Get("Authorization"); given != "" {
		text, _ := strings.CutPrefix(given, "Bearer ")
		found, ok := tokens.find(text)
		if !ok {
			return caller{}, errWrongToken
		}
		return caller{found.name, found.role}, nil
	}
	socket, isUnix := localAddr(r).(*net.UnixAddr)
	switch {
	case d.site:
		return caller{}, errTokenOnSite
	case !isUnix:
		return caller{}, errNoToken
	}
	return caller{"unix:" + socket.Name, RoleKeys}, nil
}

// Private reports whether a token can be sent on the connection of a request and
// nobody on a network reads it: over a unix socket, loopback or TLS. No door opens
// on another connection.
func Private(r *http.Request) bool {
	return OverSocket(r) || loopback(localAddr(r)) || r.TLS != nil
}

// OverSocket reports whether a request came over a unix socket. On Caddy's admin
// endpoint it then needs no token.
func OverSocket(r *http.Request) bool {
	_, isUnix := localAddr(r).(*net.UnixAddr)
	return isUnix
}

// localAddr returns the address at which a request arrived; nil if it is not known.
func localAddr(r *http.Request) net.Addr {
	local, _ := r.Context().Value(http.LocalAddrContextKey).(net.Addr)
	return local
}

// loopback reports whether only programs of this machine can use the address.
func loopback(local net.Addr) bool {
	tcp, ok := local.(*net.TCPAddr)
	return ok && tcp.IP.IsLoopback()
}
