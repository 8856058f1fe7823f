package configs

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/holdfast-dev/holdfast/internal/test/servertest"
)

// The configuration reads secrets from files beside it.
func TestMemcachedWithTLSAndPassword(t *testing.T) {
	authority := servertest.NewAuthority(t)
	certificate, key := authority.Issue(t, "client")
	_, strange := authority.Issue(t, "other")
	folder := t.TempDir()
	for name, from := range map[string]string{"ca.pem": authority.File, "client.pem": certificate,
		"client.key": key, "other.key": strange} {
		text, err := os.ReadFile(from)
		if err == nil {
			err = os.WriteFile(filepath.Join(folder, name), text, 0o600)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(filepath.Join(folder, "password"), []byte("hunter2\n"),
		0o600); err != nil {
		t.Fatal(err)
	}
	const text = pg + `
locking:
  memcached:
    servers: ["cache:11211"]
    username: ${NAME}
    password_file: password
    tls: {ca_file: ca.pem, cert_file: client.pem, key_file: client.key, server_name: cache.internal}
`
	named := WithEnv(func(string) (string, bool) { return "holdfast", true })
	c, err := Parse(filepath.Join(folder, "c.yaml"), []byte(text), named)
	if err != nil {
		t.Fatal(err)
	}
	m := c.Locking.Memcached
	if m.Username != "holdfast" || m.Password.Reveal() != "hunter2" {
		t.Errorf("got %q and %q", m.Username, m.Password.Reveal())
	}
	config, err := m.TLS.Config()
	if err != nil || config.ServerName != "cache.internal" || len(config.Certificates) != 1 ||
		!config.RootCAs.Equal(authority.Pool) {
		t.Errorf("got %+v, %v", config, err)
	}
	if shown := c.String(); strings.Contains(shown, "hunter2") || strings.Contains(shown, "BEGIN") {
		t.Errorf("shown as %s", shown)
	}
	_, err = Parse(filepath.Join(folder, "c.yaml"),
		[]byte(strings.Replace(text, "client.key", "other.key", 1)), named)
	if err == nil || !strings.Contains(err.Error(),
		"locking.memcached.tls.cert_file: found a certificate and a key that are no pair") {
		t.Errorf("a strange key: %v", err)
	}
}

// Without keys, TLS uses the system's certificate authorities.
func TestTLSWithoutKeys(t *testing.T) {
	c := mustParse(t, pg+`locking: {memcached: {servers: ["cache:11211"], tls: {}}}`)
	if config, err := c.Locking.Memcached.TLS.Config(); err != nil || config.RootCAs != nil ||
		len(config.Certificates) != 0 {
		t.Errorf("got %+v, %v", config, err)
	}
	if c := mustParse(t,
		pg+`locking: {memcached: {servers: ["cache:11211"]}}`); c.Locking.Memcached.TLS != nil {
		t.Error("TLS without a section: got a configuration, want none")
	}
}
