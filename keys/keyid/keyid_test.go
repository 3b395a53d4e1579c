package keyid_test

import (
	"bytes"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base32"
	"fmt"
	"regexp"
	"strings"
	"testing"

	"github.com/card-gateway/card-gateway/keys/keyid"
)

func TestMintedIDs(t *testing.T) {
	k := keyid.NewKey()
	seen := make(map[string]bool)
	for _, mode := range []keyid.Mode{keyid.Live, keyid.Test} {
		form := regexp.MustCompile(`^ck_` + string(mode) + `_[a-z2-7]{32}$`)
		for range 100 {
			id := k.Mint(mode)
			if !form.MatchString(id) || !k.Check(id) || keyid.ModeOf(id) != mode || seen[id] {
				t.Fatalf("minted %s", id)
			}
			seen[id] = true
			if keyid.NewKey().Check(id) {
				t.Fatalf("another key knows %s", id)
			}
		}
	}
}

// TestEveryByteOfAnIDIsRandom: each of the 16 bytes takes many values.
func TestEveryByteOfAnIDIsRandom(t *testing.T) {
	ids := keyid.NewKey()
	var seen [16]map[byte]bool
	for range 64 {
		id := ids.Mint(keyid.Live)
		raw, err := base32.StdEncoding.DecodeString(strings.ToUpper(id[len("ck_live_"):]))
		if err != nil || !keyid.WellFormed(id) {
			t.Fatal("a minted id is malformed")
		}
		for i := range seen {
			if seen[i] == nil {
				seen[i] = make(map[byte]bool)
			}
			seen[i][raw[i]] = true
		}
	}
	for i, values := range seen {
		if len(values) < 32 { // 64 draws give 57 values on average
			t.Errorf("byte %d took %d values in 64 ids", i, len(values))
		}
	}
}

func TestCheckTakesOneSpelling(t *testing.T) {
	k := keyid.Key{1, 2, 3}
	id := k.Mint(keyid.Live)
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
	for id, want := range map[string]keyid.Mode{
		"ak_test_1": keyid.Live, "": keyid.Live, "ck_test": keyid.Live, "ck_test_x": keyid.Test, "ck_live_x": keyid.Live, "CK_TEST_x": keyid.Live,
	} {
		if got := keyid.ModeOf(id); got != want {
			t.Errorf("%q is %s", id, got)
		}
	}
}

func TestFingerprintsAreKeyed(t *testing.T) {
	a, b := keyid.Key{1}, keyid.Key{2}
	got := a.Fingerprint("secret")
	if len(got) != 16 || !bytes.Equal(got, a.Fingerprint("secret")) {
		t.Errorf("got %x", got)
	}
	if bytes.Equal(got, a.Fingerprint("Secret")) || bytes.Equal(got, b.Fingerprint("secret")) {
		t.Error("different secrets or keys have one fingerprint")
	}
}

func TestKeyIsNotPrinted(t *testing.T) {
	idKey := keyid.Key{222, 173, 190, 239}
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

// idByHand makes an id by the documentation of Mint, without the code of this
// package: ids that are in use must stay valid.
func idByHand(key keyid.Key, prefix string, random [16]byte) string {
	mac := hmac.New(sha256.New, key[:])
	mac.Write([]byte("card-gateway key id\x00" + prefix + string(random[:])))
	sum := mac.Sum(nil)
	return prefix + strings.ToLower(base32.StdEncoding.EncodeToString(append(random[:], sum[:4]...)))
}

// FuzzKeyCheck writes some text over a good id: only the same id passes. It
// fails when the checksum is compared in part, does not cover the prefix, or
// is read from text that has a second spelling.
func FuzzKeyCheck(f *testing.F) {
	k := keyid.Key{1, 2, 3}
	for _, over := range []struct {
		at   uint8
		text string
	}{{0, ""}, {3, "live"}, {3, "test"}, {8, "A"}, {12, "\n"}, {38, "aa"}, {39, "7"}, {40, "="}, {40, "a"}} {
		f.Add([]byte("random"), false, over.at, over.text)
	}
	f.Fuzz(func(t *testing.T, random []byte, live bool, at uint8, text string) {
		var r [16]byte
		copy(r[:], random)
		prefix := "ck_test_"
		if live {
			prefix = "ck_live_"
		}
		id := idByHand(k, prefix, r)
		if !k.Check(id) {
			t.Fatalf("%q does not pass", id)
		}
		start := min(int(at), len(id))
		changed := id[:start] + text + id[min(start+len(text), len(id)):]
		if k.Check(changed) != (changed == id) {
			t.Fatalf("%q passes for %q", changed, id)
		}
	})
}
