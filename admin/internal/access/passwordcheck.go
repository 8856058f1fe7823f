package access

import (
	"context"
	"errors"

	"github.com/holdfast-dev/holdfast/admin/password"
)

var errWrongPassword = errors.New("wrong user or password")

// passwordChecker checks passwords. It is safe for concurrent use.
type passwordChecker struct {
	users map[string]account
	// One hash of each kind and cost. Each sign-in computes one hash of each, so that its duration
	// does not tell whether the name is a user's, and which hash that user has.
	decoys   map[string]password.Hash
	throttle *throttle
	turns    turns
}

func newPasswordChecker(users map[string]account, t *throttle) *passwordChecker {
	d := &passwordChecker{users: users, decoys: make(map[string]password.Hash), throttle: t,
		turns: newTurns()}
	for _, user := range users {
		d.decoys[user.hash.Cost()] = user.hash
	}
	return d
}

// check returns errWrongPassword, a *throttledError, errManyChecks if the queue is full, or the
// error of ctx if it ended before the check began. It reads the limits again after it has its turn,
// so that many concurrent guesses cannot pass them together.
func (d *passwordChecker) check(ctx context.Context, a attempt, password string) error {
	if err := d.throttle.checkOwn(a); err != nil {
		return err // without a place in the queue
	}
	leave, err := d.turns.enter(ctx)
	if err != nil {
		return err
	}
	defer leave()
	if err := d.throttle.check(ctx, a); err != nil {
		return err
	}
	if d.matches(a.name, password) {
		return nil
	}
	return errors.Join(errWrongPassword, d.throttle.failed(ctx, a))
}

// matches reports whether the password is the user's. Its duration does not depend on the name.
func (d *passwordChecker) matches(name, password string) bool {
	hashes, own := d.hashesFor(name)
	matches := false
	for i, hash := range hashes {
		if hash.Matches(password) && i == own {
			matches = true
		}
	}
	return matches
}

// hashesFor returns what a sign-in computes, one hash of each cost, and the index of the user's
// own, or -1 for an unknown name.
func (d *passwordChecker) hashesFor(name string) (hashes []password.Hash, own int) {
	user, known := d.users[name]
	own = -1
	for cost, hash := range d.decoys {
		if known && user.hash.Cost() == cost {
			hash, own = user.hash, len(hashes)
		}
		hashes = append(hashes, hash)
	}
	return hashes, own
}
