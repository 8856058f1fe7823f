package admin

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/holdfast-dev/holdfast/admin/internal/param"
	"github.com/holdfast-dev/holdfast/admin/internal/words"
	"github.com/holdfast-dev/holdfast/jobs"
	"github.com/holdfast-dev/holdfast/jobs/storage"
	"github.com/holdfast-dev/holdfast/locking"
)

// releaseView describes the effect of a forced release.
type releaseView struct {
	Resource string
	Lock     *Lock         // the lock to release
	Held     []Lock        // all locks of the holder's claim
	Others   []Lock        // other holders of the resource
	Moved    bool          // the requested holder no longer holds the resource
	Waiting  []jobs.Record // for the resource, oldest first
}

// releasePath returns the page that releases a resource of the holder with the token.
func releasePath(resource string, token jobs.Token) string {
	return param.Address("/locks/release",
		url.Values{"resource": {resource}, "holder": {fmt.Sprint(token)}})
}

// releasePage releases a lock, if its holder is still the one that was shown.
func (s *Server) releasePage(w http.ResponseWriter, r *http.Request) {
	p, err := param.Read(r, "resource", "holder", "refresh")
	var resource *locking.Resource
	if err == nil {
		resource, err = p.Resource("resource")
	}
	if err == nil && resource == nil {
		err = param.Errorf("resource is missing, expected a resource of the list of locks")
	}
	var token jobs.Token
	if err == nil {
		token, err = readToken(p.Get("holder"))
	}
	if err != nil {
		s.refuse(w, r, http.StatusBadRequest, err.Error())
		return
	}
	answerAction(s, w, r, actionPage[releaseView]{
		template: "release.html", section: "/locks",
		title: "Release " + words.Cut(resource.String(), 100), params: []string{"resource",
			"holder"},
		fields: []string{"token", "end_transaction"},
		load: func(ctx context.Context, _ snapshot) (releaseView, error) {
			return s.reader.releaseView(ctx, *resource, token)
		},
		form: func(f *form, known *releaseView) {
			f.Button, f.Bad, f.Back = "Release lock", true, "/locks"
			shown := f.typed("token", fmt.Sprint(token))
			if known != nil {
				f.Idle = f.Idle || known.Lock == nil
				if known.Lock != nil && fmt.Sprint(known.Lock.Token) != shown {
					shown = fmt.Sprint(known.Lock.Token)
					f.renew() // releasing another holder is another action
				}
			}
			f.hidden("token", shown)
			if errors.Is(f.err, storage.ErrInTransaction) {
				f.check("end_transaction",
					"End the transaction of the holder, which rolls it back", true)
				f.Button = "End transaction and release lock"
			}
		},
		do: func(ctx context.Context, a storage.Action, sent url.Values) (outcome, error) {
			token, err := readToken(sent.Get("token"))
			if err != nil {
				return outcome{}, err
			}
			gone, err := s.release(ctx, a, resource.String(),
				storage.ReleaseRequest{Token: token,
					EndTransaction: sent.Get("end_transaction") != ""})
			return outcome{"/locks",
				fmt.Sprintf("Released: %s held %s, and can commit nothing more.",
					words.Holder(gone.Holder), resourceWords(gone.Resources))}, err
		},
	})
}

func readToken(text string) (jobs.Token, error) {
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

// releaseView returns the lock with the token. If it is gone, or the token is 0, it returns the
// lock that has been held longest.
func (r *reader) releaseView(ctx context.Context, resource locking.Resource,
	token jobs.Token) (v releaseView, err error) {
	v.Resource = resource.String()
	set, err := r.grants(ctx)
	if err != nil {
		return v, err
	}
	all := slices.Concat(set.locks, set.own)
	holders := slices.DeleteFunc(slices.Clone(all), func(l Lock) bool {
		return l.resource != resource
	})
	slices.SortStableFunc(holders, func(a, b Lock) int { return a.Since.Compare(b.Since) })
	if at := slices.IndexFunc(holders, func(l Lock) bool { return l.Token == token }); at > 0 {
		holders[0], holders[at] = holders[at], holders[0]
	}
	if len(holders) > 0 {
		v.Lock, v.Others = &holders[0], holders[1:]
		v.Moved = token != 0 && v.Lock.Token != token
		v.Held = slices.DeleteFunc(all, func(l Lock) bool {
			return l.Token != v.Lock.Token || l.resource.Kind() == locking.KindJob
		})
	}
	v.Waiting, err = r.waitingFor(ctx, func(b jobs.Blocker) bool {
		return related(b.Resource, v.Resource)
	})
	return v, err
}

// resourceWords lists resources, as many as fit in a sentence.
func resourceWords(list []Resource) string {
	const most = 5
	if len(list) == 0 {
		return "nothing else"
	}
	var names []string
	for _, r := range list[:min(len(list), most)] {
		names = append(names, words.Cut(r.Resource, 100))
	}
	if more := len(list) - most; more > 0 {
		names = append(names, fmt.Sprintf("%d more", more))
	}
	return strings.Join(names, ", ")
}
