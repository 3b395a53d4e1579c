package server

import (
	"context"
	"embed"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"text/template"

	"github.com/redis/go-redis/v9"
)

// rival holds the configurations of nginx, HAProxy and Traefik, and the checks as one
// would write them by hand.
//
//go:embed rival
var rival embed.FS

var rivalConf = template.Must(template.ParseFS(rival, "rival/*.conf", "rival/*.cfg", "rival/*.yml"))

// A rivalConfig fills the templates.
type rivalConfig struct {
	Dir, Port string
	Root      bool // whether it runs as root, and needs a line to stay root
	Modules   string
	Issuer    string
	// For the checks by hand.
	RedisPort, SettleSHA string
	Limit                Limit
}

// StartIssuer runs the issuer: one worker with the same small answer to every
// request.
func StartIssuer(ctx context.Context, dir string) (*Server, error) {
	p, err := newProcess(ctx, dir, "issuer")
	if err != nil {
		return nil, err
	}
	s := &Server{front: p}
	return s, p.runNginx(ctx, "issuer.conf", rivalConfig{})
}

func startNginx(ctx context.Context, s *Setup) (*Server, error) {
	p, err := newProcess(ctx, s.Dir, "nginx")
	if err != nil {
		return nil, err
	}
	return &Server{front: p}, p.runNginx(ctx, "plain.conf", rivalConfig{Issuer: s.Issuer})
}

// startRival runs nginx with the checks by hand, on a Redis of its own.
func startRival(ctx context.Context, s *Setup) (*Server, error) {
	p, err := newProcess(ctx, s.Dir, "rival")
	if err != nil {
		return nil, err
	}
	server := &Server{front: p}
	if server.redis, err = startRedis(ctx, s.Dir); err != nil {
		return server, err
	}
	var script string
	for _, name := range []string{"access.lua", "redis.lua", "settle.lua"} {
		text, err := rival.ReadFile("rival/" + name)
		if err != nil {
			return server, err
		}
		if name == "settle.lua" {
			script = string(text)
		}
		if err := os.WriteFile(p.path(name), text, 0o600); err != nil {
			return server, err
		}
	}
	sha, err := server.redis.client.ScriptLoad(ctx, script).Result()
	if err != nil {
		return server, fmt.Errorf("loading the script of the rival: %w", err)
	}
	_, err = server.redis.client.Pipelined(ctx, func(pipe redis.Pipeliner) error {
		for _, key := range s.Keys {
			pipe.HSet(ctx, "key:"+key.ID, "secret", key.Secret, "status", "active", "tenant", "bench", "scopes", "cards:write", "ips", "127.0.0.1")
		}
		return nil
	})
	if err != nil {
		return server, fmt.Errorf("writing the keys of the rival: %w", err)
	}
	return server, p.runNginx(ctx, "rival.conf", rivalConfig{Issuer: s.Issuer, RedisPort: server.redis.port(), SettleSHA: sha, Limit: s.Limit})
}

// runNginx writes the configuration and starts nginx with it.
func (p *process) runNginx(ctx context.Context, name string, c rivalConfig) error {
	c.Dir, c.Port, c.Root = p.dir, p.port(), os.Geteuid() == 0
	if name == "rival.conf" {
		modules, err := nginxModules(ctx)
		if err != nil {
			return err
		}
		c.Modules = modules
	}
	if err := p.configure(name, "nginx.conf", c); err != nil {
		return err
	}
	program, err := systemProgram("nginx")
	if err != nil {
		return err
	}
	return p.start(ctx, nil, program, "-p", p.dir, "-e", p.path("error.log"), "-c", p.path("nginx.conf"))
}

// configure writes the file from the template of this name.
func (p *process) configure(template, file string, c rivalConfig) error {
	var text strings.Builder
	if err := rivalConf.ExecuteTemplate(&text, template, c); err != nil {
		return err
	}
	return os.WriteFile(p.path(file), []byte(text.String()), 0o600)
}

// systemProgram returns the path of a server of the distribution. It also looks
// outside the path of the user.
func systemProgram(name string) (string, error) {
	for _, name := range []string{name, "/usr/sbin/" + name} {
		if path, err := exec.LookPath(name); err == nil {
			return path, nil
		}
	}
	return "", errors.New(name + " is not installed: `make install-test-tools` installs it")
}

var modulesPath = regexp.MustCompile(`--modules-path=(\S+)`)

// nginxModules returns the directory of nginx's modules. It returns an error if
// the Lua module is missing.
func nginxModules(ctx context.Context) (string, error) {
	program, err := systemProgram("nginx")
	if err != nil {
		return "", err
	}
	out, err := exec.CommandContext(ctx, program, "-V").CombinedOutput() //nolint:gosec // nginx, as it was found
	if err != nil {
		return "", fmt.Errorf("nginx -V: %w", err)
	}
	found := modulesPath.FindSubmatch(out)
	if found == nil {
		return "", errors.New("nginx -V names no path of modules")
	}
	if _, err := os.Stat(filepath.Join(string(found[1]), "ngx_http_lua_module.so")); err != nil {
		return "", errors.New("nginx has no Lua module: install libnginx-mod-http-lua, lua-resty-core and lua-resty-lrucache, or leave out nginx-lua-redis")
	}
	return string(found[1]), nil
}
