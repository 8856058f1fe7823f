package admin

import (
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/holdfast-dev/holdfast/admin/page"
	"github.com/holdfast-dev/holdfast/configs"
)

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
	want := Options{
		Listen: ":8080", Hosts: []string{"scheduler.example.com"},
		Certificate: &Certificate{CertFile: "a.crt", KeyFile: "a.key"},
		Users:       []User{{Name: "anna", Role: Operator, PasswordHash: hash}},
		Tokens:      []Token{{Name: "ci", Role: Viewer, Hash: sum}},
		Proxy: &Proxy{Networks: config.Admin.TrustedProxy.Networks,
			UserHeader: "X-User", Role: Viewer, Operators: []string{"olga"},
			SecretHeader: "X-Secret", Secret: sum[4:] + "abcd"},
		CookieKeys: [][]byte{[]byte(sum), []byte(sum[2:] + "x")},
	}
	got := optionsFor(page.Access{Config: config.Admin})
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

// otherOption is an option of another package.
type otherOption struct{}

func (otherOption) Mount(page.Access, []page.Option) (page.Mounted, error) { return nil, nil }

// TestMountRefusesOtherOptions checks that a page refuses options that it does not know.
func TestMountRefusesOtherOptions(t *testing.T) {
	for name, all := range map[string][]page.Option{
		"nil": {At("/"), nil}, "a nil function": {At("/"), Option(nil)},
		"another package": {At("/"), otherOption{}},
	} {
		if _, err := At("/").Mount(page.Access{}, all); !errors.Is(err, ErrOptions) ||
			!strings.Contains(err.Error(), "expected an option of package admin") {
			t.Errorf("%s: got %v, want ErrOptions", name, err)
		}
	}
}
