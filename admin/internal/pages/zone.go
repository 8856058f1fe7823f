package pages

import (
	"context"
	"net/http"

	"github.com/holdfast-dev/holdfast/admin/internal/access"
	"github.com/holdfast-dev/holdfast/admin/internal/words"
	"github.com/holdfast-dev/holdfast/jobs/permission"
)

// Zone is the time zone of the times of a page: "utc" or "job". "" is the zone of the viewer's
// browser.
type Zone string

const (
	// UTC shows the times as the server writes them.
	UTC Zone = "utc"
	// OfJob is the zone of the job that a page is about. Pages about several jobs have the zone of
	// the browser.
	OfJob Zone = "job"

	zoneSuffix = "-zone" // distinguishes the cookie from that of the sign-in
)

// zoneChoice is an entry of the account menu.
type zoneChoice struct {
	Value Zone
	Name  string
}

func zones() []zoneChoice {
	return []zoneChoice{{"", "Local"}, {OfJob, "Job's zone"}, {UTC, "UTC"}}
}

// zoneNamed returns the zone of a form or a cookie, and false if there is none with the name.
func zoneNamed(name string) (Zone, bool) {
	for _, choice := range zones() {
		if string(choice.Value) == name {
			return choice.Value, true
		}
	}
	return "", false
}

// zoneOf returns the zone of the sender of a request.
func (s *Site) zoneOf(r *http.Request) Zone {
	zone, _ := zoneNamed(s.Guard.Cookie(r, zoneSuffix)) // an unknown one is that of the browser
	return zone
}

// jobZone returns the zone of the job that a request is about, or "" if it is about no single job.
// It does not ask a store that does not answer, because the page asks it, too.
func (s *Site) jobZone(ctx context.Context) (zone string) {
	if s.pageCache.silent.Load() {
		return ""
	}
	target, err := targetOf(ctx)(ctx)
	if err != nil || target.Kind != permission.Job {
		return ""
	}
	err = s.Queries.Run(ctx, func(ctx context.Context) error {
		job, err := s.Cluster.Store.Job(ctx, target.Name)
		zone = job.Zone
		return err
	})
	if err != nil { // the page shows why
		return ""
	}
	return zone
}

// SetZone stores the time zone of a form in a cookie and returns to the page of the form, as
// SetTheme does.
func (s *Site) SetZone(w http.ResponseWriter, r *http.Request) {
	if err := r.ParseForm(); err != nil {
		s.Refuse(w, r, http.StatusBadRequest, "The form could not be read, or is too large.")
		return
	}
	name := r.PostForm.Get("zone")
	zone, known := zoneNamed(name)
	if !known {
		s.Refuse(w, r, http.StatusBadRequest, "The time zone "+words.Cut(name, 100)+
			" is unknown, expected utc or job, or nothing for the zone of the browser.")
		return
	}
	s.Guard.SetCookie(w, r, zoneSuffix, string(zone), themeLifetime)
	http.Redirect(w, r, access.LocalPath(r.PostForm.Get("next")), http.StatusSeeOther)
}
