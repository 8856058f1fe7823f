package access

import (
	"context"
	"errors"
	"net/netip"

	"github.com/holdfast-dev/holdfast/admin/password"
)

const (
	// maxChecks bounds the CPU time and memory that password guessing can take from jobs.
	maxChecks = 2
	// maxWaitingChecks bounds the connections that wait for a check.
	maxWaitingChecks = 8
)

var (
	errWrongPassword = errors.New("wrong user or password")
	errManyChecks    = errors.New("too many passwords are being checked")
)

// passwordChecker checks passwords. It is safe for concurrent use.
type passwordChecker struct {
	users map[string]account
	// the most expensive hash; unknown names are checked against it, so that they take as long
	decoy    password.Hash
	throttle *throttle
	checks   chan struct{} // one element for each active check
	admitted chan struct{} // one element for each check that is active or waits
}

func newPasswordChecker(users map[string]account, t *throttle) *passwordChecker {
	d := &passwordChecker{users: users, throttle: t, checks: make(chan struct{}, maxChecks),
		admitted: make(chan struct{}, maxChecks+maxWaitingChecks)}
	most := -1
	for _, user := range users {
		if work := user.hash.Work(); work > most {
			most, d.decoy = work, user.hash
		}
	}
	return d
}

// check returns errWrongPassword, a *throttledError, errManyChecks if the queue is full, or the
// error of ctx if it ended before the check began. It reads the limits after it has its turn, so that many concurrent guesses cannot
// pass them together.
func (d *passwordChecker) check(ctx context.Context, client netip.Addr, name,
	password string) error {
	select {
	case d.admitted <- struct{}{}:
		defer func() { <-d.admitted }()
	default:
		return errManyChecks
	}
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
