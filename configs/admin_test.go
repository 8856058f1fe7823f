package configs

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"math/big"
	"net/netip"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
)

// writePair writes a certificate and a key in PEM into folder.
func writePair(t *testing.T, folder, name string) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), DNSNames: []string{"localhost"}}
	certificate, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	private, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	for suffix, block := range map[string]*pem.Block{
		".crt": {Type: "CERTIFICATE", Bytes: certificate},
		".key": {Type: "PRIVATE KEY", Bytes: private},
	} {
		if err := os.WriteFile(filepath.Join(folder, name+suffix), pem.EncodeToMemory(block),
			0o600); err != nil {
			t.Fatal(err)
		}
	}
}

func TestServerTLSFiles(t *testing.T) {
	folder := t.TempDir()
	writePair(t, folder, "a")
	writePair(t, folder, "b")
	read := func(cert, key string) (*Config, error) {
		return Parse(filepath.Join(folder, "c.yaml"),
			[]byte("admin: {tls: {cert_file: "+cert+", key_file: "+key+"}}"))
	}
	c, err := read("a.crt", filepath.Join(folder, "a.key"))
	if err != nil {
		t.Fatal(err)
	}
	if want := (ServerTLS{filepath.Join(folder, "a.crt"),
		filepath.Join(folder, "a.key")}); *c.Admin.TLS != want {
		t.Errorf("got %+v, want both in the configuration's folder", *c.Admin.TLS)
	}
	for _, wrong := range [][2]string{{"a.crt", "b.key"}, {"a.key", "a.crt"}, {"c.yaml", "a.key"}} {
		if err := os.WriteFile(filepath.Join(folder, "c.yaml"), []byte("x: hunter2"),
			0o600); err != nil {
			t.Fatal(err)
		}
		_, err := read(wrong[0], wrong[1])
		if err == nil || !strings.Contains(err.Error(),
			"c.yaml:1:14: admin.tls: found a certificate and a key that can't be used together (") {
			t.Errorf("%v: got %v", wrong, err)
		}
		if err != nil && strings.Contains(err.Error(), "hunter2") {
			t.Errorf("the message shows the file: %v", err)
		}
	}
}

// TestProxyCertificateFile checks that each load reads the CA certificates again, so that a reload
// applies them.
func TestProxyCertificateFile(t *testing.T) {
	folder := t.TempDir()
	writePair(t, folder, "page")
	writePair(t, folder, "ca")
	read := func() *Config {
		t.Helper()
		c, err := Parse(filepath.Join(folder, "c.yaml"),
			[]byte("admin: {tls: {cert_file: page.crt, key_file: page.key}, trusted_proxy: "+
				"{networks: [10.1.0.0/16], client_ca_file: ca.crt, client_names: [proxy]}}"))
		if err != nil {
			t.Fatal(err)
		}
		return c
	}
	before := read()
	writePair(t, folder, "ca")
	after := read()
	if got := before.Differences(after); !slices.Equal(got,
		[]string{"admin.trusted_proxy.client_ca"}) {
		t.Errorf("the differences are %q", got)
	}
	a, b := before.Admin.TrustedProxy, after.Admin.TrustedProxy
	if a.ClientCAs().Equal(b.ClientCAs()) ||
		!b.ClientCAs().Equal(read().Admin.TrustedProxy.ClientCAs()) {
		t.Error("the authorities are not those of the file")
	}
	if (&TrustedProxy{}).ClientCAs() != nil {
		t.Error("a proxy without client_ca has authorities")
	}
	if !(&TrustedProxy{ClientCA: NewSecret("x")}).ClientCAs().Equal(x509.NewCertPool()) {
		t.Error("a text without certificates is no empty pool")
	}
	for keys, want := range map[string]string{
		"tls: {cert_file: page.crt, key_file: page.key}, " +
			"trusted_proxy: {networks: [10.1.0.0/16], client_ca_file: ca.crt, client_names: ['']}": `1:137: admin.trusted_proxy.` +
			`client_names[0]: found "", expected a common name or a DNS name of the proxy's ` +
			`certificate`,
		"trusted_proxy: {networks: [10.1.0.0/16], client_ca_file: ca.crt}": "1:50: " +
			"admin.trusted_proxy.client_ca_file: found client certificates without admin.tls, " +
			"expected TLS at the replica",
	} {
		_, err := Parse(filepath.Join(folder, "c.yaml"), []byte("admin: {"+keys+"}"))
		if err == nil || !strings.HasSuffix(err.Error(), want) {
			t.Errorf("%s: got %v", keys, err)
		}
	}
}

func TestParseAdmin(t *testing.T) {
	a := mustParse(t, full, WithEnv(secretive)).Admin
	if a.Users[0].Role != Viewer || a.Tokens[0].Role != Viewer {
		t.Errorf("roles are %s and %s, want the one that breaks nothing", a.Users[0].Role,
			a.Tokens[0].Role)
	}
	want := &TrustedProxy{
		Networks: []netip.Prefix{netip.MustParsePrefix("10.1.0.0/16"),
			netip.MustParsePrefix("fd00::1/128")}, UserHeader: "X-Forwarded-User",
		Role: Viewer, Operators: []string{"anna"}, SecretHeader: "X-Proxy-Secret",
		Secret: NewSecret("hunter2hunter2hunter2hunter2hunter2"),
	}
	if !reflect.DeepEqual(a.TrustedProxy, want) {
		t.Errorf("trusted_proxy: got %+v", a.TrustedProxy)
	}
	if a.CookieKeys[0].Key.Reveal() != "hunter2hunter2hunter2hunter2hunter2" ||
		a.Tokens[0].TokenHash.Reveal() != hunted {
		t.Errorf("got the key %q and the hash %q, want those of the file",
			a.CookieKeys[0].Key.Reveal(), a.Tokens[0].TokenHash.Reveal())
	}
	a = mustParse(t, "admin: {hosts: [Scheduler.Example.com, \"::1\", a_b], users: [{name: a, "+
		"role: operator, password_hash: '"+hash+"'}]}").Admin
	if !reflect.DeepEqual(a.Hosts, []string{"scheduler.example.com", "::1", "a_b"}) ||
		a.Users[0].Role != Operator {
		t.Errorf("got %+v", a)
	}
	for _, keys := range []string{
		"tokens: [{name: a, token_hash: '" + hunted + "'}]",
		"trusted_proxy: {networks: [10.0.0.1], user_header: X-User}",
	} {
		mustParse(t, "admin: {listen: ':80', "+keys+"}") // one kind of sign-in is configured
	}
}
