package settings

import (
	"testing"
)

func TestDocsURLIsAPage(t *testing.T) {
	for address, ok := range map[string]bool{
		"": true, "https://docs.example.com/errors": true, "http://localhost:8080/": true,
		"docs.example.com": false, "/errors.md": false, "https://docs.example.com/errors#top": false, "ftp://x/": false, "https://": false,
	} {
		if err := checkDocsURL(address); (err == nil) != ok {
			t.Errorf("%q: %v", address, err)
		}
	}
}
