package locks

import (
	"context"
	"fmt"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/holdfast-dev/holdfast/admin/internal/param"
	"github.com/holdfast-dev/holdfast/admin/internal/words"
	"github.com/holdfast-dev/holdfast/jobs"
	"github.com/holdfast-dev/holdfast/jobs/storage"
	"github.com/holdfast-dev/holdfast/locking"
)

// ReleaseView returns the lock with the token. If it is gone, or the token is 0, it returns the
// lock that has been held longest.
func (r *Reader) ReleaseView(ctx context.Context, now time.Time, resource locking.Resource,
	token jobs.Token) (v ReleaseView, err error) {
	v.Resource = resource.String()
	set, err := r.Grants(ctx)
	if err != nil {
		return v, err
	}
	all := slices.Concat(set.Locks, set.Own)
	holders := slices.DeleteFunc(slices.Clone(all), func(l Lock) bool {
		return l.resource != resource
	})
	slices.SortStableFunc(holders, func(a, b Lock) int { return a.Since.Compare(b.Since) })
	if at := slices.IndexFunc(holders, func(l Lock) bool { return l.Token == token }); at > 0 {
		holders[0], holders[at] = holders[at], holders[0]
	}
	if len(holders) > 0 {
		if err := AddUsual(ctx, r, now, holders[:1]); err != nil {
			return v, err
		}
		v.Lock, v.Others = &holders[0], holders[1:]
		v.Moved = token != 0 && v.Lock.Token != token
		v.Held = slices.DeleteFunc(all, func(l Lock) bool {
			return l.Token != v.Lock.Token || l.resource.Kind() == locking.KindJob
		})
	}
	v.Waiting, err = r.WaitingFor(ctx, func(b jobs.Blocker) bool {
		return related(b.Resource, v.Resource)
	})
	if err != nil {
		return v, err
	}
	v.NextUsual, err = UsualOfNext(ctx, r, now, v.Waiting)
	return v, err
}

// UsualOfNext returns the usual duration of the job of the first run, or "" if it is not known.
func UsualOfNext(ctx context.Context, r *Reader, now time.Time,
	waiting []storage.Record) (string, error) {
	if len(waiting) == 0 {
		return "", nil
	}
	usual, err := r.Usual(ctx, now, []string{waiting[0].Job})
	if err != nil || usual[waiting[0].Job].Runs < unusualRuns {
		return "", err
	}
	return words.Took(usual[waiting[0].Job].Median), nil
}

// ReleaseView describes the effect of a forced release.
type ReleaseView struct {
	Resource string
	Lock     *Lock            // the lock to release
	Held     []Lock           // all locks of the holder's claim
	Others   []Lock           // other holders of the resource
	Moved    bool             // the requested holder no longer holds the resource
	Waiting  []storage.Record // for the resource, oldest first
	// NextUsual is the usual duration of the oldest of them, or "".
	NextUsual string
	// HolderLive reports whether the holder's session is live.
	HolderLive bool
}

// ConflictsWith reports whether a lock blocks one of the requests. It ignores conflicts between
// slots, whose free number it does not know.
func ConflictsWith(requests []locking.Request, lock Lock) bool {
	for _, request := range requests {
		exclusive := request.Mode == locking.Exclusive || lock.Mode == locking.Exclusive
		if exclusive && request.Resource.Related(lock.resource) {
			return true
		}
	}
	return false
}

// ReleasePath returns the page that releases a resource of the holder with the token.
func ReleasePath(resource string, token jobs.Token) string {
	return param.Address("/locks/release",
		url.Values{"resource": {resource}, "holder": {fmt.Sprint(token)}})
}

// ReadToken parses the token of a holder. "" is 0.
func ReadToken(text string) (jobs.Token, error) {
	if text == "" {
		return 0, nil
	}
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil || n <= 0 {
		return 0, param.Errorf("holder is %q, expected the token of the one that "+
			"holds the resource", words.Cut(text, 100))
	}
	return jobs.Token(n), nil
}

// related reports whether two display names are the same or one is above the other.
func related(a, b string) bool {
	return a == b || strings.HasPrefix(a, b+"/") || strings.HasPrefix(b, a+"/")
}
