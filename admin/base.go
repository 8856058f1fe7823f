package admin

import (
	"context"

	"github.com/holdfast-dev/holdfast/admin/internal/pages"
	"github.com/holdfast-dev/holdfast/jobs/permission"
)

// base is what handlers share.
type base struct {
	*pages.Site
	reader  *reader
	options *Options
}

// The handlers, by what their pages are about.
type (
	clusterPages  struct{ base }
	lockPages     struct{ base }
	jobPages      struct{ base }
	runPages      struct{ base }
	pausePages    struct{ base }
	auditPages    struct{ base }
	webhookPages  struct{ base }
	backfillPages struct{ base }
	bulkPages     struct{ base }
	probes        struct{ base }
)

// eventPages serve the changes that the hub detects.
type eventPages struct {
	base
	hub *hub // nil: no events
}

// bulkAllowed returns the actions that a list offers for selected rows. A page of a store that does
// not answer offers none.
func (s base) bulkAllowed(ctx context.Context, f *pages.Frame) permission.Allowed {
	if s.options.Operations == nil || f.Error != "" {
		return permission.Allowed{}
	}
	return pages.AllowedOnSome(ctx)
}

func (s *Server) base() base { return base{s.site, s.reader, &s.options} }
