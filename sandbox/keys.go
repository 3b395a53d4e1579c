package sandbox

import (
	"context"
	"crypto/ed25519"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"sync"
	"time"
)

// assertionKeys are the public keys of a JWK set by their ids. They are fetched when
// a key is unknown, at most once a second.
type assertionKeys struct {
	mu      sync.Mutex
	byID    map[string]ed25519.PublicKey
	fetched time.Time
}

// named returns the key with the id. It fetches the set from the address if it does
// not know the key.
func (k *assertionKeys) named(ctx context.Context, address, id string) (ed25519.PublicKey, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.byID[id] == nil && time.Since(k.fetched) >= time.Second {
		k.fetched = time.Now()
		keys, err := fetchKeys(ctx, address)
		if err != nil {
			return nil, fmt.Errorf("fetching the keys of the gateway: %w", err)
		}
		k.byID = keys
	}
	if key := k.byID[id]; key != nil {
		return key, nil
	}
	return nil, errors.New("the assertion names a key that the gateway does not publish")
}

func fetchKeys(ctx context.Context, address string) (map[string]ed25519.PublicKey, error) {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, address, nil)
	if err != nil {
		return nil, err
	}
	answer, err := http.DefaultClient.Do(r)
	if err != nil {
		return nil, err
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(io.LimitReader(answer.Body, 1<<20))
	if err != nil {
		return nil, err
	}
	if answer.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("the answer has the status %d", answer.StatusCode)
	}
	var set struct {
		Keys []struct{ Kid, Kty, Crv, X string }
	}
	if err := json.Unmarshal(text, &set); err != nil {
		return nil, err
	}
	keys := make(map[string]ed25519.PublicKey)
	for _, key := range set.Keys {
		x, err := base64.RawURLEncoding.DecodeString(key.X)
		if err == nil && key.Kty == "OKP" && key.Crv == "Ed25519" && len(x) == ed25519.PublicKeySize {
			keys[key.Kid] = x
		}
	}
	return keys, nil
}
