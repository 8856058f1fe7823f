package admin

import (
	"net/http"
	"slices"
	"strings"
)

// route is a path and method with the access it requires and its handler. GET includes HEAD. Every
// route that changes anything is a POST for operators.
type route struct {
	method string
	path   string
	who    access
	handle http.HandlerFunc
}

func (s *Server) routes() []route {
	return []route{
		{"GET", "/healthz", forProbes, s.healthz},
		{"GET", "/readyz", forProbes, s.readyz},
		{"GET", metricsPath, forScrapers, s.metrics},
		{"GET", "/static/{file}", forAnybody, s.static},
		{"GET", "/favicon.ico", forAnybody, s.icon},
		{"GET", "/login", forAnybody, s.signInPage},
		{"POST", "/login", forAnybody, s.signIn},
		{"POST", "/logout", forViewers, s.signOut},
		{"GET", "/{$}", forViewers, s.overviewPage},
		{"GET", "/locks", forViewers, s.locksPage},
		{"GET", "/locks/timeline", forViewers, s.timelinePage},
		{"GET", "/locks/contention", forViewers, s.contentionPage},
		{"GET", "/locks/upcoming", forViewers, s.upcomingConflictsPage},
		{"GET", "/jobs", forViewers, s.jobsPage},
		{"GET", "/jobs/{name}", forViewers, s.jobPage},
		{"GET", "/jobs/{name}/explain", forViewers, s.explainPage},
		{"GET", "/runs", forViewers, s.runsPage},
		{"GET", "/runs/{id}", forViewers, s.runPage},
		{"GET", "/replicas", forViewers, s.replicasPage},
		{"GET", "/audit", forViewers, s.auditPage},
		{"GET", "/webhooks", forViewers, s.webhooksPage},
		{"GET", "/api/v1/webhooks", forViewers, s.webhooksJSON},
		{"GET", "/webhooks/{id}/again", forOperators, s.deliverAgainPage},
		{"POST", "/webhooks/{id}/again", forOperators, s.deliverAgainPage},
		{"POST", "/api/v1/webhooks/{id}/again", forOperators, s.deliverAgainJSON},
		{"GET", "/add", forOperators, s.addPage},
		{"POST", "/add", forOperators, s.addPage},
		{"GET", "/jobs/{name}/change", forOperators, s.changePage},
		{"POST", "/jobs/{name}/change", forOperators, s.changePage},
		{"GET", "/jobs/{name}/trigger", forOperators, s.triggerPage},
		{"POST", "/jobs/{name}/trigger", forOperators, s.triggerPage},
		{"GET", "/jobs/{name}/pause", forOperators, s.pauseJobPage},
		{"POST", "/jobs/{name}/pause", forOperators, s.pauseJobPage},
		{"GET", "/jobs/{name}/resume", forOperators, s.resumeJobPage},
		{"POST", "/jobs/{name}/resume", forOperators, s.resumeJobPage},
		{"GET", "/jobs/{name}/remove", forOperators, s.removePage},
		{"POST", "/jobs/{name}/remove", forOperators, s.removePage},
		{"GET", "/groups/{name}/pause", forOperators, s.pauseGroupPage},
		{"POST", "/groups/{name}/pause", forOperators, s.pauseGroupPage},
		{"GET", "/groups/{name}/resume", forOperators, s.resumeGroupPage},
		{"POST", "/groups/{name}/resume", forOperators, s.resumeGroupPage},
		{"GET", "/pause", forOperators, s.pauseAllPage},
		{"POST", "/pause", forOperators, s.pauseAllPage},
		{"GET", "/resume", forOperators, s.resumeAllPage},
		{"POST", "/resume", forOperators, s.resumeAllPage},
		{"GET", "/runs/{id}/cancel", forOperators, s.cancelPage},
		{"POST", "/runs/{id}/cancel", forOperators, s.cancelPage},
		{"GET", "/runs/{id}/again", forOperators, s.againPage},
		{"POST", "/runs/{id}/again", forOperators, s.againPage},
		{"GET", "/locks/release", forOperators, s.releasePage},
		{"POST", "/locks/release", forOperators, s.releasePage},
		{"GET", "/replicas/{session}/drain", forOperators, s.drainPage},
		{"POST", "/replicas/{session}/drain", forOperators, s.drainPage},
		{"GET", "/replicas/{session}/undrain", forOperators, s.undrainPage},
		{"POST", "/replicas/{session}/undrain", forOperators, s.undrainPage},
		{"GET", "/api/v1/overview", forViewers, s.overviewJSON},
		{"GET", "/api/v1/locks", forViewers, s.locksJSON},
		{"GET", "/api/v1/locks/tree", forViewers, s.lockTreeJSON},
		{"GET", "/api/v1/locks/timeline", forViewers, s.timelineJSON},
		{"GET", "/api/v1/locks/contention", forViewers, s.contentionJSON},
		{"GET", "/api/v1/locks/upcoming", forViewers, s.upcomingConflictsJSON},
		{"GET", "/api/v1/jobs", forViewers, s.jobsJSON},
		{"GET", "/api/v1/jobs/{name}", forViewers, s.jobJSON},
		{"GET", "/api/v1/jobs/{name}/explain", forViewers, s.explainJSON},
		{"GET", "/api/v1/runs", forViewers, s.runsJSON},
		{"GET", "/api/v1/runs/{id}", forViewers, s.runJSON},
		{"GET", "/api/v1/replicas", forViewers, s.replicasJSON},
		{"GET", "/api/v1/audit", forViewers, s.auditJSON},
		{"GET", "/api/v1/memcached", forViewers, s.memcachedJSON},
		{"GET", "/api/v1/events", forViewers, s.events},
		{"GET", "/api/v1/openapi.json", forViewers, s.openAPIJSON},
		{"GET", "/api/v1/pauses", forViewers, s.pausesJSON},
		{"POST", "/api/v1/jobs", forOperators, s.putJobJSON},
		{"GET", "/api/v1/jobs/{name}/spec", forOperators, s.specJSON},
		{"POST", "/api/v1/jobs/{name}/trigger", forOperators, s.triggerJSON},
		{"POST", "/api/v1/jobs/{name}/pause", forOperators, s.pauseJobJSON},
		{"POST", "/api/v1/jobs/{name}/resume", forOperators, s.resumeJobJSON},
		{"POST", "/api/v1/jobs/{name}/remove", forOperators, s.removeJobJSON},
		{"POST", "/api/v1/groups/{name}/pause", forOperators, s.pauseGroupJSON},
		{"POST", "/api/v1/groups/{name}/resume", forOperators, s.resumeGroupJSON},
		{"POST", "/api/v1/pause", forOperators, s.pauseAllJSON},
		{"POST", "/api/v1/resume", forOperators, s.resumeAllJSON},
		{"POST", "/api/v1/runs/{id}/cancel", forOperators, s.cancelJSON},
		{"POST", "/api/v1/locks/release", forOperators, s.releaseJSON},
		{"POST", "/api/v1/replicas/{session}/drain", forOperators, s.drainJSON},
		{"POST", "/api/v1/replicas/{session}/undrain", forOperators, s.undrainJSON},
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
		mux.Handle(r.method+" "+r.path, s.admit(r.who, r.handle))
		byPath[r.path] = append(byPath[r.path], r)
	}
	for path, same := range byPath {
		who := slices.MinFunc(same, func(a, b route) int { return int(a.who - b.who) }).who
		mux.Handle(path, s.admit(who, s.methodNotAllowed(same)))
	}
	mux.Handle("/", s.admit(forViewers, s.notFound))
	return s.recoverPanics(secureHeaders(http.MaxBytesHandler(mux, maxBody)))
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

func (s *Server) crossOrigin(w http.ResponseWriter, r *http.Request) {
	s.refuse(w, r, http.StatusForbidden, "The request comes from a page of another site.")
}

// refuse answers with an error: JSON under /api/, else a small page. Unauthenticated clients see no
// names.
func (s *Server) refuse(w http.ResponseWriter, r *http.Request, status int, text string) {
	if forMachines(r) {
		s.writeError(w, status, text)
		return
	}
	said := message{Frame: Frame{Title: http.StatusText(status)}, Code: status, Text: text}
	if identity, err := s.accessRules().accounts.identify(r); err == nil &&
		!identity.unauthenticated() {
		said.Known, said.ServedBy.Replica, said.Account = true, s.options.Replica, identity
	}
	s.pages.write(w, s.log, status, "message.html", said)
}
