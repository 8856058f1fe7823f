package admin

import (
	"net/http"

	"github.com/holdfast-dev/holdfast/admin/page"
)

// Reloaded says what a reload of the configuration changed.
type Reloaded = page.Reloaded

// ReloadError says that the configuration has mistakes, and that nothing has changed. It does not
// quote them, because they may quote values of the configuration.
type ReloadError = page.ReloadError

// reloadJSON makes this replica read its configuration again.
func (s clusterPages) reloadJSON(w http.ResponseWriter, r *http.Request) {
	var reason string
	err := s.readAction(r, map[string]any{"reason": &reason})
	if err == nil && s.options.Reload == nil {
		err = errNoReload
	}
	var done Reloaded
	if err == nil {
		by := s.acting(r, "api", reason)
		by.Key = "" // a reload may happen twice
		err = by.Check()
		if err == nil {
			done, err = s.options.Reload(r.Context(), by)
		}
	}
	if err != nil {
		s.refuseAction(w, r, err, refusedAction{})
		return
	}
	for _, list := range []*[]string{&done.Added, &done.Changed, &done.Removed, &done.Restart} {
		*list = append([]string{}, *list...) // lists are never null
	}
	s.WriteJSON(w, http.StatusOK, done)
}
