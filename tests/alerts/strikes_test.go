package alerts

import (
	"crypto/rand"
	"crypto/tls"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/card-gateway/card-gateway/tests/harness"
)

// This file has the strikes that need more than a line. Each notes what ends it.

// stop stops a gateway as a service manager does.
func (s *scene) stop(g *harness.Gateway) {
	g.Stop()
	s.finally(g.Start)
}

// crash kills a gateway again and again, and starts it at once, as a service manager does.
func crash(s *scene) {
	over, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		for {
			s.nodes[0].Kill()
			s.nodes[0].StartNotReady()
			select {
			case <-over:
				return
			case <-time.After(s.every.of(crashEvery)):
			}
		}
	}()
	s.finally(func() {
		close(over)
		<-done
	})
}

// halt makes a process hang.
func (s *scene) halt(pid int) {
	s.t.Helper()
	if err := syscall.Kill(pid, syscall.SIGSTOP); err != nil {
		s.t.Fatal(err)
	}
	s.finally(func() { _ = syscall.Kill(pid, syscall.SIGCONT) })
}

// stall makes Redis hang for one second in three, until the fault ends.
func stall(s *scene) {
	over, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		for tick := time.NewTicker(3 * time.Second); ; {
			_ = syscall.Kill(s.redis.Pid(), syscall.SIGSTOP)
			time.Sleep(time.Second) // the fault itself
			_ = syscall.Kill(s.redis.Pid(), syscall.SIGCONT)
			select {
			case <-over:
				return
			case <-tick.C:
			}
		}
	}()
	s.finally(func() {
		close(over)
		<-done
	})
}

// forgeRecord changes the tenant of a key as somebody does who can write to Redis.
func forgeRecord(s *scene) {
	name := "cg:{" + s.nodes[0].NewKey(nil).ID + "}:k"
	written, _ := s.redis.Do("HGET", name, "doc").(string)
	write := func(text string) {
		s.redis.Do("HSET", name, "doc", text, "rev", rand.Text())
		s.countKeys()
	}
	write(strings.Replace(written, "acme", "evil", 1))
	s.finally(func() { write(written) })
}

// endIssuersCertificate leads the gateway to an issuer whose certificate has ended.
func endIssuersCertificate(s *scene) {
	cert, key, _ := (*harness.Authority)(nil).SignFor(s.t, "localhost", time.Now().Add(-48*time.Hour), time.Now().Add(-time.Hour))
	pair, err := tls.X509KeyPair(cert, key)
	if err != nil {
		s.t.Fatal(err)
	}
	issuer := httptest.NewUnstartedServer(http.NotFoundHandler())
	issuer.TLS = &tls.Config{Certificates: []tls.Certificate{pair}}
	issuer.Config.ErrorLog = log.New(io.Discard, "", 0)
	issuer.StartTLS()
	g, site := s.nodes[0], s.site("", "")
	g.WriteFile("issuer.pem", string(cert))
	_, port, _ := net.SplitHostPort(issuer.Listener.Addr().String())
	site.Routes = strings.Replace(site.Routes, "card_forward "+s.issuer.Addr+" {", "card_forward localhost:"+port+" {\ntls {\nca_file "+g.Path("issuer.pem")+"\n}", 1)
	g.Reload(site)
	s.finally(func() {
		g.Reload(s.site("", ""))
		issuer.Close()
	})
}

// node runs a command of card-node on a gateway.
func (s *scene) node(i int, command ...string) {
	s.t.Helper()
	g := s.nodes[i]
	args := slices.Concat([]string{"card-node"}, command, []string{"--address", "unix/" + g.Path("admin.sock")})
	if out, err := g.Command(args...).CombinedOutput(); err != nil {
		s.t.Errorf("card-node %q: %v\n%s", command, err, out)
	}
}

// rollOut loads new rules into the gateways, 40 s apart. Each is drained meanwhile,
// and the work on the last one takes longer.
func rollOut(s *scene) {
	site := s.site("lock_after 20", "")
	load := func(i int) {
		s.node(i, "drain", "--for", "1h")
		if err := s.nodes[i].TryReload(site); err != nil {
			s.t.Error(err)
		}
	}
	next := time.After(s.every.of(40 * time.Second))
	load(0)
	s.node(0, "undrain")
	s.clients.Go(func() {
		select {
		case <-next:
			load(1)
		case <-s.ended:
		}
	})
	s.finally(func() { s.node(1, "undrain") })
}

// wantRefused requires that a load was refused because of the order of handlers.
func (s *scene) wantRefused(err error) {
	s.t.Helper()
	if err == nil || !strings.Contains(err.Error(), "write card_rate_limit first") {
		s.t.Errorf("the configuration is answered %v", err)
	}
}

// fill fills the disk of a directory of the gateway, and makes keys until the room
// that the gateway has in reserve is used up too.
func (s *scene) fill(dir string) {
	s.t.Helper()
	g := s.nodes[0]
	for range 10_000 {
		free := g.FillDisk(g.Path(dir))
		if _, made := g.TryNewKey(); !made {
			s.keepFull(dir, free)
			return
		}
	}
	s.t.Error("keys can be made although the disk is full")
}

// keepFull fills what becomes free, until the fault ends.
func (s *scene) keepFull(dir string, free func()) {
	over, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		for {
			select {
			case <-over:
				return
			case <-time.After(100 * time.Millisecond):
				s.nodes[0].FillDisk(s.nodes[0].Path(dir))
			}
		}
	}()
	s.finally(func() {
		close(over)
		<-done
		free()
	})
}

// configure changes an option of Redis; its old value ends the fault.
func (s *scene) configure(option, value, old string) {
	s.redis.Do("CONFIG", "SET", option, value)
	s.finally(func() { s.redis.Do("CONFIG", "SET", option, old) })
}

// issuerDoes changes the issuer's answers.
func (s *scene) issuerDoes(reply func(*harness.Received) harness.Reply) {
	s.issuer.Does(reply)
	s.finally(func() { s.issuer.Does(answers) })
}

// issuerAnswers makes the issuer answer with an error of its own.
func (s *scene) issuerAnswers(status int) {
	s.issuerDoes(func(*harness.Received) harness.Reply {
		return harness.Answer(status, `{"error":"broken"}`, "Content-Type: application/json")
	})
}

func slowIssuer(s *scene) {
	s.issuerDoes(func(r *harness.Received) harness.Reply {
		time.Sleep(1500 * time.Millisecond) // the fault itself: an issuer that is slow
		return answers(r)
	})
}

// stamp shifts the clocks of all clients.
func (s *scene) stamp(ahead time.Duration) {
	s.send(func(int) []*harness.Request {
		return []*harness.Request{s.key.RequestAt(time.Now().Add(ahead), http.MethodGet, "/api/v1/cards/c1", "")}
	})
	s.finally(func() { s.send(s.healthy) })
}

// expire makes a key that expires.
func (s *scene) expire(in time.Duration) {
	key := s.nodes[0].NewKey(harness.Fields{"expires_at": harness.Moment(time.Now().Add(in))})
	s.countKeys()
	s.finally(func() {
		s.nodes[0].Change(key, harness.Fields{"expires_at": nil})
		s.countKeys()
	})
}

// countKeys makes the gateway count its keys, if the time that passes until it does
// is not that of the rules. A configuration counts them when it starts.
func (s *scene) countKeys() {
	if s.every > 1 {
		s.reloads++
		s.nodes[0].Reload(s.site(fmt.Sprintf("lock_after %d", 50+s.reloads), ""))
	}
}

// nearlyFull lets Redis have little more memory than it uses.
func nearlyFull(s *scene) {
	_, rest, _ := strings.Cut(fmt.Sprint(s.redis.Do("INFO", "memory")), "used_memory:")
	var used int
	if _, err := fmt.Sscan(rest, &used); err != nil {
		s.t.Fatal(err)
	}
	s.configure("maxmemory", fmt.Sprint(used*10/9), "64mb")
}

// hangLog makes both logs write to a pipe that nobody reads, with more than it
// holds.
func hangLog(s *scene) {
	g := s.nodes[0]
	pipe := g.Path("pipe")
	if err := syscall.Mkfifo(pipe, 0o600); err != nil {
		s.t.Fatal(err)
	}
	reader, err := os.OpenFile(pipe, os.O_RDWR, 0) // both ways, so that opening it does not wait
	if err != nil {
		s.t.Fatal(err)
	}
	if _, err := reader.WriteString(strings.Repeat("x\n", 32<<10)); err != nil { // it is full
		s.t.Fatal(err)
	}
	s.logTo(pipe)
	s.finally(func() { _ = reader.Close() })
}

// logTo makes both logs write to another file.
func (s *scene) logTo(path string) {
	g := s.nodes[0]
	text := g.Caddyfile()
	for _, name := range []string{"default.log", "access.log"} {
		text = strings.Replace(text, "output file "+g.Path(name), "output card_queue file "+path, 1)
	}
	g.ReloadText(s.t, text)
	s.finally(func() { g.Reload(s.site("", "")) })
}

// lateCertificate adds a site with a certificate that should have been renewed.
func lateCertificate(s *scene) {
	g, site := s.nodes[0], s.site("", "")
	const day = 24 * time.Hour
	cert, key, _ := (*harness.Authority)(nil).SignFor(s.t, "late.example", time.Now().Add(-87*day), time.Now().Add(3*day))
	g.WriteFile("late.pem", string(cert))
	g.WriteFile("late.key", string(key))
	_, port, _ := net.SplitHostPort(harness.FreeAddress(s.t))
	site.Sites = fmt.Sprintf("https://late.example:%s {\nbind 127.0.0.1\ntls %s %s\n}\n", port, g.Path("late.pem"), g.Path("late.key"))
	g.Reload(site)
	s.finally(func() { g.Reload(s.site("", "")) })
}

// holdBodies begins bodies that never end, and goes on trying.
func holdBodies(s *scene) {
	g, holder := s.nodes[0], s.nodes[0].NewKey(nil)
	const begun = 200 << 10
	for range 8 {
		r := holder.Post().Set("Content-Length", fmt.Sprint(begun+1))
		w := g.Connect(s.t)
		_, _ = w.Write([]byte(r.Head() + strings.Repeat("x", begun))) // it may be refused at once
		_ = w.SetDeadline(time.Time{})
		s.finally(func() { _ = w.Close() })
	}
	s.alsoSend(func(int) []*harness.Request {
		return []*harness.Request{holder.Request(http.MethodPost, "/api/v1/cards", `"`+strings.Repeat("x", begun)+`"`)}
	})
}
