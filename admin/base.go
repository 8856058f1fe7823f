package admin

// base is what handlers share.
type base struct {
	*Site
	reader  *reader
	options *Options
}

// The handlers, by what their pages are about.
type (
	clusterPages struct{ base }
	lockPages    struct{ base }
	jobPages     struct{ base }
	runPages     struct{ base }
	pausePages   struct{ base }
	auditPages   struct{ base }
	webhookPages struct{ base }
	eventPages   struct{ base }
	probes       struct{ base }
)

func (s *Server) base() base { return base{s.site, s.reader, &s.options} }
