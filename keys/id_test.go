package keys_test

import (
	"bytes"
	"fmt"
	"regexp"
	"strings"
	"testing"

	"github.com/card-gateway/card-gateway/keys"
)

func TestMintedIDs(t *testing.T) {
	k := keys.NewIDKey()
	seen := make(map[string]bool)
	for _, mode := range []keys.Mode{keys.Live, keys.Test} {
		form := regexp.MustCompile(`^ck_` + string(mode) + `_[a-z2-7]{32}$`)
		for range 100 {
			id := k.Mint(mode)
			if !form.MatchString(id) || !k.Check(id) || keys.ModeOf(id) != mode || seen[id] {
				t.Fatalf("minted %s", id)
			}
			seen[id] = true
			if keys.NewIDKey().Check(id) {
				t.Fatalf("another key knows %s", id)
			}
		}
	}
}

func TestCheckTakesOneSpelling(t *testing.T) {
	k := keys.IDKey{1, 2, 3}
	id := k.Mint(keys.Live)
	for i := range id {
		changed := []byte(id)
		changed[i] ^= 1
		if k.Check(string(changed)) {
			t.Errorf("%s passes for %s", changed, id)
		}
	}
	for _, other := range []string{
		"", "ck_live_", id[:len(id)-1], id + "a", id + "=", strings.ToUpper(id), "ck_live_" + strings.ToUpper(id[8:]),
		strings.Replace(id, "live", "test", 1), id[:20] + "\n" + id[20:], id[:20] + "\r\n" + id[22:], "ak_test_1", " " + id,
	} {
		if k.Check(other) {
			t.Errorf("%q passes for %s", other, id)
		}
	}
}

func TestModeOfImportedIDs(t *testing.T) {
	for id, want := range map[string]keys.Mode{
		"ak_test_1": keys.Live, "": keys.Live, "ck_test": keys.Live, "ck_test_x": keys.Test, "ck_live_x": keys.Live, "CK_TEST_x": keys.Live,
	} {
		if got := keys.ModeOf(id); got != want {
			t.Errorf("%q is %s", id, got)
		}
	}
}

func TestFingerprintsAreKeyed(t *testing.T) {
	a, b := keys.IDKey{1}, keys.IDKey{2}
	got := a.Fingerprint("secret")
	if len(got) != 16 || !bytes.Equal(got, a.Fingerprint("secret")) {
		t.Errorf("got %x", got)
	}
	if bytes.Equal(got, a.Fingerprint("Secret")) || bytes.Equal(got, b.Fingerprint("secret")) {
		t.Error("different secrets or keys have one fingerprint")
	}
}

func TestNewSecretText(t *testing.T) {
	form := regexp.MustCompile(`^[a-z2-7]{52}$`)
	a, b := keys.NewSecretText(), keys.NewSecretText()
	if !form.MatchString(a) || !form.MatchString(b) || a == b {
		t.Errorf("made %d and %d characters", len(a), len(b))
	}
}

func TestIDKeyIsNotPrinted(t *testing.T) {
	idKey := keys.IDKey{222, 173, 190, 239}
	all := ""
	for _, format := range []string{"%v", "%+v", "%#v", "%s", "%q"} {
		all += fmt.Sprintf(format, idKey) + fmt.Sprintf(format, &idKey)
	}
	for _, canary := range []string{"222", "0xde", "deadbeef"} {
		if strings.Contains(all, canary) {
			t.Errorf("%q is printed", canary)
		}
	}
}

func FuzzIDKeyCheck(f *testing.F) {
	k := keys.IDKey{1, 2, 3}
	f.Add(k.Mint(keys.Test))
	f.Add("ck_live_" + strings.Repeat("a", 32))
	f.Add("ck_live_" + strings.Repeat("\n", 32))
	f.Fuzz(func(t *testing.T, id string) {
		if k.Check(id) && len(id) != 40 {
			t.Fatalf("%q passes", id)
		}
	})
}
