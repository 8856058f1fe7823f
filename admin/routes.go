package admin

import (
	"net/http"
	"slices"
	"strings"

	"github.com/holdfast-dev/holdfast/admin/internal/access"
)

// route is a path and method with the access it requires and its handler. GET includes HEAD. Every
// route that changes anything is a POST for operators.
type route struct {
	method string
	path   string
	who    access.Level
	handle http.HandlerFunc
}

func (s *Server) routes() []route {
	signIn := access.NewSignIn(s.site.Guard)
	with := s.base()
	cluster, lock, job, run := clusterPages{with}, lockPages{with}, jobPages{with}, runPages{with}
	pause, audit, webhook := pausePages{with}, auditPages{with}, webhookPages{with}
	event, probe := eventPages{with, s.hub}, probes{with}
	return []route{
		{"GET", access.HealthPath, access.ForProbes, probe.healthz},
		{"GET", access.ReadyPath, access.ForProbes, probe.readyz},
		{"GET", access.MetricsPath, access.ForScrapers, probe.metrics},
		{"GET", "/static/{file}", access.ForAnybody, s.site.ServeFile},
		{"GET", "/favicon.ico", access.ForAnybody, s.site.ServeIcon},
		{"GET", "/login", access.ForAnybody, signIn.ShowForm},
		{"POST", "/login", access.ForAnybody, signIn.Submit},
		{"POST", "/logout", access.ForViewers, signIn.SignOut},
		{"GET", "/{$}", access.ForViewers, cluster.overviewPage},
		{"GET", "/locks", access.ForViewers, lock.locksPage},
		{"GET", "/locks/timeline", access.ForViewers, lock.timelinePage},
		{"GET", "/locks/contention", access.ForViewers, lock.contentionPage},
		{"GET", "/locks/upcoming", access.ForViewers, lock.upcomingConflictsPage},
		{"GET", "/jobs", access.ForViewers, job.jobsPage},
		{"GET", "/jobs/{name}", access.ForViewers, job.jobPage},
		{"GET", "/jobs/{name}/explain", access.ForViewers, job.explainPage},
		{"GET", "/runs", access.ForViewers, run.runsPage},
		{"GET", "/runs/{id}", access.ForViewers, run.runPage},
		{"GET", "/replicas", access.ForViewers, cluster.replicasPage},
		{"GET", "/audit", access.ForViewers, audit.auditPage},
		{"GET", "/webhooks", access.ForViewers, webhook.webhooksPage},
		{"GET", "/api/v1/webhooks", access.ForViewers, webhook.webhooksJSON},
		{"GET", "/webhooks/{id}/again", access.ForOperators, webhook.deliverAgainPage},
		{"POST", "/webhooks/{id}/again", access.ForOperators, webhook.deliverAgainPage},
		{"POST", "/api/v1/webhooks/{id}/again", access.ForOperators, webhook.deliverAgainJSON},
		{"GET", "/add", access.ForOperators, job.addPage},
		{"POST", "/add", access.ForOperators, job.addPage},
		{"GET", "/jobs/{name}/change", access.ForOperators, job.changePage},
		{"POST", "/jobs/{name}/change", access.ForOperators, job.changePage},
		{"GET", "/jobs/{name}/trigger", access.ForOperators, job.triggerPage},
		{"POST", "/jobs/{name}/trigger", access.ForOperators, job.triggerPage},
		{"GET", "/jobs/{name}/pause", access.ForOperators, pause.pauseJobPage},
		{"POST", "/jobs/{name}/pause", access.ForOperators, pause.pauseJobPage},
		{"GET", "/jobs/{name}/resume", access.ForOperators, pause.resumeJobPage},
		{"POST", "/jobs/{name}/resume", access.ForOperators, pause.resumeJobPage},
		{"GET", "/jobs/{name}/remove", access.ForOperators, job.removePage},
		{"POST", "/jobs/{name}/remove", access.ForOperators, job.removePage},
		{"GET", "/groups/{name}/pause", access.ForOperators, pause.pauseGroupPage},
		{"POST", "/groups/{name}/pause", access.ForOperators, pause.pauseGroupPage},
		{"GET", "/groups/{name}/resume", access.ForOperators, pause.resumeGroupPage},
		{"POST", "/groups/{name}/resume", access.ForOperators, pause.resumeGroupPage},
		{"GET", "/pause", access.ForOperators, pause.pauseAllPage},
		{"POST", "/pause", access.ForOperators, pause.pauseAllPage},
		{"GET", "/resume", access.ForOperators, pause.resumeAllPage},
		{"POST", "/resume", access.ForOperators, pause.resumeAllPage},
		{"GET", "/runs/{id}/cancel", access.ForOperators, run.cancelPage},
		{"POST", "/runs/{id}/cancel", access.ForOperators, run.cancelPage},
		{"GET", "/runs/{id}/again", access.ForOperators, job.againPage},
		{"POST", "/runs/{id}/again", access.ForOperators, job.againPage},
		{"GET", "/locks/release", access.ForOperators, lock.releasePage},
		{"POST", "/locks/release", access.ForOperators, lock.releasePage},
		{"GET", "/replicas/{session}/drain", access.ForOperators, cluster.drainPage},
		{"POST", "/replicas/{session}/drain", access.ForOperators, cluster.drainPage},
		{"GET", "/replicas/{session}/undrain", access.ForOperators, cluster.undrainPage},
		{"POST", "/replicas/{session}/undrain", access.ForOperators, cluster.undrainPage},
		{"GET", "/api/v1/overview", access.ForViewers, cluster.overviewJSON},
		{"GET", "/api/v1/locks", access.ForViewers, lock.locksJSON},
		{"GET", "/api/v1/locks/tree", access.ForViewers, lock.lockTreeJSON},
		{"GET", "/api/v1/locks/timeline", access.ForViewers, lock.timelineJSON},
		{"GET", "/api/v1/locks/contention", access.ForViewers, lock.contentionJSON},
		{"GET", "/api/v1/locks/upcoming", access.ForViewers, lock.upcomingConflictsJSON},
		{"GET", "/api/v1/jobs", access.ForViewers, job.jobsJSON},
		{"GET", "/api/v1/jobs/{name}", access.ForViewers, job.jobJSON},
		{"GET", "/api/v1/jobs/{name}/explain", access.ForViewers, job.explainJSON},
		{"GET", "/api/v1/runs", access.ForViewers, run.runsJSON},
		{"GET", "/api/v1/runs/{id}", access.ForViewers, run.runJSON},
		{"GET", "/api/v1/replicas", access.ForViewers, cluster.replicasJSON},
		{"GET", "/api/v1/audit", access.ForViewers, audit.auditJSON},
		{"GET", "/api/v1/memcached", access.ForViewers, cluster.memcachedJSON},
		{"GET", "/api/v1/events", access.ForViewers, event.events},
		{"GET", "/api/v1/openapi.json", access.ForViewers, probe.openAPIJSON},
		{"GET", "/api/v1/pauses", access.ForViewers, pause.pausesJSON},
		{"POST", "/api/v1/jobs", access.ForOperators, job.putJobJSON},
		{"GET", "/api/v1/jobs/{name}/spec", access.ForOperators, job.specJSON},
		{"POST", "/api/v1/jobs/{name}/trigger", access.ForOperators, job.triggerJSON},
		{"POST", "/api/v1/jobs/{name}/pause", access.ForOperators, pause.pauseJobJSON},
		{"POST", "/api/v1/jobs/{name}/resume", access.ForOperators, pause.resumeJobJSON},
		{"POST", "/api/v1/jobs/{name}/remove", access.ForOperators, job.removeJobJSON},
		{"POST", "/api/v1/groups/{name}/pause", access.ForOperators, pause.pauseGroupJSON},
		{"POST", "/api/v1/groups/{name}/resume", access.ForOperators, pause.resumeGroupJSON},
		{"POST", "/api/v1/pause", access.ForOperators, pause.pauseAllJSON},
		{"POST", "/api/v1/resume", access.ForOperators, pause.resumeAllJSON},
		{"POST", "/api/v1/runs/{id}/cancel", access.ForOperators, run.cancelJSON},
		{"POST", "/api/v1/locks/release", access.ForOperators, lock.releaseJSON},
		{"POST", "/api/v1/replicas/{session}/drain", access.ForOperators, cluster.drainJSON},
		{"POST", "/api/v1/replicas/{session}/undrain", access.ForOperators, cluster.undrainJSON},
	}
}

// maxBody bounds the body of a request: forms and params.
const maxBody = 64 << 10

// Handler returns the routes with their guards. It may be mounted in another server; the address
// and the users of Options still apply.
func (s *Server) Handler() http.Handler { return s.handler(s.routes()) }

func (s *Server) handler(routes []route) http.Handler {
	mux := http.NewServeMux()
	byPath := make(map[string][]route)
	for _, r := range routes {
		mux.Handle(r.method+" "+r.path, s.site.Guard.Admit(r.who, r.handle))
		byPath[r.path] = append(byPath[r.path], r)
	}
	for path, same := range byPath {
		who := slices.MinFunc(same, func(a, b route) int { return int(a.who - b.who) }).who
		mux.Handle(path, s.site.Guard.Admit(who, s.methodNotAllowed(same)))
	}
	mux.Handle("/", s.site.Guard.Admit(access.ForViewers, s.site.NotFound))
	return s.site.RecoverPanics(access.WithHeaders(http.MaxBytesHandler(mux, maxBody)))
}

// methodNotAllowed answers requests with a method that the path does not have.
func (s *Server) methodNotAllowed(same []route) http.HandlerFunc {
	var methods []string
	for _, r := range same {
		methods = append(methods, r.method)
		if r.method == http.MethodGet {
			methods = append(methods, http.MethodHead)
		}
	}
	allowed := strings.Join(methods, ", ")
	return func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Allow", allowed)
		s.site.Refuse(w, r, http.StatusMethodNotAllowed, "This address takes only "+allowed+".")
	}
}
