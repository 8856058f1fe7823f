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
	signIn := access.NewSignIn(s.guard)
	return []route{
		{"GET", "/healthz", access.ForProbes, s.healthz},
		{"GET", "/readyz", access.ForProbes, s.readyz},
		{"GET", access.MetricsPath, access.ForScrapers, s.metrics},
		{"GET", "/static/{file}", access.ForAnybody, s.static},
		{"GET", "/favicon.ico", access.ForAnybody, s.icon},
		{"GET", "/login", access.ForAnybody, signIn.ShowForm},
		{"POST", "/login", access.ForAnybody, signIn.Submit},
		{"POST", "/logout", access.ForViewers, signIn.SignOut},
		{"GET", "/{$}", access.ForViewers, s.overviewPage},
		{"GET", "/locks", access.ForViewers, s.locksPage},
		{"GET", "/locks/timeline", access.ForViewers, s.timelinePage},
		{"GET", "/locks/contention", access.ForViewers, s.contentionPage},
		{"GET", "/locks/upcoming", access.ForViewers, s.upcomingConflictsPage},
		{"GET", "/jobs", access.ForViewers, s.jobsPage},
		{"GET", "/jobs/{name}", access.ForViewers, s.jobPage},
		{"GET", "/jobs/{name}/explain", access.ForViewers, s.explainPage},
		{"GET", "/runs", access.ForViewers, s.runsPage},
		{"GET", "/runs/{id}", access.ForViewers, s.runPage},
		{"GET", "/replicas", access.ForViewers, s.replicasPage},
		{"GET", "/audit", access.ForViewers, s.auditPage},
		{"GET", "/webhooks", access.ForViewers, s.webhooksPage},
		{"GET", "/api/v1/webhooks", access.ForViewers, s.webhooksJSON},
		{"GET", "/webhooks/{id}/again", access.ForOperators, s.deliverAgainPage},
		{"POST", "/webhooks/{id}/again", access.ForOperators, s.deliverAgainPage},
		{"POST", "/api/v1/webhooks/{id}/again", access.ForOperators, s.deliverAgainJSON},
		{"GET", "/add", access.ForOperators, s.addPage},
		{"POST", "/add", access.ForOperators, s.addPage},
		{"GET", "/jobs/{name}/change", access.ForOperators, s.changePage},
		{"POST", "/jobs/{name}/change", access.ForOperators, s.changePage},
		{"GET", "/jobs/{name}/trigger", access.ForOperators, s.triggerPage},
		{"POST", "/jobs/{name}/trigger", access.ForOperators, s.triggerPage},
		{"GET", "/jobs/{name}/pause", access.ForOperators, s.pauseJobPage},
		{"POST", "/jobs/{name}/pause", access.ForOperators, s.pauseJobPage},
		{"GET", "/jobs/{name}/resume", access.ForOperators, s.resumeJobPage},
		{"POST", "/jobs/{name}/resume", access.ForOperators, s.resumeJobPage},
		{"GET", "/jobs/{name}/remove", access.ForOperators, s.removePage},
		{"POST", "/jobs/{name}/remove", access.ForOperators, s.removePage},
		{"GET", "/groups/{name}/pause", access.ForOperators, s.pauseGroupPage},
		{"POST", "/groups/{name}/pause", access.ForOperators, s.pauseGroupPage},
		{"GET", "/groups/{name}/resume", access.ForOperators, s.resumeGroupPage},
		{"POST", "/groups/{name}/resume", access.ForOperators, s.resumeGroupPage},
		{"GET", "/pause", access.ForOperators, s.pauseAllPage},
		{"POST", "/pause", access.ForOperators, s.pauseAllPage},
		{"GET", "/resume", access.ForOperators, s.resumeAllPage},
		{"POST", "/resume", access.ForOperators, s.resumeAllPage},
		{"GET", "/runs/{id}/cancel", access.ForOperators, s.cancelPage},
		{"POST", "/runs/{id}/cancel", access.ForOperators, s.cancelPage},
		{"GET", "/runs/{id}/again", access.ForOperators, s.againPage},
		{"POST", "/runs/{id}/again", access.ForOperators, s.againPage},
		{"GET", "/locks/release", access.ForOperators, s.releasePage},
		{"POST", "/locks/release", access.ForOperators, s.releasePage},
		{"GET", "/replicas/{session}/drain", access.ForOperators, s.drainPage},
		{"POST", "/replicas/{session}/drain", access.ForOperators, s.drainPage},
		{"GET", "/replicas/{session}/undrain", access.ForOperators, s.undrainPage},
		{"POST", "/replicas/{session}/undrain", access.ForOperators, s.undrainPage},
		{"GET", "/api/v1/overview", access.ForViewers, s.overviewJSON},
		{"GET", "/api/v1/locks", access.ForViewers, s.locksJSON},
		{"GET", "/api/v1/locks/tree", access.ForViewers, s.lockTreeJSON},
		{"GET", "/api/v1/locks/timeline", access.ForViewers, s.timelineJSON},
		{"GET", "/api/v1/locks/contention", access.ForViewers, s.contentionJSON},
		{"GET", "/api/v1/locks/upcoming", access.ForViewers, s.upcomingConflictsJSON},
		{"GET", "/api/v1/jobs", access.ForViewers, s.jobsJSON},
		{"GET", "/api/v1/jobs/{name}", access.ForViewers, s.jobJSON},
		{"GET", "/api/v1/jobs/{name}/explain", access.ForViewers, s.explainJSON},
		{"GET", "/api/v1/runs", access.ForViewers, s.runsJSON},
		{"GET", "/api/v1/runs/{id}", access.ForViewers, s.runJSON},
		{"GET", "/api/v1/replicas", access.ForViewers, s.replicasJSON},
		{"GET", "/api/v1/audit", access.ForViewers, s.auditJSON},
		{"GET", "/api/v1/memcached", access.ForViewers, s.memcachedJSON},
		{"GET", "/api/v1/events", access.ForViewers, s.events},
		{"GET", "/api/v1/openapi.json", access.ForViewers, s.openAPIJSON},
		{"GET", "/api/v1/pauses", access.ForViewers, s.pausesJSON},
		{"POST", "/api/v1/jobs", access.ForOperators, s.putJobJSON},
		{"GET", "/api/v1/jobs/{name}/spec", access.ForOperators, s.specJSON},
		{"POST", "/api/v1/jobs/{name}/trigger", access.ForOperators, s.triggerJSON},
		{"POST", "/api/v1/jobs/{name}/pause", access.ForOperators, s.pauseJobJSON},
		{"POST", "/api/v1/jobs/{name}/resume", access.ForOperators, s.resumeJobJSON},
		{"POST", "/api/v1/jobs/{name}/remove", access.ForOperators, s.removeJobJSON},
		{"POST", "/api/v1/groups/{name}/pause", access.ForOperators, s.pauseGroupJSON},
		{"POST", "/api/v1/groups/{name}/resume", access.ForOperators, s.resumeGroupJSON},
		{"POST", "/api/v1/pause", access.ForOperators, s.pauseAllJSON},
		{"POST", "/api/v1/resume", access.ForOperators, s.resumeAllJSON},
		{"POST", "/api/v1/runs/{id}/cancel", access.ForOperators, s.cancelJSON},
		{"POST", "/api/v1/locks/release", access.ForOperators, s.releaseJSON},
		{"POST", "/api/v1/replicas/{session}/drain", access.ForOperators, s.drainJSON},
		{"POST", "/api/v1/replicas/{session}/undrain", access.ForOperators, s.undrainJSON},
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
		mux.Handle(r.method+" "+r.path, s.guard.Admit(r.who, r.handle))
		byPath[r.path] = append(byPath[r.path], r)
	}
	for path, same := range byPath {
		who := slices.MinFunc(same, func(a, b route) int { return int(a.who - b.who) }).who
		mux.Handle(path, s.guard.Admit(who, s.methodNotAllowed(same)))
	}
	mux.Handle("/", s.guard.Admit(access.ForViewers, s.notFound))
	return s.recoverPanics(access.WithHeaders(http.MaxBytesHandler(mux, maxBody)))
}

func (s *Server) notFound(w http.ResponseWriter, r *http.Request) {
	s.refuse(w, r, http.StatusNotFound, "This page does not exist.")
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
		s.refuse(w, r, http.StatusMethodNotAllowed, "This address takes only "+allowed+".")
	}
}

// refuse answers with an error: JSON under /api/, else a small page. Unauthenticated clients see no
// names.
func (s *Server) refuse(w http.ResponseWriter, r *http.Request, status int, text string) {
	if access.ForMachines(r) {
		s.writeError(w, status, text)
		return
	}
	said := message{Frame: Frame{Title: http.StatusText(status)}, Code: status, Text: text}
	if identity, known := s.guard.Identify(r); known {
		said.Known, said.ServedBy.Replica, said.Account = true, s.options.Replica, identity
	}
	s.pages.write(w, s.log, status, "message.html", said)
}
