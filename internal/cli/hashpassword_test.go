package cli

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/holdfast-dev/holdfast/admin"
	"github.com/holdfast-dev/holdfast/admin/password"
	"github.com/holdfast-dev/holdfast/configs"
	"github.com/holdfast-dev/holdfast/internal/app"
)

// hashPassword runs the command with a line on standard input.
func hashPassword(t *testing.T, typed string, args ...string) (string, error) {
	t.Helper()
	var out bytes.Buffer
	c := &commandLine{out: &out, format: "json"}
	cmd := c.hashPasswordCommand()
	cmd.SetIn(strings.NewReader(typed))
	cmd.SetArgs(args)
	cmd.SilenceErrors, cmd.SilenceUsage = true, true
	err := cmd.Execute()
	return out.String(), err
}

func TestConfigAcceptsPasswordHash(t *testing.T) {
	out, err := hashPassword(t, "correct horse\r\n")
	if err != nil {
		t.Fatal(err)
	}
	var result struct {
		Hash string `json:"password_hash"`
	}
	if err := json.Unmarshal([]byte(out), &result); err != nil {
		t.Fatal(err)
	}
	hash, err := password.Parse(result.Hash)
	if err != nil || !hash.Matches("correct horse") ||
		!strings.HasPrefix(result.Hash, "$argon2id$") {
		t.Errorf("got %s (%v), want an argon2id hash of the password", out, err)
	}
	if _, err := configs.Parse("c.yaml",
		[]byte("admin: {users: [{name: a, password_hash: '"+result.Hash+"'}]}")); err != nil {
		t.Error(err)
	}
	for _, typed := range []string{"", "\n", strings.Repeat("x", password.Longest+1) + "\n"} {
		if out, err := hashPassword(t, typed); err == nil {
			t.Errorf("hash of a password with %d bytes: %s, want an error", len(typed), out)
		}
	}
}

func TestConfigAcceptsTokenHash(t *testing.T) {
	seen := make(map[string]bool)
	for range 2 {
		out, err := hashPassword(t, "", "--token")
		if err != nil {
			t.Fatal(err)
		}
		var result struct {
			Token string
			Hash  string `json:"token_hash"`
		}
		if err := json.Unmarshal([]byte(out), &result); err != nil {
			t.Fatal(err)
		}
		sum := sha256.Sum256([]byte(result.Token))
		if result.Hash != hex.EncodeToString(sum[:]) || len(result.Token) < 26 ||
			seen[result.Token] {
			t.Errorf("got %s", out)
		}
		seen[result.Token] = true
		if _, err := configs.Parse("c.yaml",
			[]byte("admin: {tokens: [{name: a, token_hash: "+result.Hash+"}]}")); err != nil {
			t.Error(err)
		}
	}
}

// TestAccessOptions checks that all settings for access in the file reach the admin page.
func TestAccessOptions(t *testing.T) {
	sum := strings.Repeat("6f", 32)
	const hash = "$2y$05$bvIG6Nmid91Mu9RcmmWZfO5HJIMCT8riNW0hEp8f6/FuA2/mHZFpe"
	config, err := configs.Parse("c.yaml", []byte(`
admin:
  listen: ":8080"
  hosts: [scheduler.example.com]
  users: [{name: anna, role: operator, password_hash: '`+hash+`'}]
  tokens: [{name: ci, token_hash: `+sum+`}]
  trusted_proxy: {networks: [10.1.0.0/16], user_header: X-User, operators: [olga],
    secret_header: X-Secret, secret: '`+sum[4:]+`abcd'}
  cookie_keys: [{key: `+sum+`}, {key: `+sum[2:]+`x}]
`))
	if err != nil {
		t.Fatal(err)
	}
	config.Admin.TLS = &configs.ServerTLS{CertFile: "a.crt", KeyFile: "a.key"}
	want := admin.Options{
		Listen: ":8080", Hosts: []string{"scheduler.example.com"},
		Certificate: &admin.Certificate{CertFile: "a.crt", KeyFile: "a.key"},
		Users:       []admin.User{{Name: "anna", Role: admin.Operator, PasswordHash: hash}},
		Tokens:      []admin.Token{{Name: "ci", Role: admin.Viewer, Hash: sum}},
		Proxy: &admin.Proxy{Networks: config.Admin.TrustedProxy.Networks,
			UserHeader: "X-User", Role: admin.Viewer, Operators: []string{"olga"},
			SecretHeader: "X-Secret", Secret: sum[4:] + "abcd"},
		CookieKeys: [][]byte{[]byte(sum), []byte(sum[2:] + "x")},
	}
	got := app.AccessOptions(config.Admin)
	if len(got.Proxy.Networks) != 1 || got.Proxy.Networks[0].String() != "10.1.0.0/16" {
		t.Errorf("networks are %v", got.Proxy.Networks)
	}
	got.Proxy.Networks, want.Proxy.Networks = nil, nil
	if diff := cmp.Diff(want.Users, got.Users) + cmp.Diff(want.Tokens, got.Tokens) +
		cmp.Diff(want.Proxy, got.Proxy) + cmp.Diff(want.CookieKeys, got.CookieKeys) +
		cmp.Diff(want.Certificate, got.Certificate) + cmp.Diff(want.Hosts, got.Hosts) +
		cmp.Diff(want.Listen, got.Listen); diff != "" {
		t.Errorf("options differ (-want +got):\n%s", diff)
	}
}
