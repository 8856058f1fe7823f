package admin

import (
	"context"
	"errors"
	"net/netip"

	"github.com/holdfast-dev/holdfast/admin/password"
)

// maxChecks bounds the cores, and the memory, that guessing can take from the
// jobs.
const maxChecks = 2

var errWrongPassword = errors.New("wrong user or password")

// passwordChecker checks passwords. Its methods may be called concurrently.
type passwordChecker struct {
	users    map[string]account
	decoy    password.Hash // the costliest: names that don't exist take as long
	throttle *throttle
	checks   chan struct{} // one place for each check under way
}

func newPasswordChecker(users map[string]account, t *throttle) *passwordChecker {
	d := &passwordChecker{users: users, throttle: t, checks: make(chan struct{}, maxChecks)}
	most := -1
	for _, user := range users {
		if work := user.hash.Work(); work > most {
			most, d.decoy = work, user.hash
		}
	}
	return d
}

// check returns errWrongPassword, a *throttledError, or ctx's error when it
// ended before the password's turn came. The limits are looked at in turn, so
// that many guesses at once can't all pass them.
func (d *passwordChecker) check(ctx context.Context, client netip.Addr, name,
	password string) error {
	select {
	case d.checks <- struct{}{}:
		defer func() { <-d.checks }()
	case <-ctx.Done():
		return ctx.Err()
	}
	if err := d.throttle.check(ctx, name, client); err != nil {
		return err
	}
	user, known := d.users[name]
	hash := user.hash
	if !known {
		hash = d.decoy
	}
	if matches := hash.Matches(password); matches && known {
		return nil
	}
	return errors.Join(errWrongPassword, d.throttle.failed(ctx, name, client))
}
