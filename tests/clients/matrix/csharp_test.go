package matrix

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/card-gateway/card-gateway/tests/harness"
)

// reuse sends requests one after the other, by one HttpClient.
const reuse = `
using System;
using System.Net.Http;
using CardGateway;

public static class Reuse
{
    public static void Main(string[] arguments)
    {
        var policy = new Policy(arguments[0], "ck_test_1", "0123456789abcdef") { Attempts = 1 };
        using (var http = new HttpClient(new CardHandler(policy)))
        {
            foreach (var method in new[] { "GET", "POST", "GET", "DELETE" })
            {
                try
                {
                    http.SendAsync(new HttpRequestMessage(new HttpMethod(method), arguments[0] + "/api/v1/x")).GetAwaiter().GetResult();
                    Console.WriteLine(method + " answered");
                }
                catch (UnknownException)
                {
                    Console.WriteLine(method + " unknown");
                }
            }
        }
    }
}
`

// TestCSharpRepeatsNothing: on a connection that is used again and that is cut, the
// library would send a request without a body a second time, with the old nonce.
func TestCSharpRepeatsNothing(t *testing.T) {
	i := slices.IndexFunc(languages, func(l language) bool { return l.name == "csharp" })
	dir := languages[i].install(t)
	server := startIssuer(t)
	var mu sync.Mutex
	took := map[int]int{} // requests on each connection
	server.Does(func(r *harness.Received) harness.Reply {
		mu.Lock()
		defer mu.Unlock()
		if took[r.Conn]++; took[r.Conn] > 1 {
			return harness.Reply{} // hang up
		}
		return harness.Answer(200, "ok")
	})
	program := filepath.Join(dir, "Reuse.cs")
	if err := os.WriteFile(program, []byte(reuse), 0o600); err != nil {
		t.Fatal(err)
	}
	out, err := exec.Command(filepath.Join(dir, "run"), program, "http://"+server.Addr).CombinedOutput()
	if want := "GET answered\nPOST unknown\nGET answered\nDELETE unknown\n"; err != nil || string(out) != want {
		t.Errorf("the program prints %q, %v, want %q", out, err, want)
	}
	var lines []string
	for _, r := range server.Took() {
		method, _, _ := strings.Cut(r.Line, " ")
		lines = append(lines, method)
	}
	if !slices.Equal(lines, []string{"GET", "POST", "GET", "DELETE"}) {
		t.Errorf("%v arrived", lines)
	}
}
