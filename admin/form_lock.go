package admin

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"

	"github.com/holdfast-dev/holdfast/admin/internal/cluster"
	"github.com/holdfast-dev/holdfast/admin/internal/locks"
	"github.com/holdfast-dev/holdfast/admin/internal/param"
	"github.com/holdfast-dev/holdfast/admin/internal/words"
	"github.com/holdfast-dev/holdfast/jobs"
	"github.com/holdfast-dev/holdfast/jobs/storage"
	"github.com/holdfast-dev/holdfast/locking"
)

// releasePage releases a lock, if its holder is still the one that was shown.
func (s lockPages) releasePage(w http.ResponseWriter, r *http.Request) {
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
		token, err = locks.ReadToken(p.Get("holder"))
	}
	if err != nil {
		s.Refuse(w, r, http.StatusBadRequest, err.Error())
		return
	}
	answerAction(s.base, w, r, actionPage[locks.ReleaseView]{
		template: "release.html", section: "/locks",
		title: "Release " + words.Cut(resource.String(), 100), params: []string{"resource",
			"holder"},
		fields: []string{"token", "end_transaction"},
		load: func(ctx context.Context, snap cluster.Snapshot) (locks.ReleaseView, error) {
			v, err := s.reader.lock.ReleaseView(ctx, snap.Now, *resource, token)
			if v.Lock != nil {
				v.HolderLive = snap.IsLive(v.Lock.Holder.Replica)
			}
			return v, err
		},
		form: func(f *form, known *locks.ReleaseView) {
			f.Button, f.Bad, f.Back, f.Keep = "Release lock", true, "/locks", "Keep lock"
			shown := f.typed("token", fmt.Sprint(token))
			if known != nil {
				f.Moot = known.Lock == nil
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
			token, err := locks.ReadToken(sent.Get("token"))
			if err != nil {
				return outcome{}, err
			}
			gone, err := s.release(ctx, a, resource.String(),
				storage.ReleaseRequest{Token: token,
					EndTransaction: sent.Get("end_transaction") != ""})
			return outcome{"/locks",
				fmt.Sprintf("Released: %s held %s, and can commit nothing more.",
					words.Holder(gone.Holder), locks.ResourceWords(gone.Resources))}, err
		},
	})
}
