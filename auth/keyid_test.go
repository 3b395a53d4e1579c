package auth_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"regexp"
	"strings"
	"testing"

	"github.com/card-gateway/card-gateway/auth"
)

func TestMintedIDs(t *testing.T) {
	k := auth.NewIDKey()
	seen := make(map[string]bool)
	for _, mode := range []auth.Mode{auth.Live, auth.Test} {
		form := regexp.MustCompile(`^ck_` + string(mode) + `_[a-z2-7]{32}$`)
		for range 100 {
			id := k.Mint(mode)
			if !form.MatchString(id) || !k.Check(id) || auth.ModeOf(id) != mode || seen[id] {
				t.Fatalf("minted %s", id)
			}
			seen[id] = true
			if auth.NewIDKey().Check(id) {
				t.Fatalf("another key knows %s", id)
			}
		}
	}
}

func TestCheckTakesOneSpelling(t *testing.T) {
	k := auth.IDKey{1, 2, 3}
	id := k.Mint(auth.Live)
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
	for id, want := range map[string]auth.Mode{
		"ak_test_1": auth.Live, "": auth.Live, "ck_test": auth.Live, "ck_test_x": auth.Test, "ck_live_x": auth.Live, "CK_TEST_x": auth.Live,
	} {
		if got := auth.ModeOf(id); got != want {
			t.Errorf("%q is %s", id, got)
		}
	}
}

func TestFingerprintsAreKeyed(t *testing.T) {
	a, b := auth.IDKey{1}, auth.IDKey{2}
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
	a, b := auth.NewSecretText(), auth.NewSecretText()
	if !form.MatchString(a) || !form.MatchString(b) || a == b {
		t.Errorf("made %d and %d characters", len(a), len(b))
	}
}

func TestSecretsAreNotPrinted(t *testing.T) {
	key := goodKey(t)
	idKey := auth.IDKey{222, 173, 190, 239}
	text, err := json.Marshal(key)
	if err != nil {
		t.Fatal(err)
	}
	all := string(text)
	for _, format := range []string{"%v", "%+v", "%#v", "%s", "%q"} {
		all += fmt.Sprintf(format, key) + fmt.Sprintf(format, *key) + fmt.Sprintf(format, key.Secrets) + fmt.Sprintf(format, key.Secrets[0])
		all += fmt.Sprintf(format, idKey) + fmt.Sprintf(format, &idKey)
	}
	bytesOf := strings.Trim(fmt.Sprint([]byte(fixtureSecret)), "[]")
	for _, canary := range []string{fixtureSecret, bytesOf, "222", "0xde", "deadbeef"} {
		if strings.Contains(all, canary) {
			t.Errorf("%q is printed", canary)
		}
	}
}

func FuzzIDKeyCheck(f *testing.F) {
	k := auth.IDKey{1, 2, 3}
	f.Add(k.Mint(auth.Test))
	f.Add("ck_live_" + strings.Repeat("a", 32))
	f.Add("ck_live_" + strings.Repeat("\n", 32))
	f.Fuzz(func(t *testing.T, id string) {
		if k.Check(id) && len(id) != 40 {
			t.Fatalf("%q passes", id)
		}
	})
}
