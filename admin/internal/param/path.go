package param

import (
	"net/url"

	"github.com/google/uuid"
)

// RunPath returns the address of a run's page.
func RunPath(id uuid.UUID) string { return "/runs/" + id.String() }

// JobPath returns the address of a job's page. The name may contain slashes.
func JobPath(name string) string { return "/jobs/" + url.PathEscape(name) }
