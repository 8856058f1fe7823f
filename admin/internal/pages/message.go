package pages

import (
	"net/http"

	"github.com/holdfast-dev/holdfast/admin/internal/access"
	"github.com/holdfast-dev/holdfast/admin/internal/words"
	"github.com/holdfast-dev/holdfast/jobs/permission"
)

// Refuse answers with an error: JSON under /api/, else a small page. Unauthenticated clients see no
// names.
func (s *Site) Refuse(w http.ResponseWriter, r *http.Request, status int, text string) {
	if access.ForMachines(r) {
		s.WriteError(w, status, text)
		return
	}
	said := message{Frame: Frame{Title: http.StatusText(status), Address: "/",
		Theme: s.themeOf(r), Zone: s.zoneOf(r)}, Code: status, Text: text}
	if identity, known := s.Guard.Identify(r); known {
		said.Searches = permission.RequireOn(r.Context(), permission.View, everything) == nil
		said.Known, said.ServedBy.Replica, said.Account = true, s.Local.Replica, identity
	}
	s.Write(w, status, "message.html", said)
}

// NotFound answers that there is no such page.
func (s *Site) NotFound(w http.ResponseWriter, r *http.Request) {
	s.Refuse(w, r, http.StatusNotFound, "This page does not exist.")
}

// message is a page with one text.
type message struct {
	Frame
	Code  int // HTTP status
	Text  string
	Known bool // the sender is identified
}

// Sentence returns the text as a sentence. Other texts than refusals may begin with a name.
func (m message) Sentence() string {
	if m.Code == http.StatusForbidden && m.Text != "" {
		return words.Sentence(words.Title(m.Text))
	}
	return words.Sentence(m.Text)
}
