package carddoctor

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/caddyconfig"
)

// A configuration is what the doctor reads of Caddy's JSON.
type configuration struct {
	Admin *caddy.AdminConfig `json:"admin"`
	Apps  struct {
		Gateway struct {
			Store json.RawMessage `json:"store"`
		} `json:"card_gateway"`
		HTTP struct {
			Servers map[string]*server `json:"servers"`
		} `json:"http"`
		TLS struct {
			Certificates struct {
				Files []certificateFiles `json:"load_files"`
			} `json:"certificates"`
		} `json:"tls"`
	} `json:"apps"`

	raw any // the whole
}

type certificateFiles struct{ Certificate, Key string }

// A server is one of Caddy's HTTP servers.
type server struct {
	Listen []string          `json:"listen"`
	Routes any               `json:"routes"`
	TLS    []json.RawMessage `json:"tls_connection_policies"`
}

// readConfiguration reads and adapts a configuration file. One that cannot be read is not
// checked.
func readConfiguration(path, adapter string) (text []byte, c *configuration, err error) {
	if text, err = os.ReadFile(path); errors.Is(err, os.ErrNotExist) {
		return nil, nil, notCheckedError("no such file: name the configuration with --config")
	} else if err != nil {
		return nil, nil, notCheckedError(err.Error() + ": run it as root, by card-unit, and see that it is a file")
	}
	if adapter == "" && filepath.Ext(path) != ".json" {
		adapter = "caddyfile"
	}
	if adapter != "" {
		by := caddyconfig.GetAdapter(adapter)
		if by == nil {
			return nil, nil, fmt.Errorf("there is no adapter %q", adapter)
		}
		if text, _, err = by.Adapt(text, map[string]any{"filename": path}); err != nil {
			return nil, nil, err
		}
	}
	c, err = parse(text)
	return text, c, err
}

// parse reads Caddy's JSON.
func parse(text []byte) (*configuration, error) {
	c := new(configuration)
	return c, errors.Join(json.Unmarshal(text, c), json.Unmarshal(text, &c.raw))
}

// admin returns the address of the admin endpoint; empty if it is off.
func (c *configuration) admin() string {
	if c.Admin == nil {
		return caddy.DefaultAdminListen
	}
	if c.Admin.Disabled {
		return ""
	}
	return expanded(cmp.Or(c.Admin.Listen, caddy.DefaultAdminListen))
}

func expanded(text string) string { return caddy.NewReplacer().ReplaceKnown(text, "") }

// listening returns the addresses that a server listens on, as they are dialled.
func (s *server) listening() (addresses []caddy.NetworkAddress) {
	for _, text := range s.Listen {
		a, err := caddy.ParseNetworkAddress(expanded(text))
		if err != nil { // validation reports it
			continue
		}
		if host, _, zoned := strings.Cut(a.Host, "|"); zoned || a.IsUnixNetwork() {
			a.Host = host
		} else if ip := net.ParseIP(a.Host); a.Host == "" || ip != nil && ip.IsUnspecified() {
			a.Host = "127.0.0.1"
		}
		addresses = append(addresses, a.Expand()...)
	}
	return addresses
}

// objects returns the objects in a part of the JSON, at any depth.
func objects(part any) (found []map[string]any) {
	switch part := part.(type) {
	case map[string]any:
		found = append(found, part)
		for _, key := range slices.Sorted(maps.Keys(part)) {
			found = append(found, objects(part[key])...)
		}
	case []any:
		for _, one := range part {
			found = append(found, objects(one)...)
		}
	}
	return found
}

// handlers returns the handlers with the name.
func handlers(routes any, name string) (found []map[string]any) {
	for _, one := range objects(routes) {
		if one["handler"] == name {
			found = append(found, one)
		}
	}
	return found
}

// names returns the names that the sites of a server have, without wildcards; one that
// is empty if there are none.
func (s *server) names() (names []string) {
	for _, one := range objects(s.Routes) {
		hosts, _ := one["host"].([]any)
		for _, host := range hosts {
			if name, _ := host.(string); !strings.Contains(name, "*") {
				names = append(names, expanded(name))
			}
		}
	}
	if len(names) == 0 {
		return []string{""}
	}
	slices.Sort(names)
	return slices.Compact(names)
}
