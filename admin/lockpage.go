package admin

import (
	"context"
	"html/template"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/holdfast-dev/holdfast/admin/internal/param"
	"github.com/holdfast-dev/holdfast/admin/internal/words"
	"github.com/holdfast-dev/holdfast/jobs/storage"
	"github.com/holdfast-dev/holdfast/locking"
)

// lockFields are the submitted fields of the filter.
type lockFields struct{ Text, State, Under string }

// Any reports whether a filter is set.
func (f lockFields) Any() bool { return f != lockFields{} }

func lockParams() []string { return []string{"text", "state", "under", "after"} }

// ByName reports whether held resources are also paged by name.
func (f lockFields) ByName() bool { return f.State == "held" || f.State == "waiting" }

// locksPage shows held resources, their holders and their waiters.
func (s *Server) locksPage(w http.ResponseWriter, r *http.Request) {
	p, err := param.Read(r, append(lockParams(), "refresh")...)
	var filter lockFilter
	if err == nil {
		filter, err = readLockFilter(p)
	}
	if err != nil {
		s.refuse(w, r, http.StatusBadRequest, err.Error())
		return
	}
	show(s, w, r, page[lockTree]{
		template: "locks.html", section: "/locks", title: "Locks",
		jsonPath: p.With("/api/v1/locks/tree"), live: true, fields: true,
		topics: []storage.Topic{storage.TopicLocks, storage.TopicRuns, storage.TopicJobs},
		load: func(ctx context.Context, snap snapshot) (lockTree, error) {
			tree, err := s.reader.lockTree(ctx, snap, filter)
			tree.Filter = lockFields{filter.text, filter.state, p.Get("under")}
			tree.Pager = p.TreePager("/locks", tree.Pager.NextPage)
			return tree, err
		},
	})
}

func (s *Server) lockTreeJSON(w http.ResponseWriter, r *http.Request) {
	answer(s, w, r, func(ctx context.Context) (lockTree, error) {
		p, err := param.Read(r, lockParams()...)
		if err != nil {
			return lockTree{}, err
		}
		filter, err := readLockFilter(p)
		if err != nil {
			return lockTree{}, err
		}
		snap, err := s.reader.snapshot(ctx)
		if err != nil {
			return lockTree{}, err
		}
		tree, err := s.reader.lockTree(ctx, snap, filter)
		param.SetLinks(w, p.TreePager("/api/v1/locks/tree", tree.Pager.NextPage))
		return tree, err
	})
}

func readLockFilter(p param.Set) (f lockFilter, err error) {
	if f.text, err = p.Text("text"); err != nil {
		return f, err
	}
	if f.state, err = param.OneOf(p, "state", []string{"held", "waiting", "free"}); err != nil {
		return f, err
	}
	if len(p.Values["state"]) > 1 {
		return f, param.Errorf("state is given %d times, expected once",
			len(p.Values["state"]))
	}
	if f.under, err = p.Resource("under"); err != nil {
		return f, err
	}
	if f.after, err = p.Text("after"); err != nil || f.after == "" {
		return f, err
	}
	if _, err := locking.ParseKey(f.after); err != nil {
		return f, param.Errorf(
			"after is %q, expected a value from a link to another page", words.Cut(f.after, 100))
	}
	return f, nil
}

// lockFuncs are the functions of the lock templates.
func lockFuncs() template.FuncMap {
	return template.FuncMap{
		"locktabs": lockTabs, "lockStates": lockStates, "nodes": newNodeList,
		"advisory": advisoryWords,
		"took":     words.Took,
		"axisY":    func() int { return axisHeight }, "barHeight": func() int { return barHeight },
		"iso": func(t time.Time) string { return t.UTC().Format(time.RFC3339) },
	}
}

// lockTab is one of the lock pages.
type lockTab struct {
	Path, Name string
	Here       bool
}

// lockTabs links the lock pages, and keeps the selected resource for those that accept one.
func lockTabs(f Frame) []lockTab {
	path, rawQuery, _ := strings.Cut(f.Address, "?")
	query := url.Values{}
	if asked, err := url.ParseQuery(rawQuery); err == nil && asked.Get("resource") != "" {
		query.Set("resource", asked.Get("resource"))
	}
	tabs := []lockTab{{"/locks", "Current", false}, {"/locks/timeline", "Timeline", false},
		{"/locks/contention", "Contention", false},
		{"/locks/upcoming", "Upcoming conflicts", false}}
	for i, tab := range tabs {
		tabs[i].Here = tab.Path == path
		if tab.Path == "/locks/timeline" || tab.Path == "/locks/upcoming" {
			tabs[i].Path = param.Address(tab.Path, query)
		}
	}
	return tabs
}

func lockStates() map[string]string {
	return map[string]string{"held": "held", "waiting": "waited for", "free": "free"}
}

// nodeList is the children of a node, with the time and whether the viewer may act.
type nodeList struct {
	Now     time.Time
	Node    *lockNode
	Actions bool
}

func newNodeList(now time.Time, node *lockNode, actions bool) nodeList {
	return nodeList{now, node, actions}
}

// advisoryWords describes the advisory lock of a lock.
func advisoryWords(l Lock) string {
	if l.Advisory != AdvisoryOther {
		return string(l.Advisory)
	}
	return words.Cut("held by "+words.Holder(l.other.Owner), 200)
}
