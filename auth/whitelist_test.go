package auth_test

import (
	"net/netip"
	"strings"
	"testing"

	"github.com/card-gateway/card-gateway/auth"
)

func TestBadAllowedIPsSayWhatToDo(t *testing.T) {
	tests := []struct {
		list []string
		want string
	}{
		{[]string{}, "leave the list out"},
		{[]string{"203.0.113.7", "203.0.113.007"}, `"203.0.113.007"`},
		{[]string{"203.0.113.7/24"}, "the network is 203.0.113.0/24"},
		{[]string{"::ffff:203.0.113.7/120"}, "the network is 203.0.113.0/24"},
		{[]string{"2001:db8::7/64"}, "the network is 2001:db8::/64"},
		{[]string{"203.0.113.0/33"}, "from 0 to 32"},
		{[]string{"::/0128"}, "from 0 to 128"},
		{[]string{"fe80::1%eth0"}, "zone"},
		{[]string{"::ffff:0.0.0.0/95"}, "/96 to /128"},
	}
	for _, test := range tests {
		if _, err := auth.ParseAllowedIPs(test.list); err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%q: got %v, want %q", test.list, err, test.want)
		}
	}
}

func TestWhitelistIgnoresZones(t *testing.T) {
	list, err := auth.ParseAllowedIPs([]string{"fe80::/10"})
	if err != nil {
		t.Fatal(err)
	}
	key := goodKey(t)
	key.AllowedIPs = list
	r := goodRequest(t)
	r.Client = netip.MustParseAddr("fe80::1%eth0")
	if got := auth.Judge(r, key, fixtureWindow, fixtureNow); got.Failed != 0 {
		t.Errorf("failed %b", got.Failed)
	}
}

func TestEmptyWhitelistAllowsNobody(t *testing.T) {
	key := goodKey(t)
	key.AllowedIPs = []netip.Prefix{}
	if got := auth.Judge(goodRequest(t), key, fixtureWindow, fixtureNow); got.Failed != auth.RuleIP {
		t.Errorf("failed %b", got.Failed)
	}
}

// FuzzAllowedIPs demands that an accepted entry is shown in a form that is
// read as the same network and shown the same again.
func FuzzAllowedIPs(f *testing.F) {
	for _, entry := range []string{
		"203.0.113.7", "203.0.113.0/24", "::ffff:203.0.113.0/120", "2001:db8::/48", "8/8", "010.1.1.1", "::/01", "fe80::1%eth0", "1.2.3.4/+8",
	} {
		f.Add(entry)
	}
	f.Fuzz(func(t *testing.T, entry string) {
		list, err := auth.ParseAllowedIPs([]string{entry})
		if err != nil {
			return
		}
		shown := list[0].String()
		again, err := auth.ParseAllowedIPs([]string{shown})
		if err != nil || again[0] != list[0] || again[0].String() != shown {
			t.Fatalf("%q is shown as %q, which is read as %v, %v", entry, shown, again, err)
		}
		p := list[0]
		if p.Addr().Is4In6() || p.Addr().Zone() != "" || p != p.Masked() || !p.Contains(p.Addr()) {
			t.Fatalf("%q is read as %v", entry, p)
		}
	})
}

// An IPv6 client has a whole network of addresses; they are one holder.
func TestHolderAddress(t *testing.T) {
	same := func(a, b string) bool {
		return auth.Holder(netip.MustParseAddr(a)) == auth.Holder(netip.MustParseAddr(b))
	}
	if !same("2001:db8:1:2::1", "2001:db8:1:2:ffff::9") || same("2001:db8:1:2::1", "2001:db8:1:3::1") ||
		!same("::ffff:192.0.2.1", "192.0.2.1") || same("192.0.2.1", "192.0.2.2") {
		t.Error("addresses are not grouped by /64")
	}
}
