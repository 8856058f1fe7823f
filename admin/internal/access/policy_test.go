package access

import (
	"net/netip"
	"slices"
	"strings"
	"testing"

	"github.com/holdfast-dev/holdfast/internal/test/accesstest"
)

// TestPolicyMistakes has what a configuration file cannot have either.
func TestPolicyMistakes(t *testing.T) {
	secret := strings.Repeat("x", 32)
	for want, change := range map[string]func(*Policy){
		"is everybody": func(p *Policy) {
			p.Proxy.Networks = append(p.Proxy.Networks, netip.MustParsePrefix("0.0.0.0/0"))
		},
		"header of users is":         func(p *Policy) { p.Proxy.UserHeader = "Authorization" },
		"need the header that names": func(p *Policy) { p.Proxy.UserHeader = "" },
		"secret is": func(p *Policy) {
			p.Proxy.Secret, p.Proxy.SecretHeader = secret, strings.ToLower(p.Proxy.UserHeader)
		},
		"printable ASCII": func(p *Policy) {
			p.Proxy.Secret, p.Proxy.SecretHeader = secret+"\n", "X-Proxy-Secret"
		},
		"at least": func(p *Policy) {
			p.Proxy.Secret, p.Proxy.SecretHeader = secret[1:], "X-Proxy-Secret"
		},
		"hash of another": func(p *Policy) {
			p.Tokens = append(slices.Clone(p.Tokens), Token{Name: "again", Role: Viewer,
				Hash: strings.ToUpper(accesstest.Sum(accesstest.DeployToken))})
		},
	} {
		policy := testPolicy(t)
		change(&policy)
		var found []string
		policy.Check(func(format string, _ ...any) { found = append(found, format) })
		if len(found) != 1 || !strings.Contains(found[0], want) {
			t.Errorf("%s: %q", want, found)
		}
	}
}
