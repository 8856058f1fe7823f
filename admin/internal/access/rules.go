package access

import "fmt"

// rules are a Policy in use. They are immutable.
type rules struct {
	hosts           []string
	proxy           *Proxy
	users           int
	accounts        *accounts
	passwordChecker *passwordChecker
}

// newRules expects a policy that Policy.Check accepted.
func newRules(p Policy, t *throttle) (*rules, error) {
	accounts, err := newAccounts(p, t)
	if err != nil {
		return nil, fmt.Errorf("admin users: %w", err)
	}
	return &rules{
		hosts: p.Hosts, proxy: p.Proxy, users: len(p.Users), accounts: accounts,
		passwordChecker: newPasswordChecker(accounts.users, t),
	}, nil
}
