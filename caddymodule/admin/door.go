package admin

import (
	"bytes"
	"crypto/sha256"
	"crypto/subtle"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"regexp"
	"strings"

	"github.com/card-gateway/card-gateway/adminapi"
	"github.com/card-gateway/card-gateway/keys"
)

// The two doors of the admin API: a unix socket, where the file system decides
// who may connect, and a token over loopback or TLS. Which one it is follows from
// the connection, not from the configuration: after a refused load, Caddy's admin
// endpoint listens where the refused configuration wanted it.
var (
	errNoToken = adminapi.Error{Status: http.StatusForbidden, Err: errors.New(
		"every user of this machine can connect to an admin endpoint on TCP, so the key API wants a token there: " +
			"write `admin_token file PATH` into the block card_gateway and name a file with the token by --token-file, " +
			"or bind the endpoint to a unix socket, as in `admin unix//run/card-gateway/admin.sock|0660`")}
	errOpenNetwork = adminapi.Error{Status: http.StatusForbidden, Err: errors.New(
		"the key API answers on a unix socket, on loopback and over TLS only: a token must not cross a network unencrypted")}
	errTokenOnSite = adminapi.Error{Status: http.StatusUnauthorized, Err: errors.New(
		"the console wants a token of the option admin_token")}
	errReadOnly = adminapi.Error{Status: http.StatusForbidden, Err: errors.New(
		"this console only reads: make changes by card-keys, or write `changes` into the block card_console")}
	errWrongToken = adminapi.Error{Status: http.StatusUnauthorized, Err: errors.New("admin_token has no such token")}
	errViewer     = adminapi.Error{Status: http.StatusForbidden, Err: errors.New("the role viewer may only read; this needs a token of the role keys")}
)

// A door is where calls arrive. The zero value is Caddy's admin endpoint.
type door struct {
	site     bool // a site, where a token is needed also on a unix socket: a proxy may be before it
	readOnly bool // whatever the role of the token
}

// authenticate returns the caller of a request, with the role that it has at this
// door. The error is one of the above.
func (d door) authenticate(r *http.Request, tokens *Tokens) (adminapi.Caller, error) {
	who, err := d.identify(r, tokens)
	if err != nil {
		return who, err
	}
	refusal := errViewer
	if d.readOnly {
		who.Role, refusal = adminapi.RoleViewer, errReadOnly
	}
	if who.Role != adminapi.RoleKeys && r.Method != http.MethodGet && r.Method != http.MethodHead {
		return who, refusal
	}
	return who, nil
}

func (d door) identify(r *http.Request, tokens *Tokens) (adminapi.Caller, error) {
	if !Private(r) {
		return adminapi.Caller{}, errOpenNetwork
	}
	if given := r.Header.Get("Authorization"); given != "" {
		text, _ := strings.CutPrefix(given, "Bearer ")
		found, ok := tokens.find(text)
		if !ok {
			return adminapi.Caller{}, errWrongToken
		}
		return adminapi.Caller{Name: found.name, Role: found.role}, nil
	}
	socket, isUnix := localAddr(r).(*net.UnixAddr)
	switch {
	case d.site:
		return adminapi.Caller{}, errTokenOnSite
	case !isUnix:
		return adminapi.Caller{}, errNoToken
	}
	return adminapi.Caller{Name: "unix:" + socket.Name, Role: adminapi.RoleKeys}, nil
}

// Private reports whether a token can be sent on the connection of a request and
// nobody on a network reads it: over a unix socket, loopback or TLS. No door opens
// on another connection.
func Private(r *http.Request) bool {
	tcp, ok := localAddr(r).(*net.TCPAddr)
	return OverSocket(r) || ok && tcp.IP.IsLoopback() || r.TLS != nil
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

// Tokens are the tokens that open the admin API, by their hashes.
type Tokens struct{ list []token }

type token struct {
	name string
	role adminapi.Role
	hash [sha256.Size]byte
}

const (
	minToken      = 32 // characters
	maxTokensFile = 64 << 10
)

var tokenName = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$`)

// ReadTokens reads a file of tokens: a line for each with a name, the role viewer
// or keys, and the token itself, of at least 32 characters. Empty lines and lines
// that begin with # are skipped. It is an error if others than the owner and the
// group can open the file, if a line is wrong, or if there is no token. No error
// contains a token.
func ReadTokens(path string) (*Tokens, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, err
	}
	switch mode := info.Mode(); {
	case !mode.IsRegular():
		return nil, fmt.Errorf("%s is not a regular file", path)
	case mode.Perm()&0o027 != 0:
		return nil, fmt.Errorf("%s has the mode %04o, but only its owner may write it, and only its owner and group may read it: chmod 0640 %s", path, mode.Perm(), path)
	case info.Size() > maxTokensFile:
		return nil, fmt.Errorf("%s is larger than %d bytes; is it the right file?", path, maxTokensFile)
	}
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	return parseTokens(path, text)
}

func parseTokens(path string, text []byte) (*Tokens, error) {
	tokens, number := new(Tokens), 0
	for line := range bytes.Lines(text) {
		number++
		words := strings.Fields(string(line))
		if len(words) == 0 || strings.HasPrefix(words[0], "#") {
			continue
		}
		if err := tokens.add(words); err != nil {
			return nil, fmt.Errorf("%s:%d: %w", path, number, err)
		}
	}
	if len(tokens.list) == 0 {
		return nil, fmt.Errorf("%s holds no token: write a line such as `alice keys TOKEN`, with a token from `openssl rand -hex 32`", path)
	}
	return tokens, nil
}

func (t *Tokens) add(words []string) error {
	if len(words) != 3 {
		return errors.New("want a name, the role viewer or keys, and a token")
	}
	added := token{name: words[0], role: adminapi.Role(words[1]), hash: sha256.Sum256([]byte(words[2]))}
	switch {
	case !tokenName.MatchString(added.name) || added.name == keys.GatewayActor || added.name == "nobody" || strings.HasPrefix(added.name, "ck_"):
		return fmt.Errorf("%q cannot be a name: want 1 to 64 letters, digits and . _ -, not %s, and not the id of a key", added.name, keys.GatewayActor)
	case added.role != adminapi.RoleViewer && added.role != adminapi.RoleKeys:
		return fmt.Errorf("there is no role %q; want viewer or keys", added.role)
	case len(words[2]) < minToken:
		return fmt.Errorf("the token of %s has fewer than %d characters and can be guessed; make one with `openssl rand -hex 32`", added.name, minToken)
	}
	for _, other := range t.list {
		if other.name == added.name {
			return fmt.Errorf("the name %s is given a second time", added.name)
		}
		if other.hash == added.hash {
			return fmt.Errorf("%s and %s have the same token", other.name, added.name)
		}
	}
	t.list = append(t.list, added)
	return nil
}

// find returns the name and the role of a token. Its time depends only on the
// number of tokens. A nil receiver has none.
func (t *Tokens) find(text string) (found token, ok bool) {
	if t == nil {
		return token{}, false
	}
	hash := sha256.Sum256([]byte(text))
	for _, candidate := range t.list {
		if subtle.ConstantTimeCompare(candidate.hash[:], hash[:]) == 1 {
			found, ok = candidate, true
		}
	}
	return found, ok
}
