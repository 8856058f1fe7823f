package pages

import (
	"net/http"

	"github.com/holdfast-dev/holdfast/admin/internal/access"
	"github.com/holdfast-dev/holdfast/admin/internal/words"
)

// Zone is the time zone of the times of a page: "utc". "" is the zone of the viewer's browser.
type Zone string

const (
	// UTC shows the times as the server writes them.
	UTC Zone = "utc"

	zoneSuffix = "-zone" // distinguishes the cookie from that of the sign-in
)

// zoneChoice is an entry of the account menu.
type zoneChoice struct {
	Value Zone
	Name  string
}

func zones() []zoneChoice { return []zoneChoice{{"", "Local"}, {UTC, "UTC"}} }

// zoneOf returns the zone of the sender of a request.
func (s *Site) zoneOf(r *http.Request) Zone {
	if Zone(s.Guard.Cookie(r, zoneSuffix)) == UTC {
		return UTC
	}
	return ""
}

// SetZone stores the time zone of a form in a cookie and returns to the page of the form, as
// SetTheme does.
func (s *Site) SetZone(w http.ResponseWriter, r *http.Request) {
	if err := r.ParseForm(); err != nil {
		s.Refuse(w, r, http.StatusBadRequest, "The form could not be read, or is too large.")
		return
	}
	zone := Zone(r.PostForm.Get("zone"))
	if zone != "" && zone != UTC {
		s.Refuse(w, r, http.StatusBadRequest, "The time zone "+words.Cut(string(zone), 100)+
			" is unknown, expected utc, or nothing for the zone of the browser.")
		return
	}
	s.Guard.SetCookie(w, r, zoneSuffix, string(zone), themeLifetime)
	http.Redirect(w, r, access.LocalPath(r.PostForm.Get("next")), http.StatusSeeOther)
}
