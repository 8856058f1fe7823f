package admin

import (
	"context"
	"fmt"
	"net/http"

	"github.com/holdfast-dev/holdfast/admin/internal/words"
	"github.com/holdfast-dev/holdfast/jobs/storage"
)

// Reloaded says what a reload of the configuration changed.
type Reloaded struct {
	Replica string `json:"replica"` // the one that reloaded
	// names of jobs, at most 50 of each
	Added   []string `json:"added"`
	Changed []string `json:"changed"`
	Removed []string `json:"removed"`
	// changed keys that apply after a restart, at most 50
	Restart []string `json:"restart"`
}

// ReloadError says that the configuration has mistakes, and that nothing has changed. It does not
// quote them, because they may quote values of the configuration.
type ReloadError struct {
	Mistakes int
}

// Error counts the mistakes.
func (e *ReloadError) Error() string {
	return fmt.Sprintf("reload: found %s in the configuration, which the log of the replica "+
		"lists; nothing has changed", words.Figure(e.Mistakes, "mistake", "mistakes"))
}

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

// ReloadFunc reloads the configuration for an operator. It returns a *ReloadError for mistakes.
type ReloadFunc func(ctx context.Context, by storage.Action) (Reloaded, error)
