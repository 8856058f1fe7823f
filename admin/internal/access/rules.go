package access

import (
	"fmt"

	"github.com/holdfast-dev/holdfast/admin/internal/mount"
	"github.com/holdfast-dev/holdfast/jobs/permission"
)

// rules are a Policy in use. They are immutable.
type rules struct {
	hosts           []string
	proxy           *Proxy
	users           int
	accounts        *accounts
	passwordChecker *passwordChecker
	authorizer      permission.Authorizer
	signInURL       string // of the program; "": none
}

// newRules expects a policy that Policy.Check accepted.
func newRules(p Policy, prefix mount.Prefix, t *throttle, g *generations) (*rules, error) {
	accounts, err := newAccounts(p, prefix, t, g)
	if err != nil {
		return nil, fmt.Errorf("admin users: %w", err)
	}
	return &rules{
		hosts: p.Hosts, proxy: p.Proxy, users: len(p.Users), accounts: accounts,
		passwordChecker: newPasswordChecker(accounts.users, t),
		authorizer:      p.authorizer(),
		signInURL:       p.SignInURL,
	}, nil
}

// close waits for the goroutine of the provider.
func (r *rules) close() {
	if r.accounts.oidc != nil {
		r.accounts.oidc.provider.Close()
	}
}
