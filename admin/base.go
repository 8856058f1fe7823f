package admin

import "github.com/holdfast-dev/holdfast/admin/internal/pages"

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
	probes        struct{ base }
)

// eventPages serve the changes that the hub detects.
type eventPages struct {
	base
	hub *hub // nil: no events
}

func (s *Server) base() base { return base{s.site, s.reader, &s.options} }
