package auth_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
)

func TestSecretsAreNotPrinted(t *testing.T) {
	key := goodKey(t)
	text, err := json.Marshal(key)
	if err != nil {
		t.Fatal(err)
	}
	all := string(text)
	for _, format := range []string{"%v", "%+v", "%#v", "%s", "%q"} {
		all += fmt.Sprintf(format, key) + fmt.Sprintf(format, *key) + fmt.Sprintf(format, key.Secrets) + fmt.Sprintf(format, key.Secrets[0])
	}
	bytesOf := strings.Trim(fmt.Sprint([]byte(fixtureSecret)), "[]")
	for _, canary := range []string{fixtureSecret, bytesOf} {
		if strings.Contains(all, canary) {
			t.Errorf("%q is printed", canary)
		}
	}
}
