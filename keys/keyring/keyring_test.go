package keyring_test

import (
	"bytes"
	"encoding/base64"
	"errors"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/card-gateway/card-gateway/keys/keyring"
)

// masterKey returns the line of a master key. Different seeds give different
// keys.
func masterKey(seed byte) string {
	raw := make([]byte, 32)
	for i := range raw {
		raw[i] = seed + byte(i)
	}
	return base64.StdEncoding.EncodeToString(raw)
}

func ring(t testing.TB, lines ...string) *keyring.Ring {
	t.Helper()
	r, err := keyring.Parse(strings.Join(lines, "\n"))
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func TestParseKeyring(t *testing.T) {
	a, b := masterKey(1), masterKey(2)
	tests := []struct {
		name, text string
		keys       int    // 0: refused
		want       string // in the error
	}{
		{"one", a, 1, ""},
		{"with a line end", a + "\n", 1, ""},
		{"as Windows writes it", a + "\r\n" + b + "\r\n", 2, ""},
		{"blank lines and blanks", "\n  " + a + "\n\n" + b + " \n\n", 2, ""},
		{"empty", "", 0, "openssl rand -base64 32"},
		{"only blank lines", "\n \n", 0, "is empty"},
		{"too short", base64.StdEncoding.EncodeToString(make([]byte, 16)), 0, "line 1: want 32 bytes"},
		{"too long", base64.StdEncoding.EncodeToString(make([]byte, 33)), 0, "line 1"},
		{"hex", strings.Repeat("ab", 32), 0, "line 1"},
		{"no padding", strings.TrimRight(a, "="), 0, "line 1"},
		{"base64url", strings.NewReplacer("+", "-", "/", "_").Replace(base64.StdEncoding.EncodeToString(bytes.Repeat([]byte{0xfb, 0xff}, 16))), 0, "line 1"},
		{"unused bits set", a[:42] + "9=", 0, "line 1"},
		{"the second is wrong", a + "\n\nsecret!", 0, "line 3"},
		{"twice", a + "\n" + a, 0, "line 2: the same key as on line 1"},
		{"zeros", base64.StdEncoding.EncodeToString(make([]byte, 32)), 0, "all its bytes are equal"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			r, err := keyring.Parse(test.text)
			switch {
			case test.keys > 0:
				if err != nil || r.Len() != test.keys {
					t.Fatalf("got %v, %v; want %d keys", r, err, test.keys)
				}
			case err == nil || !strings.Contains(err.Error(), test.want):
				t.Fatalf("got %v, want an error with %q", err, test.want)
			default:
				for line := range strings.FieldsSeq(test.text) {
					if strings.Contains(err.Error(), line) {
						t.Errorf("the error repeats the value: %v", err)
					}
				}
			}
		})
	}
}

func FuzzParseKeyring(f *testing.F) {
	for _, seed := range []string{"", masterKey(1), masterKey(1) + "\n" + masterKey(2), "\n\n", "AAAA", masterKey(3) + "\r\n"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		r, err := keyring.Parse(text)
		if (r == nil) == (err == nil) {
			t.Fatalf("got both or neither: %v, %v", r, err)
		}
		if err == nil && r.Len() == 0 {
			t.Fatal("an empty ring")
		}
	})
}

func TestSealAndOpen(t *testing.T) {
	r := ring(t, masterKey(1), masterKey(2))
	rapid.Check(t, func(t *rapid.T) {
		plain := rapid.SliceOf(rapid.Byte()).Draw(t, "plain")
		label := rapid.String().Draw(t, "label")
		sealed := r.Seal(plain, label)
		opened, index, err := r.Open(sealed, label)
		if err != nil || index != 0 || !bytes.Equal(opened, plain) {
			t.Fatalf("got %q, %d, %v", opened, index, err)
		}
		if bytes.Equal(sealed, r.Seal(plain, label)) {
			t.Fatal("sealed twice alike: the nonce is not random")
		}
		if _, _, err := r.Open(sealed, label+"x"); !errors.Is(err, keyring.ErrDamaged) {
			t.Fatalf("opened for another label: %v", err)
		}
		i := rapid.IntRange(0, len(sealed)-1).Draw(t, "byte")
		sealed[i] ^= 1 << rapid.IntRange(0, 7).Draw(t, "bit")
		if _, _, err := r.Open(sealed, label); !errors.Is(err, keyring.ErrDamaged) && !errors.Is(err, keyring.ErrMasterKey) {
			t.Fatalf("opened with bit %d flipped: %v", i, err)
		}
	})
}

func TestOpenUnderOtherKeys(t *testing.T) {
	old := ring(t, masterKey(1))
	sealed := old.Seal([]byte("text"), "label")
	rotated := ring(t, masterKey(2), masterKey(1))
	if _, index, err := rotated.Open(sealed, "label"); err != nil || index != 1 {
		t.Errorf("after a rotation: index %d, %v; want 1", index, err)
	}
	if _, _, err := ring(t, masterKey(2)).Open(sealed, "label"); !errors.Is(err, keyring.ErrMasterKey) {
		t.Errorf("under another key alone: %v; want ErrMasterKey", err)
	}
	if _, _, err := old.Open(rotated.Seal([]byte("text"), "label"), "label"); !errors.Is(err, keyring.ErrMasterKey) {
		t.Errorf("the first key does not seal: %v", err)
	}
	for n := range len(sealed) {
		if _, _, err := old.Open(sealed[:n], "label"); err == nil {
			t.Errorf("opened what was cut after %d bytes", n)
		}
	}
}
