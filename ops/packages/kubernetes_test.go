package main

import (
	"slices"
	"strings"
	"testing"

	apps "k8s.io/api/apps/v1"
	core "k8s.io/api/core/v1"
	networking "k8s.io/api/networking/v1"
	policy "k8s.io/api/policy/v1"
	"sigs.k8s.io/kustomize/api/krusty"
	"sigs.k8s.io/kustomize/kyaml/filesys"
	"sigs.k8s.io/yaml"
)

// A base is ops/kubernetes as kustomize renders it.
type base struct {
	gateways   apps.StatefulSet
	services   []core.Service
	configs    []core.ConfigMap
	budget     policy.PodDisruptionBudget
	network    networking.NetworkPolicy
	rest       []string
	identities []core.ServiceAccount
}

// render renders the base. A field that Kubernetes does not know fails the test.
func render(t *testing.T) *base {
	t.Helper()
	all, err := krusty.MakeKustomizer(krusty.MakeDefaultOptions()).Run(filesys.MakeFsOnDisk(), "../kubernetes")
	if err != nil {
		t.Fatal(err)
	}
	var b base
	for _, r := range all.Resources() {
		text := []byte(r.MustYaml())
		strict := func(into any) {
			if err := yaml.UnmarshalStrict(text, into); err != nil {
				t.Errorf("%s %s: %v", r.GetKind(), r.GetName(), err)
			}
		}
		switch r.GetKind() {
		case "StatefulSet":
			strict(&b.gateways)
		case "Service":
			b.services = append(b.services, core.Service{})
			strict(&b.services[len(b.services)-1])
		case "ConfigMap":
			b.configs = append(b.configs, core.ConfigMap{})
			strict(&b.configs[len(b.configs)-1])
		case "ServiceAccount":
			b.identities = append(b.identities, core.ServiceAccount{})
			strict(&b.identities[len(b.identities)-1])
		case "PodDisruptionBudget":
			strict(&b.budget)
		case "NetworkPolicy":
			strict(&b.network)
		default:
			b.rest = append(b.rest, r.GetKind())
		}
	}
	return &b
}

// TestKubernetes renders the base and checks what its parts say of each other.
func TestKubernetes(t *testing.T) {
	b := render(t)
	if len(b.rest) > 0 || len(b.services) != 2 || len(b.configs) != 2 || len(b.identities) != 1 {
		t.Fatalf("there are %d services, %d config maps, %d identities, and %v", len(b.services), len(b.configs), len(b.identities), b.rest)
	}
	pod := b.gateways.Spec.Template
	labels := pod.Labels
	selects := func(what string, selector map[string]string) {
		if len(selector) == 0 {
			t.Errorf("%s selects everything", what)
		}
		for name, value := range selector {
			if labels[name] != value {
				t.Errorf("%s selects %s=%s; the gateways have %v", what, name, value, labels)
			}
		}
	}
	selects("the stateful set", b.gateways.Spec.Selector.MatchLabels)
	selects("the budget", b.budget.Spec.Selector.MatchLabels)
	selects("the network policy", b.network.Spec.PodSelector.MatchLabels)
	gateway := pod.Spec.Containers[0]
	ports := map[string]int32{}
	for _, port := range gateway.Ports {
		ports[port.Name] = port.ContainerPort
	}
	for _, service := range b.services {
		selects("the service "+service.Name, service.Spec.Selector)
		if target := service.Spec.Ports[0].TargetPort.StrVal; ports[target] == 0 {
			t.Errorf("the service %s leads to the port %q", service.Name, target)
		}
	}
	if b.gateways.Spec.ServiceName != "card-gateway-nodes" {
		t.Errorf("the stateful set names the service %q", b.gateways.Spec.ServiceName)
	}
	checkProbes(t, &gateway)
	checkMounts(t, b, &gateway)
}

// checkProbes requires that readiness decides about traffic and liveness about
// restarts, never the other way round.
func checkProbes(t *testing.T, gateway *core.Container) {
	t.Helper()
	for _, probe := range []struct {
		name  string
		probe *core.Probe
		path  string
	}{{"readiness", gateway.ReadinessProbe, "/readyz"}, {"liveness", gateway.LivenessProbe, "/livez"}, {"startup", gateway.StartupProbe, "/livez"}} {
		if got := probe.probe.HTTPGet; got.Path != probe.path || got.Port.StrVal != "http" {
			t.Errorf("the %s probe asks %s at port %s", probe.name, got.Path, &got.Port)
		}
	}
}

// checkMounts requires that each file that the Caddyfile names is mounted, and that
// the container holds no right that it does not need.
func checkMounts(t *testing.T, b *base, gateway *core.Container) {
	t.Helper()
	var caddyfile string
	for _, config := range b.configs {
		caddyfile += config.Data["Caddyfile"]
	}
	var mounts []string
	for _, mount := range gateway.VolumeMounts {
		mounts = append(mounts, mount.MountPath)
	}
	for _, want := range []string{"/data", "/etc/card-gateway", "/run/secrets/card-gateway"} {
		if !slices.Contains(mounts, want) {
			t.Errorf("%s is not mounted", want)
		}
	}
	for word := range strings.FieldsSeq(caddyfile) {
		if strings.HasPrefix(word, "/run/secrets/") && !strings.HasPrefix(word, "/run/secrets/card-gateway/") {
			t.Errorf("the Caddyfile names %s, which is not mounted", word)
		}
	}
	rights := gateway.SecurityContext
	if !*rights.ReadOnlyRootFilesystem || *rights.AllowPrivilegeEscalation || !slices.Contains(rights.Capabilities.Drop, "ALL") {
		t.Errorf("the container has the rights %+v", rights)
	}
	if user := b.gateways.Spec.Template.Spec.SecurityContext; !*user.RunAsNonRoot || *user.RunAsUser != 65532 || *user.FSGroup != 65532 {
		t.Errorf("the pod runs as %+v; the image's user is %s", user, imageConfig.User)
	}
}
