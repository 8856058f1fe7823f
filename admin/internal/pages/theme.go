package pages

import (
	"net/http"
	"time"

	"github.com/holdfast-dev/holdfast/admin/internal/access"
	"github.com/holdfast-dev/holdfast/admin/internal/words"
)

// Theme is the colour scheme that a viewer chose: "light" or "dark". "" follows the system.
type Theme string

const (
	themeSuffix   = "-theme" // distinguishes the cookie from that of the sign-in
	themeLifetime = 365 * 24 * time.Hour
)

// themeChoice is an entry of the account menu.
type themeChoice struct {
	Value Theme
	Name  string
}

func themes() []themeChoice {
	return []themeChoice{{"", "System"}, {"light", "Light"}, {"dark", "Dark"}}
}

// themeNamed returns the theme of a form or a cookie, and false if there is none with the name.
func themeNamed(name string) (Theme, bool) {
	for _, choice := range themes() {
		if string(choice.Value) == name {
			return choice.Value, true
		}
	}
	return "", false
}

// themeOf returns the theme of the sender of a request.
func (s *Site) themeOf(r *http.Request) Theme {
	theme, _ := themeNamed(s.Guard.Cookie(r, themeSuffix)) // an unknown one follows the system
	return theme
}

// SetTheme stores the theme of a form in a cookie and returns to the page of the form. The store is
// not involved, so the theme can be chosen while the database does not answer.
func (s *Site) SetTheme(w http.ResponseWriter, r *http.Request) {
	if err := r.ParseForm(); err != nil {
		s.Refuse(w, r, http.StatusBadRequest, "The form could not be read, or is too large.")
		return
	}
	name := r.PostForm.Get("theme")
	theme, known := themeNamed(name)
	if !known {
		s.Refuse(w, r, http.StatusBadRequest, "The theme "+words.Cut(name, 100)+
			" is unknown, expected light or dark, or nothing to follow the system.")
		return
	}
	s.Guard.SetCookie(w, r, themeSuffix, string(theme), themeLifetime)
	http.Redirect(w, r, access.LocalPath(r.PostForm.Get("next")), http.StatusSeeOther)
}
