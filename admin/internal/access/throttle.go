package access

import (
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

// The limits of failed sign-ins. At a limit, sign-ins are slowed and not refused, so that guessing
// cannot lock a user out. The limit of a user slows guessing from many addresses. The limit of a
// client allows for offices that share an address. A known browser has a limit of its own, which
// nobody else can reach.
const (
	attemptsWindow     = 15 * time.Minute
	slowInterval       = 10 * time.Second // between attempts at a limit, on each replica
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

// limit is the number of failures from which on the attempts with a key are slowed.
type limit struct {
	key      string
	failures int
}

// attempt is a sign-in with a password.
type attempt struct {
	name    string
	client  netip.Addr
	browser string // the id of a browser that is known for this name, or ""
}

// limits returns the limits that count the attempt.
func (a attempt) limits() []limit {
	if a.browser != "" {
		return []limit{{"browser:" + hashOf(a.name+"\x00"+a.browser), maxUserFailures}}
	}
	return []limit{{userKey(a.name), maxUserFailures},
		{"client:" + clientNetwork(a.client).String(), maxClientFailures}}
}

// keys returns the keys of the limits.
func (a attempt) keys() []string {
	var keys []string
	for _, l := range a.limits() {
		keys = append(keys, l.key)
	}
	return keys
}

func userKey(name string) string { return "user:" + hashOf(name) }

// hashOf keeps names out of keys, because people type passwords into the wrong field.
func hashOf(text string) string {
	sum := sha256.Sum256([]byte(text))
	return hex.EncodeToString(sum[:16])
}

// throttle limits guessing. It counts in this process and, if there is one, in the store. The
// higher count applies, so each replica enforces its own limit while the store is down.
type throttle struct {
	own     *attemptCounts
	tokens  *attemptCounts        // apart, so that many wrong tokens displace no sign-ins
	shared  storage.LoginAttempts // nil: each replica counts its own
	log     zerolog.Logger
	silent  atomic.Bool // an error of the store was logged
	lastAsk sharedAsk
}

// clientNetwork returns the address that limits of clients count: the network of an IPv6 client,
// because it can choose among the addresses, otherwise the address itself.
func clientNetwork(client netip.Addr) netip.Addr {
	if client.Is6() {
		return netip.PrefixFrom(client, 64).Masked().Addr()
	}
	return client
}

// check returns a *throttledError if a limit is reached and another attempt was allowed within
// slowInterval. It asks the store only if the counts of this process allow the attempt, and
// remembers what the store counts. An attempt that it allows must be made.
func (t *throttle) check(ctx context.Context, a attempt) error {
	if err := t.checkOwn(a); err != nil {
		return err
	}
	t.own.raise(a.keys(), t.sharedCounts(ctx, a.keys()))
	if left := t.own.take(a.limits()); left > 0 {
		return &throttledError{left}
	}
	return nil
}

// checkOwn is check by the counts of this process. It allows no attempt.
func (t *throttle) checkOwn(a attempt) error {
	if left := t.own.wait(a.limits()); left > 0 {
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
func (t *throttle) failed(ctx context.Context, a attempt) error {
	keys := a.keys()
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
