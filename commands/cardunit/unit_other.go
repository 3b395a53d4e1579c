//go:build !unix

package cardunit

// Credentials returns none: there is no systemd.
func Credentials() (paths []string, err error) { return nil, nil }
