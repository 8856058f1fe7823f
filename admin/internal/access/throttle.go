package access

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"net/netip"
	"sync/atomic"
	"time"

	"github.com/rs/zerolog"

	"github.com/holdfast-dev/holdfast/jobs/storage"
)

// The limits of failed sign-ins. The limit of a user stops guessing from many addresses, but is too
// high for a few attempts to lock the user out. The limit of a client allows for offices that share
// an address.
const (
	attemptsWindow     = 15 * time.Minute
	maxUserFailures    = 20
	maxClientFailures  = 40
	maxClientTokens    = 40 // different wrong tokens of a client
	sharedCountTimeout = time.Second
)

// throttledError reports too many failed sign-ins.
type throttledError struct{ left time.Duration }

func (e *throttledError) Error() string {
	return fmt.Sprintf("too many attempts failed, the next is allowed in %s",
		e.left.Round(time.Second))
}

// throttle limits guessing. It counts in this process and, if there is one, in the store. The
// higher count applies, so each replica enforces its own limit while the store is down.
type throttle struct {
	own    *attemptCounts
	tokens *attemptCounts   // apart, so that many wrong tokens displace no sign-ins
	shared storage.Attempts // nil: each replica counts its own
	log    zerolog.Logger
	silent atomic.Bool // an error of the store was logged
}

// attemptKeys returns the keys of a sign-in. Names are hashed, because people type passwords into
// the wrong field.
func attemptKeys(name string, client netip.Addr) []string {
	sum := sha256.Sum256([]byte(name))
	return []string{"user:" + hex.EncodeToString(sum[:16]),
		"client:" + clientNetwork(client).String()}
}

// clientNetwork returns the address that limits of clients count: the network of an IPv6 client,
// because it can choose among the addresses, otherwise the address itself.
func clientNetwork(client netip.Addr) netip.Addr {
	if client.Is6() {
		return netip.PrefixFrom(client, 64).Masked().Addr()
	}
	return client
}

// check returns a *throttledError if a limit is reached. It asks the store only if no limit is
// reached by the counts of this process, and remembers what the store counts.
func (t *throttle) check(ctx context.Context, name string, client netip.Addr) error {
	keys := attemptKeys(name, client)
	if err := t.checkOwn(ctx, keys); err != nil {
		return err
	}
	t.own.raise(keys, t.sharedCounts(ctx, keys))
	return t.checkOwn(ctx, keys)
}

// checkOwn is check by the counts of this process.
func (t *throttle) checkOwn(ctx context.Context, keys []string) error {
	counts, err := t.own.CountFailures(ctx, keys...)
	if err != nil {
		return err
	}
	limits := []int{maxUserFailures, maxClientFailures}
	var left time.Duration
	for i, failures := range counts {
		if failures.Count >= limits[i] {
			left = max(left, cmp.Or(failures.Left, time.Second))
		}
	}
	if left > 0 {
		return &throttledError{left}
	}
	return nil
}

// checkToken returns a *throttledError if the client has sent too many wrong tokens.
func (t *throttle) checkToken(client netip.Addr) error {
	counts, err := t.tokens.CountFailures(context.Background(), tokenKey(client))
	if err != nil {
		return err
	}
	if counts[0].Count >= maxClientTokens {
		return &throttledError{counts[0].Left}
	}
	return nil
}

// tokenFailed counts a wrong token of a client. It counts each token once, so that a client that
// repeats an old token does not lock out others at its address. Tokens are counted by this process
// only.
func (t *throttle) tokenFailed(client netip.Addr, sum []byte) error {
	key := tokenKey(client)
	same := key + " " + hex.EncodeToString(sum[:16])
	ctx := context.Background()
	counts, err := t.tokens.CountFailures(ctx, same)
	if err != nil || counts[0].Count > 0 {
		return err
	}
	return t.tokens.AddFailure(ctx, attemptsWindow, key, same)
}

func tokenKey(client netip.Addr) string { return "token:" + clientNetwork(client).String() }

func (t *throttle) sharedCounts(ctx context.Context, keys []string) []storage.Failures {
	if t.shared == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, sharedCountTimeout)
	defer cancel()
	counts, err := t.shared.CountFailures(ctx, keys...)
	t.heard(err)
	if err != nil || len(counts) != len(keys) {
		return nil
	}
	return counts
}

// failed counts a failed sign-in, even if the client has disconnected.
func (t *throttle) failed(ctx context.Context, name string, client netip.Addr) error {
	keys := attemptKeys(name, client)
	if t.shared != nil {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), sharedCountTimeout)
		defer cancel()
		t.heard(t.shared.AddFailure(ctx, attemptsWindow, keys...))
	}
	return t.own.AddFailure(ctx, attemptsWindow, keys...)
}

func (t *throttle) heard(err error) {
	switch {
	case err == nil:
		t.silent.Store(false)
	case !t.silent.Swap(true):
		t.log.Warn().Err(err).Msg("failed sign-ins can't be counted in the store: this replica " +
			"counts for itself")
	}
}
