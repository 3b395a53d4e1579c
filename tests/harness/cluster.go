package harness

import (
	"context"
	"fmt"
	"strings"
	"testing"
)

// StartCluster returns three masters that share the slots evenly, followed by
// two replicas of each: the i-th master has those at 3+2i and 4+2i.
func StartCluster(t testing.TB) *Servers {
	t.Helper()
	s := newServers(t)
	for i := range 9 {
		name := fmt.Sprintf("master-%d", i)
		if i >= 3 {
			name = fmt.Sprintf("replica-%d-%d", (i-3)/2, i%2)
		}
		s.add(name, append([]string{"--cluster-enabled", "yes", "--cluster-node-timeout", "5000"}, WithReplicas...)...).Start()
	}
	addrs := make([]string, 3)
	for i, r := range s.All {
		if i < 3 {
			r.Do("cluster", "set-config-epoch", i+1)
			r.Do("cluster", "addslotsrange", i*clusterSlots/3, (i+1)*clusterSlots/3-1)
			addrs[i] = s.Addr(r)
		}
		if i > 0 {
			s.meet(s.All[0], r)
		}
	}
	s.eachKnows(9)
	for i := 3; i < 9; i++ {
		s.All[i].Do("cluster", "replicate", s.All[(i-3)/2].Do("cluster", "myid"))
	}
	Eventually(t, "the cluster is whole", func() bool {
		for _, r := range s.All {
			info, err := r.client.ClusterInfo(context.Background()).Result()
			nodes, _ := r.client.ClusterNodes(context.Background()).Result()
			if err != nil || !strings.Contains(info, "cluster_state:ok") || strings.Count(nodes, "slave ") != 6 {
				return false
			}
		}
		return s.replicated(2)
	})
	s.Store = "redis cluster " + strings.Join(addrs, " ")
	return s
}

// meet makes one node known to another, at the addresses of the links.
func (s *Servers) meet(known, other *RedisServer) {
	s.t.Helper()
	announced := func(option string) string {
		for i, word := range other.config {
			if word == option {
				return other.config[i+1]
			}
		}
		return ""
	}
	known.Do("cluster", "meet", "127.0.0.1", announced("--cluster-announce-port"), announced("--cluster-announce-bus-port"))
}

// eachKnows waits until every node knows the number of nodes.
func (s *Servers) eachKnows(nodes int) {
	s.t.Helper()
	Eventually(s.t, "all nodes know each other", func() bool {
		for _, r := range s.All {
			list, err := r.client.ClusterNodes(context.Background()).Result()
			if err != nil || strings.Count(list, " connected") != nodes || strings.Contains(list, "handshake") {
				return false
			}
		}
		return true
	})
}

// Master returns the number of the master that has an API key in a new cluster.
func (s *Servers) Master(key Credentials) int {
	s.t.Helper()
	slot, _ := s.All[0].Do("cluster", "keyslot", "{"+key.ID+"}").(int64)
	return int(slot) * 3 / clusterSlots
}
