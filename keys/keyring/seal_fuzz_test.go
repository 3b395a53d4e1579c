package keyring_test

import (
	"bytes"
	"encoding/hex"
	"errors"
	"testing"

	"github.com/card-gateway/card-gateway/keys/keyring"
)

// FuzzOpen: of all texts, a key ring opens only what it has sealed, under its own
// label.
func FuzzOpen(f *testing.F) {
	r := ring(f, masterKey(1), masterKey(2))
	const label, plain = "ck_test_a 1", "a secret"
	// Sealed once and for all, because the processes of the fuzzer share the seeds
	// and sealing is random.
	sealed, err := hex.DecodeString("01e8e5011c0b52bc69e16996fefe4d9d4652db1ab8cccfdc2a25348010b6ca0bccfb4267d178575b2d")
	if err != nil {
		f.Fatal(err)
	}
	f.Add([]byte(nil), label)
	f.Add(sealed[:len(sealed)-1], label)
	f.Add(append(bytes.Clone(sealed), 0), label)
	f.Add(sealed, label)
	f.Add(sealed, "ck_test_a 2")
	f.Fuzz(func(t *testing.T, text []byte, associated string) {
		opened, _, err := r.Open(text, associated)
		if ours := bytes.Equal(text, sealed) && associated == label; ours != (err == nil) {
			t.Fatalf("%x with %q: %q, %v", text, associated, opened, err)
		}
		if err == nil && string(opened) != plain {
			t.Fatalf("opened as %q", opened)
		}
		if err != nil && !errors.Is(err, keyring.ErrDamaged) && !errors.Is(err, keyring.ErrMasterKey) {
			t.Fatalf("an error of no kind: %v", err)
		}
	})
}
