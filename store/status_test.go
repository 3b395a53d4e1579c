package store_test

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/card-gateway/card-gateway/store"
)

// TestStatusJSON: the names and the order of what operators and their scripts read.
func TestStatusJSON(t *testing.T) {
	t.Parallel()
	floor := time.Unix(1_700_000_000, 0).UTC()
	none, nonces := 0, int64(0)
	for want, status := range map[string]store.Status{
		`{"backend":"file","place":"/d","ready":false,"problem":"closed"}`: {Backend: "file", Place: "/d", Problem: "closed"},
		`{"backend":"file","place":"/d","ready":true,"details":{"keys":0,"max_nonces":8,"nonces":0}}`: {
			Backend: "file", Place: "/d", Ready: true, Details: store.Details{Keys: &none, Nonces: &nonces, MaxNonces: 8},
		},
		`{"backend":"file","place":"/d","ready":true,"details":{"degraded":["keys"],"journal_bytes":80,"journal_segments":1,"no_room_for_changes":"full","replay_floor":"2023-11-14T22:13:20Z"}}`: {
			Backend: "file", Place: "/d", Ready: true, Details: store.Details{Degraded: []string{"keys"}, JournalBytes: 80, JournalSegments: 1, NoRoomForChanges: "full", ReplayFloor: floor},
		},
		`{"backend":"redis","place":"r","ready":true,"details":{"degraded":[],"gateways":[],"servers":[],"topology":"single","warnings":[]}}`: {
			Backend: "redis", Place: "r", Ready: true,
			Details: store.Details{Degraded: []string{}, Gateways: []store.Gateway{}, Servers: []store.Server{}, Topology: "single", Warnings: []string{}},
		},
		`{"backend":"redis","place":"r","ready":true,"details":{"degraded":["nonces"],"gateways":[{"name":"n","policy":"p","seen":"2023-11-14T22:13:20Z","this":true}],` +
			`"policy":"p","policy_differences":2,"replay_floor":"2023-11-14T22:13:20Z",` +
			`"servers":[{"address":"a","max_memory":0,"replicas":1,"used_memory":2,"version":"7"}],"topology":"cluster","warnings":["w"]}}`: {
			Backend: "redis", Place: "r", Ready: true,
			Details: store.Details{
				Degraded: []string{"nonces"}, Gateways: []store.Gateway{{Name: "n", Policy: "p", Seen: floor, This: true}}, Policy: "p", PolicyDifferences: 2,
				ReplayFloor: floor, Servers: []store.Server{{Address: "a", Replicas: 1, UsedMemory: 2, Version: "7"}}, Topology: "cluster", Warnings: []string{"w"},
			},
		},
	} {
		if got, err := json.Marshal(status); err != nil || string(got) != want {
			t.Errorf("%s, %v, want %s", got, err, want)
		}
	}
}
