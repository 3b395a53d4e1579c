package assertion

import (
	"slices"
	"strings"
)

// JWKSet returns the JWK set (RFC 7517) of the public keys, without duplicates
// and sorted by their ids. Keys of HS256 are secret and never in it.
func JWKSet(keys []*Key) []byte {
	var public []*Key
	for _, k := range keys {
		if k.algorithm == EdDSA {
			public = append(public, k)
		}
	}
	slices.SortFunc(public, func(a, b *Key) int { return strings.Compare(a.id, b.id) })
	public = slices.CompactFunc(public, func(a, b *Key) bool { return a.id == b.id })
	set := []byte(`{"keys":[`)
	for i, k := range public {
		if i > 0 {
			set = append(set, ',')
		}
		set = append(set, `{"kty":"OKP","crv":"Ed25519","alg":"EdDSA","use":"sig","kid":"`+k.id+`","x":"`+k.x()+`"}`...)
	}
	return append(set, "]}\n"...)
}
