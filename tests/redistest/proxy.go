package redistest

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"io"
	"maps"
	"net"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
)

// A Proxy is between a store and a server. It understands commands well enough
// to count them and to answer in the server's place.
type Proxy struct {
	path, server string
	listener     net.Listener
	tasks        sync.WaitGroup
	done         chan struct{}

	mu        sync.Mutex
	fault     Fault
	calls     map[string]int
	conns     map[net.Conn]bool
	forgotten map[net.Conn]bool // whose commands are lost
	lost      int               // commands
}

// A Fault decides what happens to a command.
type Fault struct {
	// Reply is sent in the server's place. Empty: the command goes to the
	// server.
	Reply string
	// Change changes the server's reply.
	Change func(reply []byte) []byte
	// Silent sends no reply. Drop closes the connection: before the command is
	// sent, or after the changed reply.
	Silent, Drop bool
	// Only, if not empty, restricts the fault to commands with this text.
	Only string
}

// Faultless changes nothing.
var Faultless Fault

// NewProxy returns a proxy before the server, which ends with the test.
func NewProxy(t testing.TB, server *Process) *Proxy {
	t.Helper()
	p := &Proxy{path: filepath.Join(t.TempDir(), "p"), server: server.Addr, done: make(chan struct{}), calls: map[string]int{}, conns: map[net.Conn]bool{}, forgotten: map[net.Conn]bool{}}
	var err error
	if p.listener, err = new(net.ListenConfig).Listen(ctx, "unix", p.path); err != nil {
		t.Fatal(err)
	}
	p.tasks.Go(p.accept)
	t.Cleanup(p.close)
	return p
}

// URL returns its address, as the options of a store need it.
func (p *Proxy) URL() string { return "unix://" + p.path }

func (p *Proxy) close() {
	close(p.done)
	_ = p.listener.Close()
	p.Disconnect()
	p.tasks.Wait()
}

// Set applies the fault to all later commands.
func (p *Proxy) Set(f Fault) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.fault = f
}

// Disconnect closes all connections.
func (p *Proxy) Disconnect() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for c := range p.conns {
		_ = c.Close()
	}
}

// Forget loses every command on the existing connections, like a network that
// has forgotten them. New connections work.
func (p *Proxy) Forget() {
	p.mu.Lock()
	defer p.mu.Unlock()
	maps.Copy(p.forgotten, p.conns)
}

// LostCommands returns how many commands were lost on forgotten connections.
func (p *Proxy) LostCommands() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.lost
}

// Count returns how often the command was sent.
func (p *Proxy) Count(name string) int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.calls[name]
}

func (p *Proxy) accept() {
	for {
		client, err := p.listener.Accept()
		if err != nil {
			return
		}
		p.tasks.Go(func() { p.serve(client) })
	}
}

func (p *Proxy) serve(client net.Conn) {
	server, err := new(net.Dialer).DialContext(ctx, "unix", p.server)
	if err != nil {
		_ = client.Close()
		return
	}
	p.mu.Lock()
	p.conns[client], p.conns[server] = true, true
	p.mu.Unlock()
	defer func() {
		p.mu.Lock()
		delete(p.conns, client)
		delete(p.conns, server)
		p.mu.Unlock()
		_ = client.Close()
		_ = server.Close()
	}()
	commands, replies := bufio.NewReader(client), bufio.NewReader(server)
	for {
		raw, err := readReply(commands, nil)
		if err != nil {
			return
		}
		if !p.handle(raw, client, server, replies) {
			return
		}
	}
}

// handle processes one command and reports whether to go on.
func (p *Proxy) handle(raw []byte, client, server net.Conn, replies *bufio.Reader) bool {
	name := commandName(raw)
	p.mu.Lock()
	p.calls[name]++
	f := p.fault
	forgotten := p.forgotten[client]
	if forgotten {
		p.lost++
	}
	p.mu.Unlock()
	if name == "hello" || name == "client" || !bytes.Contains(raw, []byte(f.Only)) {
		f = Faultless
	}
	switch {
	case forgotten:
		return true
	case f.Silent:
		<-p.done
		return false
	case f.Drop && f.Change == nil:
		return false
	case f.Reply != "":
		_, err := io.WriteString(client, f.Reply)
		return err == nil
	}
	if _, err := server.Write(raw); err != nil {
		return false
	}
	reply, err := readReply(replies, nil)
	if err != nil {
		return false
	}
	if f.Change != nil {
		reply = f.Change(reply)
	}
	_, err = client.Write(reply)
	return err == nil && !f.Drop
}

// commandName returns the second bulk line of a command: its name.
func commandName(raw []byte) string {
	lines := bytes.SplitN(raw, []byte("\r\n"), 4)
	if len(lines) < 3 {
		return ""
	}
	return strings.ToLower(string(lines[2]))
}

// readReply reads one RESP value and returns its bytes.
func readReply(r *bufio.Reader, raw []byte) ([]byte, error) {
	line, err := r.ReadBytes('\n')
	if err != nil {
		return nil, err
	}
	raw = append(raw, line...)
	n, _ := strconv.Atoi(strings.TrimSpace(string(line[1:])))
	switch line[0] {
	case '+', '-', ':', '_', '#', ',':
		return raw, nil
	case '$', '=':
		if n < 0 {
			return raw, nil
		}
		body := make([]byte, n+2)
		if _, err := io.ReadFull(r, body); err != nil {
			return nil, err
		}
		return append(raw, body...), nil
	case '%':
		n *= 2
		fallthrough
	case '*', '~', '>':
		for range n {
			if raw, err = readReply(r, raw); err != nil {
				return nil, err
			}
		}
		return raw, nil
	}
	return nil, errors.New("no RESP: " + string(line))
}

// StuckDialer never connects.
func StuckDialer(ctx context.Context, _, _ string) (net.Conn, error) {
	<-ctx.Done()
	return nil, &net.OpError{Op: "dial", Net: "unix", Err: ctx.Err()}
}
