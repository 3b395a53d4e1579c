package redis

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/card-gateway/card-gateway/auth"
	"github.com/card-gateway/card-gateway/store"
	"github.com/card-gateway/card-gateway/store/redis/rpc"
	"github.com/card-gateway/card-gateway/tests/harness"
	"github.com/card-gateway/card-gateway/tests/redistest"
)

// aclRule returns the ACL rule of docs/redis.md.
func aclRule(t testing.TB) []string {
	t.Helper()
	doc, err := os.ReadFile("../../docs/redis.md")
	if err != nil {
		t.Fatal(err)
	}
	found := regexp.MustCompile(`(?m)^ACL SETUSER gateway (.*)$`).FindSubmatch(doc)
	if found == nil {
		t.Fatal("docs/redis.md shows no line ACL SETUSER gateway")
	}
	return strings.Fields(strings.ReplaceAll(string(found[1]), ">PASSWORD", ">secret"))
}

// The documented ACL rule is enough for everything, on one server and on a
// cluster, and gives no access to another prefix.
func TestDocumentedACL(t *testing.T) {
	t.Parallel()
	single := redistest.Own(t, false)
	nodes := redistest.OwnCluster(t)
	for _, p := range append([]*redistest.Process{single}, nodes...) {
		args := []any{"acl", "setuser", "gateway"}
		for _, a := range aclRule(t) {
			args = append(args, a)
		}
		p.Do(t, args...)
		p.Do(t, "acl", "setuser", "default", "off")
	}
	for name, opt := range map[string]Options{
		"single":  {Options: rpc.Options{URL: single.URL(), Username: "gateway", Password: "secret"}},
		"cluster": {Options: rpc.Options{ClusterAddrs: redistest.Addrs(nodes), Username: "gateway", Password: "secret"}},
	} {
		t.Run(name, func(t *testing.T) {
			s := open(t, opt)
			r := newKey(t, s)
			c := charge(t, newClaim(r), "issue_card", "5/1m")
			expect(t, s, c, auth.Accepted)
			expect(t, s, again(c), auth.ReplayedNonce)
			bad := newClaim(r)
			bad.Failed = auth.RuleSignature
			expect(t, s, bad, auth.SignatureMismatch)
			bad = newClaim(r)
			bad.LockAfter = 1
			expect(t, s, bad, auth.KeyLocked)
			for call, err := range everyCall(s, r) {
				if err != nil {
					t.Errorf("%s: %v", call, err)
				}
			}
			if err := check(s); err != nil {
				t.Errorf("a second look: %v", err)
			}
		})
	}
	t.Run("other prefixes are out of reach", func(t *testing.T) {
		s, err := New(patient(Options{Options: rpc.Options{URL: single.URL(), Username: "gateway", Password: "secret"}, Prefix: "other:"}))
		if err != nil {
			t.Fatal(err)
		}
		defer s.Close()
		var unfit *rpc.UnfitError
		if err := s.Start(ctx); !errors.As(err, &unfit) {
			t.Errorf("Start: %v, want an UnfitError", err)
		}
	})
}

func everyCall(s *Store, r *store.Record) map[string]error {
	errs := make(map[string]error)
	r, errs["Get"] = s.Get(ctx, r.ID)
	other := newRecord()
	_, errs["Put"] = s.Put(ctx, other, store.PutOptions{ClearFailures: true})
	_, errs["List"] = s.List(ctx, "", 10)
	_, errs["Changes"] = s.Changes(ctx, "")
	_, errs["PutMeta"] = s.PutMeta(ctx, "name", []byte("value"))
	_, errs["Meta"] = s.Meta(ctx, "name")
	errs["DeleteMeta"] = s.DeleteMeta(ctx, "name", []byte("value"))
	_, errs["Delete"] = s.Delete(ctx, r.ID, r.Revision)
	errs["Ready"] = s.Ready(ctx)
	return errs
}

func TestTLS(t *testing.T) {
	dir := t.TempDir()
	writeCertificate(t, dir)
	p := redistest.Own(t, false, "--tls-port", "0")
	port := harness.FreePort(t)
	p.Do(t, "config", "set", "tls-cert-file", filepath.Join(dir, "cert"), "tls-key-file", filepath.Join(dir, "key"),
		"tls-ca-cert-file", filepath.Join(dir, "cert"), "tls-auth-clients", "no", "tls-port", port)
	url := "rediss://127.0.0.1:" + strconv.Itoa(port)
	s := open(t, Options{Options: rpc.Options{URL: url, CAFile: filepath.Join(dir, "cert")}})
	expect(t, s, newClaim(newKey(t, s)), auth.Accepted)
	named := open(t, Options{Options: rpc.Options{URL: url, CAFile: filepath.Join(dir, "cert"), ServerName: "redis.internal"}})
	if err := named.Ready(ctx); err != nil {
		t.Errorf("by another name: %v", err)
	}
	for name, opt := range map[string]Options{
		"unknown authority": {Options: rpc.Options{URL: url}},
		"another name":      {Options: rpc.Options{URL: url, CAFile: filepath.Join(dir, "cert"), ServerName: "elsewhere.internal"}},
	} {
		if s := open(t, opt); s.Ready(ctx) == nil {
			t.Errorf("%s: ready", name)
		}
	}
}

func writeCertificate(t testing.TB, dir string) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "test"}, IsCA: true, BasicConstraintsValid: true,
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		DNSNames: []string{"redis.internal"}, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		KeyUsage: x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign,
	}
	cert, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	private, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	for name, block := range map[string]*pem.Block{"cert": {Type: "CERTIFICATE", Bytes: cert}, "key": {Type: "PRIVATE KEY", Bytes: private}} {
		if err := os.WriteFile(filepath.Join(dir, name), pem.EncodeToMemory(block), 0o600); err != nil {
			t.Fatal(err)
		}
	}
}
