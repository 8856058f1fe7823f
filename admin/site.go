package admin

import (
	"net/http"

	"github.com/holdfast-dev/holdfast/admin/internal/access"
)

// Refuse answers with an error: JSON under /api/, else a small page. Unauthenticated clients see no
// names.
func (s *Site) Refuse(w http.ResponseWriter, r *http.Request, status int, text string) {
	if access.ForMachines(r) {
		s.writeError(w, status, text)
		return
	}
	said := message{Frame: Frame{Title: http.StatusText(status)}, Code: status, Text: text}
	if identity, known := s.guard.Identify(r); known {
		said.Known, said.ServedBy.Replica, said.Account = true, s.local.Replica, identity
	}
	s.pages.write(w, s.log, status, "message.html", said)
}

func (s *Site) notFound(w http.ResponseWriter, r *http.Request) {
	s.Refuse(w, r, http.StatusNotFound, "This page does not exist.")
}

// message is a page with one text.
type message struct {
	Frame
	Code  int // HTTP status
	Text  string
	Known bool // the sender is identified
}
