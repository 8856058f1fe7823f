// Package charttest has the tests of the Helm chart. It is a module of its own, because Helm and
// the types of Kubernetes have many dependencies that users of Holdfast must not get.
package charttest

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"helm.sh/helm/v3/pkg/chart/loader"
	"helm.sh/helm/v3/pkg/chartutil"
	"helm.sh/helm/v3/pkg/engine"
	"helm.sh/helm/v3/pkg/lint"
	"helm.sh/helm/v3/pkg/lint/support"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	policyv1 "k8s.io/api/policy/v1"
	"sigs.k8s.io/yaml"
)

const chart = "../holdfast"

// parse returns values of the chart.
func parse(t *testing.T, text string) map[string]any {
	t.Helper()
	values := map[string]any{}
	if err := yaml.Unmarshal([]byte(text), &values); err != nil {
		t.Fatal(err)
	}
	return values
}

// render returns the manifests of a release by file name.
func render(t *testing.T, values string) map[string]string {
	t.Helper()
	files, err := renderAll(t, values)
	if err != nil {
		t.Fatal(err)
	}
	manifests := map[string]string{}
	for path, text := range files {
		if strings.TrimSpace(text) != "" {
			manifests[filepath.Base(path)] = text
		}
	}
	return manifests
}

// renderAll returns the rendered templates by their paths, or the error of a template.
func renderAll(t *testing.T, values string) (map[string]string, error) {
	t.Helper()
	c, err := loader.LoadDir(chart)
	if err != nil {
		t.Fatal(err)
	}
	given, err := chartutil.ToRenderValues(c, parse(t, values), chartutil.ReleaseOptions{
		Name: "test", Namespace: "jobs", IsInstall: true}, nil)
	if err != nil {
		t.Fatal(err)
	}
	return engine.Render(c, given)
}

// decode reads a manifest. A key that the type does not have is an error.
func decode[T any](t *testing.T, manifests map[string]string, file string) (object T) {
	t.Helper()
	text, rendered := manifests[file]
	if !rendered {
		t.Fatalf("%s is not rendered", file)
	}
	if err := yaml.UnmarshalStrict([]byte(text), &object); err != nil {
		t.Fatalf("%s: %v\n%s", file, err, text)
	}
	return object
}

// everything turns on what is off by default.
const everything = `
imagePullSecrets: [{name: registry}]
priorityClassName: high
env: [{name: REGION, value: north}]
ingress: {enabled: true, className: nginx, annotations: {a: b}, tlsSecret: tls}
serviceMonitor: {enabled: true, labels: {release: prometheus}, tlsConfig: {serverName: a}}
nodeSelector: {disk: ssd}
tolerations: [{key: jobs, operator: Exists}]
affinity: {podAntiAffinity: {}}
podAnnotations: {a: b}
podLabels: {team: data}
volumes: [{name: certificates, secret: {secretName: certificates}}]
volumeMounts: [{name: certificates, mountPath: /etc/certificates}]
shutdownGraceSeconds: 60
`

func TestLint(t *testing.T) {
	for _, values := range []string{"", everything} {
		for _, m := range lint.All(chart, parse(t, values), "jobs", true).Messages {
			if m.Severity > support.InfoSev {
				t.Errorf("%s", m)
			}
		}
	}
}

func TestManifests(t *testing.T) {
	for _, values := range []string{"", everything} {
		manifests := render(t, values)
		d := decode[appsv1.Deployment](t, manifests, "deployment.yaml")
		decode[corev1.ConfigMap](t, manifests, "configmap.yaml")
		account := decode[corev1.ServiceAccount](t, manifests, "serviceaccount.yaml")
		service := decode[corev1.Service](t, manifests, "service.yaml")
		budget := decode[policyv1.PodDisruptionBudget](t, manifests, "poddisruptionbudget.yaml")
		if d.APIVersion != appsv1.SchemeGroupVersion.String() ||
			budget.APIVersion != policyv1.SchemeGroupVersion.String() {
			t.Errorf("got versions %s and %s of the API", d.APIVersion, budget.APIVersion)
		}
		pod := d.Spec.Template
		for _, selector := range []map[string]string{d.Spec.Selector.MatchLabels,
			service.Spec.Selector, budget.Spec.Selector.MatchLabels,
			pod.Spec.TopologySpreadConstraints[0].LabelSelector.MatchLabels} {
			for key, value := range selector {
				if pod.Labels[key] != value {
					t.Errorf("the pods do not have the label %s=%s of a selector", key, value)
				}
			}
		}
		grace := int64(50) // 5 s, 30 s and 15 s
		if values == everything {
			grace = 80
		}
		c := pod.Spec.Containers[0]
		security := c.SecurityContext
		if *pod.Spec.TerminationGracePeriodSeconds != grace ||
			c.Lifecycle.PreStop.Sleep.Seconds != 5 ||
			c.LivenessProbe.HTTPGet.Path != "/healthz" ||
			c.ReadinessProbe.HTTPGet.Path != "/readyz" || c.StartupProbe == nil ||
			c.Ports[0].Name != c.ReadinessProbe.HTTPGet.Port.String() ||
			!*security.ReadOnlyRootFilesystem || *security.AllowPrivilegeEscalation ||
			!*pod.Spec.SecurityContext.RunAsNonRoot || *pod.Spec.AutomountServiceAccountToken ||
			pod.Spec.ServiceAccountName != account.Name ||
			budget.Spec.MaxUnavailable.IntValue() != 1 ||
			d.Spec.Strategy.RollingUpdate.MaxUnavailable.IntValue() != 0 {
			t.Errorf("got\n%s", manifests["deployment.yaml"])
		}
		if _, rendered := manifests["ingress.yaml"]; rendered != (values == everything) {
			t.Errorf("ingress.yaml: got %t", rendered)
		}
	}
	manifests := render(t, everything)
	ingress := decode[networkingv1.Ingress](t, manifests, "ingress.yaml")
	service := decode[corev1.Service](t, manifests, "service.yaml")
	backend := ingress.Spec.Rules[0].HTTP.Paths[0].Backend.Service
	if backend.Name != service.Name || backend.Port.Name != service.Spec.Ports[0].Name {
		t.Errorf("the ingress leads to %s:%s", backend.Name, backend.Port.Name)
	}
	// The type of a ServiceMonitor belongs to the Prometheus operator.
	if monitor := manifests["servicemonitor.yaml"]; !strings.Contains(monitor,
		"port: "+service.Spec.Ports[0].Name) || !strings.Contains(monitor, "release: prometheus") ||
		!strings.Contains(monitor, "honorLabels: true") ||
		!strings.Contains(monitor, "tlsConfig:\n        serverName: a\n") {
		t.Errorf("got %s", monitor)
	}
}

// Probes, Prometheus and the notes use HTTPS if the replicas do.
func TestScheme(t *testing.T) {
	const monitor = "serviceMonitor: {enabled: true}\n"
	const tls = "config: {admin: {tls: {cert_file: /a.crt, key_file: /a.key}}}\n"
	for values, want := range map[string]corev1.URIScheme{
		"": corev1.URISchemeHTTP, tls: corev1.URISchemeHTTPS,
		"config: {admin: {tls: null}}\n": corev1.URISchemeHTTP,
		"config: {admin: null}\n":        corev1.URISchemeHTTP,
		"probes: {scheme: HTTPS}\n":      corev1.URISchemeHTTPS,
		tls + "probes: {scheme: HTTP}\n": corev1.URISchemeHTTP,
	} {
		manifests := render(t, monitor+values)
		d := decode[appsv1.Deployment](t, manifests, "deployment.yaml")
		c := d.Spec.Template.Spec.Containers[0]
		for _, probe := range []*corev1.Probe{c.StartupProbe, c.LivenessProbe, c.ReadinessProbe} {
			if probe.HTTPGet.Scheme != want {
				t.Errorf("%q: %s has the scheme %s, want %s", values, probe.HTTPGet.Path,
					probe.HTTPGet.Scheme, want)
			}
		}
		if text := manifests["servicemonitor.yaml"]; !strings.Contains(text,
			"scheme: "+strings.ToLower(string(want))+"\n") {
			t.Errorf("%q: got %s, want the scheme %s", values, text, want)
		}
		notes := manifests["NOTES.txt"]
		address := strings.ToLower(string(want)) + "://localhost:8080."
		if !strings.Contains(notes, address) ||
			strings.Contains(notes, "plain HTTP") != (want == corev1.URISchemeHTTP) {
			t.Errorf("%q: got the notes %q, want %s", values, notes, address)
		}
	}
}

// Probes and the grace period of a pod depend on these values.
func TestValuesThatConfigMustNotHave(t *testing.T) {
	for values, want := range map[string]string{
		"config: {shutdown_grace: 10m}":             "shutdownGraceSeconds",
		`config: {admin: {listen: "0.0.0.0:9090"}}`: `found "0.0.0.0:9090", expected "0.0.0.0:8080"`,
		"config: {admin: {listen: 8080}}":           `admin.listen: found "8080"`,
	} {
		if _, err := renderAll(t, values); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v, want a refusal with %s", values, err, want)
		}
	}
}

// A configuration that replicas used before may have the value of the chart.
func TestAddressOfTheChartInConfig(t *testing.T) {
	want := render(t, "config: {admin: {metrics: true}}")["configmap.yaml"]
	got := render(t, `config: {admin: {metrics: true, listen: "0.0.0.0:8080"}}`)["configmap.yaml"]
	if !strings.Contains(want, "listen: 0.0.0.0:8080") || got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}

// The replicas accept the configuration, with the files of the Secret.
func TestConfiguration(t *testing.T) {
	root, err := filepath.Abs("../../..")
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	program := filepath.Join(dir, "scheduler")
	build := exec.CommandContext(t.Context(), "go", "build", "-o", program, "./cmd/scheduler")
	build.Dir = root
	if output, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, output)
	}
	hash := exec.CommandContext(t.Context(), program, "hash-password")
	hash.Stdin = strings.NewReader("correct horse battery staple\n")
	operator, err := hash.Output()
	if err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string]string{
		"database-url":       "postgres://holdfast@db/app",
		"cookie-key":         "0123456789abcdef0123456789abcdef",
		"operator":           string(bytes.TrimSpace(operator)),
		"metrics-token-hash": "6ff1ec2d8ff29bd9c4e9bd43f3bb7b2a46e0d1a7d6f2b9ad8c1e2f3a4b5c6d7e",
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for _, values := range []string{"", "config: {jobs: [{name: a, schedule: '@daily', handler: " +
		"sql, params: {statement: SELECT 1}}], workers: 8, database: {max_connections: 30}}\n",
		"config: {database: {url: 'postgres://db/app'}}\n"} {
		rendered := decode[corev1.ConfigMap](t, render(t, values), "configmap.yaml")
		config := rendered.Data["holdfast.yaml"]
		file := filepath.Join(dir, "holdfast.yaml")
		if err := os.WriteFile(file, []byte(strings.ReplaceAll(config, "/run/secrets/holdfast",
			dir)), 0o600); err != nil {
			t.Fatal(err)
		}
		validate := exec.CommandContext(t.Context(), program, "validate", "-c", file)
		validate.Env = append(os.Environ(), "POD_NAME=holdfast-0")
		if output, err := validate.CombinedOutput(); err != nil {
			t.Errorf("%q: %v: %s\n%s", values, err, output, config)
		}
	}
}
