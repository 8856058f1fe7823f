package pages

import (
	"maps"
	"math"
	"net/http"
	"net/url"
	"slices"
	"time"

	"github.com/holdfast-dev/holdfast/admin/internal/access"
	"github.com/holdfast-dev/holdfast/admin/internal/cluster"
	"github.com/holdfast-dev/holdfast/admin/internal/param"
	"github.com/holdfast-dev/holdfast/admin/internal/words"
	"github.com/holdfast-dev/holdfast/jobs/permission"
	"github.com/holdfast-dev/holdfast/jobs/storage"
)

// section is an entry of the navigation.
type section struct{ Path, Name string }

func sections() []section {
	return []section{
		{"/", "Overview"}, {"/jobs", "Jobs"}, {"/runs", "Runs"}, {"/locks", "Locks"},
		{"/agenda", "Agenda"}, {"/replicas", "Replicas"}, {"/webhooks", "Webhooks"},
		{"/audit", "Audit"},
	}
}

// Frame is the part that all pages share.
type Frame struct {
	Title    string
	Section  string    // path of the current navigation entry
	Address  string    // of the page itself, for refreshes
	First    string    // address of the first page of the list, or "" if the request is for it
	JSONPath string    // address of the same data as JSON
	Now      time.Time // by the store's clock; zero if no state is known
	Status   cluster.Status
	ServedBy cluster.ServedBy
	Account  access.Identity
	Theme    Theme
	Zone     Zone
	JobZone  string // the zone of the page's job, if the viewer chose it
	// actions that the viewer may perform: on the target of the page, or on some target if the page
	// lists several
	Can    permission.Allowed
	CanAll permission.Allowed // and on everything
	// users whose sign-ins are slowed, as far as the viewer may know them
	SlowedSignIns []cluster.SlowedSignIns
	Notice        *Notice       // the result of an action, if this page follows one
	Error         string        // why the page could not be queried, or ""
	Silent        bool          // the reason is that the store did not answer
	Busy          bool          // the reason is that other requests query the store
	Stale         bool          // the page is a cached copy, because it could not be queried
	Age           time.Duration // of the cached copy
	Refresh       int           // refresh interval in seconds, or 0
	Every         int           // refresh interval if the viewer had not stopped it, or 0
	Still         string        // address of the page without refreshes
	Events        string        // address of the event stream, or ""
	Fields        bool          // the page has input fields, so it must not reload by itself
	Newest        string        // time of the newest entry of a list, to which a refresh keeps
	Lanes         string        // lanes of a timeline, which a refresh keeps
	Searches      bool          // the viewer may search

	topics []storage.Topic // of the events
}

// SlowedSignIns returns the users whose sign-ins are slowed, as far as the sender of a request may
// know them.
func (s *Site) SlowedSignIns(r *http.Request) (slowed []cluster.SlowedSignIns) {
	for _, one := range s.Guard.SlowedSignIns(r.Context(), access.IdentityOf(r)) {
		slowed = append(slowed, cluster.SlowedSignIns(one))
	}
	return slowed
}

// Known reports whether there is any state to show.
func (f Frame) Known() bool { return !f.Now.IsZero() }

// Frame begins the frame of a page. Every page accepts refresh=off.
func (s *Site) Frame(r *http.Request, section, title string, live bool) (Frame, error) {
	query := r.URL.Query()
	refresh := query["refresh"]
	if len(refresh) > 0 && !slices.Equal(refresh, []string{"off"}) {
		return Frame{}, param.Errorf("refresh is %q, expected off",
			words.Cut(refresh[0], 100))
	}
	query.Del("refresh")
	query.Del(param.Newest)
	query.Del(param.Lanes)
	f := Frame{Title: title, Section: section, Account: access.IdentityOf(r),
		Address: param.Address(r.URL.EscapedPath(), query), Notice: s.noticeFor(r),
		Theme: s.themeOf(r), Zone: s.zoneOf(r), First: firstPage(r.URL.EscapedPath(), query)}
	if f.Zone == OfJob {
		f.JobZone = s.jobZone(r.Context())
	}
	f.Searches = permission.RequireOn(r.Context(), permission.View, everything) == nil
	if s.Actions {
		f.Can = permission.AllowedOn(r.Context(), targetOf(r.Context()))
		f.CanAll = permission.AllowedOn(r.Context(), everything)
	}
	if live {
		f.Every = int(math.Ceil(s.Refresh.Seconds()))
		if len(refresh) == 0 {
			f.Refresh = f.Every
		}
		query.Set("refresh", "off")
		f.Still = param.Address(r.URL.EscapedPath(), query)
	}
	return f, nil
}

// firstPage returns the address of the first page of the list that the query asks for, or "" if it
// asks for the first page.
func firstPage(path string, query url.Values) string {
	first, later := maps.Clone(query), false
	for _, name := range []string{"after", "before", "skip"} {
		later = later || first.Get(name) != ""
		first.Del(name)
	}
	if !later {
		return ""
	}
	return param.Address(path, first)
}
