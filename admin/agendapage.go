package admin

import (
	"context"
	"net/http"

	"github.com/holdfast-dev/holdfast/admin/internal/cluster"
	"github.com/holdfast-dev/holdfast/admin/internal/locks"
	"github.com/holdfast-dev/holdfast/admin/internal/pages"
	"github.com/holdfast-dev/holdfast/admin/internal/param"
)

func (s lockPages) agendaJSON(w http.ResponseWriter, r *http.Request) {
	pages.Answer(s.Site, w, r, func(ctx context.Context) (locks.Agenda, error) {
		p, err := param.Read(r, locks.AgendaParams()...)
		if err != nil {
			return locks.Agenda{}, err
		}
		q, err := locks.ReadAgendaQuery(p)
		if err != nil {
			return locks.Agenda{}, err
		}
		now, err := s.reader.Now(ctx)
		if err != nil {
			return locks.Agenda{}, err
		}
		a, err := s.reader.lock.Agenda(ctx, now, q)
		param.SetLinks(w, a.PagerOf(p, "/api/v1/agenda"))
		return a, err
	})
}

// agendaPage shows the firings of the next hours.
func (s lockPages) agendaPage(w http.ResponseWriter, r *http.Request) {
	p, err := param.Read(r, append(locks.AgendaParams(), "refresh", "hours")...)
	var q locks.AgendaQuery
	if err == nil {
		q, err = locks.ReadAgendaQuery(p)
	}
	if err == nil {
		_, err = param.OneOf(p, "hours", []string{"all"})
	}
	if err != nil {
		s.Refuse(w, r, http.StatusBadRequest, err.Error())
		return
	}
	pages.Show(s.Site, w, r, pages.Page[locks.Agenda]{
		Template: "agenda.html", Section: "/agenda", Title: "Agenda",
		JSONPath: p.With("/api/v1/agenda", "hours", ""),
		Load: func(ctx context.Context, snap cluster.Snapshot) (locks.Agenda, error) {
			a, err := s.reader.lock.Agenda(ctx, snap.Now, q)
			if err == nil {
				a.Draw(p, "/agenda")
			}
			return a, err
		},
	})
}
