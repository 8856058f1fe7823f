package admin

import (
	"context"
	"net/http"
	"slices"
	"strings"

	"github.com/holdfast-dev/holdfast/admin/internal/access"
	"github.com/holdfast-dev/holdfast/admin/internal/pages"
	"github.com/holdfast-dev/holdfast/jobs/permission"
)

// route is a path and method with what it requires and its handler. GET includes HEAD. Every route
// that changes anything is a POST that requires a permission.
type route struct {
	method string
	path   string
	need   need
	handle http.HandlerFunc
}

// need is what a route requires of the sender.
type need struct {
	level      access.Level
	permission permission.Permission // "": none
	// target returns what the permission is about; nil: everything.
	target func(s base, ctx context.Context, r *http.Request) (permission.Target, error)
}

// may is the need of a permission.
func may(p permission.Permission, target func(base, context.Context, *http.Request) (
	permission.Target, error)) need {
	return need{access.ForIdentities, p, target}
}

func (s *Server) routes() []route {
	signIn := access.NewSignIn(s.site.Guard)
	with := s.base()
	cluster, lock, job, run := clusterPages{with}, lockPages{with}, jobPages{with}, runPages{with}
	pause, audit, webhook := pausePages{with}, auditPages{with}, webhookPages{with}
	backfill, bulk := backfillPages{with}, bulkPages{with}
	event, probe := eventPages{with, s.hub}, probes{with}
	return []route{
		{"GET", access.HealthPath, need{level: access.ForProbes}, probe.healthz},
		{"GET", access.ReadyPath, need{level: access.ForProbes}, probe.readyz},
		{"GET", access.MetricsPath, may(permission.ViewMetrics, nil), probe.metrics},
		{"GET", "/static/{file}", need{level: access.ForAnybody}, s.site.ServeFile},
		{"GET", "/favicon.ico", need{level: access.ForAnybody}, s.site.ServeIcon},
		{"GET", access.SignInPath, need{level: access.ForAnybody}, signIn.ShowForm},
		{"POST", access.SignInPath, need{level: access.ForAnybody}, signIn.Submit},
		{"GET", access.StartPath, need{level: access.ForAnybody}, signIn.StartOIDC},
		{"GET", access.CallbackPath, need{level: access.ForAnybody}, signIn.FinishOIDC},
		{"GET", access.SignedOutPath, need{level: access.ForAnybody}, signIn.SignedOut},
		{"POST", "/theme", need{level: access.ForIdentities}, s.site.SetTheme},
		{"POST", "/zone", need{level: access.ForIdentities}, s.site.SetZone},
		{"POST", access.SignOutPath, need{level: access.ForIdentities}, signIn.SignOut},
		{"GET", "/{$}", may(permission.View, nil), cluster.overviewPage},
		{"GET", "/locks", may(permission.View, nil), lock.locksPage},
		{"GET", "/locks/timeline", may(permission.View, nil), lock.timelinePage},
		{"GET", "/locks/contention", may(permission.View, nil), lock.contentionPage},
		{"GET", "/locks/upcoming", may(permission.View, nil), lock.upcomingConflictsPage},
		{"GET", "/agenda", may(permission.View, nil), lock.agendaPage},
		{"GET", "/jobs", may(permission.View, filteredJobs), job.jobsPage},
		{"GET", "/jobs/{name}", may(permission.View, jobOf), job.jobPage},
		{"GET", "/jobs/{name}/explain", may(permission.View, jobOf), job.explainPage},
		{"GET", "/runs", may(permission.View, filteredRuns), run.runsPage},
		{"GET", "/grid", may(permission.View, filteredJobs), run.gridPage},
		{"GET", "/runs/{id}", may(permission.View, runOf), run.runPage},
		{"GET", "/runs/{id}/log", may(permission.ViewOutput, runOf), run.logText},
		{"GET", "/backfills", may(permission.View, filteredBackfills), backfill.backfillsPage},
		{"GET", "/backfills/{id}", may(permission.View, backfillOf), backfill.backfillPage},
		{"GET", "/search", may(permission.View, nil), cluster.searchPage},
		{"GET", "/replicas", may(permission.View, nil), cluster.replicasPage},
		{"GET", "/audit", may(permission.View, nil), audit.auditPage},
		{"GET", "/webhooks", may(permission.View, nil), webhook.webhooksPage},
		{"GET", "/api/v1/webhooks", may(permission.View, nil), webhook.webhooksJSON},
		{"GET", "/webhooks/{id}/again", may(permission.Trigger, nil), webhook.deliverAgainPage},
		{"POST", "/webhooks/{id}/again", may(permission.Trigger, nil), webhook.deliverAgainPage},
		{"POST", "/api/v1/webhooks/{id}/again", may(permission.Trigger, nil),
			webhook.deliverAgainJSON},
		{"GET", "/add", may(permission.EditJobs, something), job.addPage},
		{"POST", "/add", may(permission.EditJobs, something), job.addPage},
		{"GET", "/jobs/{name}/change", may(permission.EditJobs, jobOf), job.changePage},
		{"POST", "/jobs/{name}/change", may(permission.EditJobs, jobOf), job.changePage},
		{"GET", "/jobs/{name}/trigger", may(permission.Trigger, jobOf), job.triggerPage},
		{"POST", "/jobs/{name}/trigger", may(permission.Trigger, jobOf), job.triggerPage},
		{"GET", "/jobs/{name}/pause", may(permission.Pause, jobOf), pause.pauseJobPage},
		{"POST", "/jobs/{name}/pause", may(permission.Pause, jobOf), pause.pauseJobPage},
		{"GET", "/jobs/{name}/resume", may(permission.Pause, jobOf), pause.resumeJobPage},
		{"POST", "/jobs/{name}/resume", may(permission.Pause, jobOf), pause.resumeJobPage},
		{"GET", "/jobs/{name}/remove", may(permission.EditJobs, jobOf), job.removePage},
		{"POST", "/jobs/{name}/remove", may(permission.EditJobs, jobOf), job.removePage},
		{"GET", "/groups/{name}/pause", may(permission.Pause, groupOf), pause.pauseGroupPage},
		{"POST", "/groups/{name}/pause", may(permission.Pause, groupOf), pause.pauseGroupPage},
		{"GET", "/groups/{name}/resume", may(permission.Pause, groupOf), pause.resumeGroupPage},
		{"POST", "/groups/{name}/resume", may(permission.Pause, groupOf), pause.resumeGroupPage},
		{"GET", "/pause", may(permission.Pause, nil), pause.pauseAllPage},
		{"POST", "/pause", may(permission.Pause, nil), pause.pauseAllPage},
		{"GET", "/resume", may(permission.Pause, nil), pause.resumeAllPage},
		{"POST", "/resume", may(permission.Pause, nil), pause.resumeAllPage},
		{"GET", "/runs/{id}/cancel", may(permission.Cancel, runOf), run.cancelPage},
		{"POST", "/runs/{id}/cancel", may(permission.Cancel, runOf), run.cancelPage},
		{"GET", "/backfills/{id}/cancel", may(permission.Cancel, backfillOf), backfill.cancelPage},
		{"POST", "/backfills/{id}/cancel", may(permission.Cancel, backfillOf), backfill.cancelPage},
		{"GET", "/runs/{id}/again", may(permission.Trigger, runOf), job.againPage},
		{"POST", "/runs/{id}/again", may(permission.Trigger, runOf), job.againPage},
		{"GET", "/bulk/pause", may(permission.Pause, something), bulk.pausePage},
		{"POST", "/bulk/pause", may(permission.Pause, something), bulk.pausePage},
		{"GET", "/bulk/resume", may(permission.Pause, something), bulk.resumePage},
		{"POST", "/bulk/resume", may(permission.Pause, something), bulk.resumePage},
		{"GET", "/bulk/trigger", may(permission.Trigger, something), bulk.triggerPage},
		{"POST", "/bulk/trigger", may(permission.Trigger, something), bulk.triggerPage},
		{"GET", "/bulk/again", may(permission.Trigger, something), bulk.againPage},
		{"POST", "/bulk/again", may(permission.Trigger, something), bulk.againPage},
		{"GET", "/bulk/cancel", may(permission.Cancel, something), bulk.cancelPage},
		{"POST", "/bulk/cancel", may(permission.Cancel, something), bulk.cancelPage},
		{"GET", "/locks/release", may(permission.Release, resourceOf), lock.releasePage},
		{"POST", "/locks/release", may(permission.Release, resourceOf), lock.releasePage},
		{"GET", "/replicas/{session}/drain", may(permission.Drain, nil), cluster.drainPage},
		{"POST", "/replicas/{session}/drain", may(permission.Drain, nil), cluster.drainPage},
		{"GET", "/replicas/{session}/undrain", may(permission.Drain, nil), cluster.undrainPage},
		{"POST", "/replicas/{session}/undrain", may(permission.Drain, nil), cluster.undrainPage},
		{"GET", "/replicas/{session}/remove", may(permission.Drain, nil),
			cluster.removeReplicaPage},
		{"POST", "/replicas/{session}/remove", may(permission.Drain, nil),
			cluster.removeReplicaPage},
		{"GET", "/api/v1/overview", may(permission.View, nil), cluster.overviewJSON},
		{"GET", "/api/v1/status", may(permission.View, nil), cluster.statusJSON},
		{"GET", "/api/v1/databases", may(permission.View, nil), cluster.databasesJSON},
		{"GET", "/api/v1/locks", may(permission.View, nil), lock.locksJSON},
		{"GET", "/api/v1/locks/tree", may(permission.View, nil), lock.lockTreeJSON},
		{"GET", "/api/v1/locks/timeline", may(permission.View, nil), lock.timelineJSON},
		{"GET", "/api/v1/locks/contention", may(permission.View, nil), lock.contentionJSON},
		{"GET", "/api/v1/locks/upcoming", may(permission.View, nil), lock.upcomingConflictsJSON},
		{"GET", "/api/v1/agenda", may(permission.View, nil), lock.agendaJSON},
		{"GET", "/api/v1/jobs", may(permission.View, filteredJobs), job.jobsJSON},
		{"GET", "/api/v1/jobs/{name}", may(permission.View, jobOf), job.jobJSON},
		{"GET", "/api/v1/jobs/{name}/explain", may(permission.View, jobOf), job.explainJSON},
		{"GET", "/api/v1/runs", may(permission.View, filteredRuns), run.runsJSON},
		{"GET", "/api/v1/grid", may(permission.View, filteredJobs), run.gridJSON},
		{"GET", "/api/v1/runs/{id}", may(permission.View, runOf), run.runJSON},
		{"GET", "/api/v1/runs/{id}/outcome", may(permission.View, runOf), run.outcomeJSON},
		{"GET", "/api/v1/runs/{id}/attempts/{attempt}", may(permission.View, runOf),
			run.attemptJSON},
		{"GET", "/api/v1/search", may(permission.View, nil), cluster.searchJSON},
		{"GET", "/api/v1/backfills", may(permission.View, filteredBackfills),
			backfill.backfillsJSON},
		{"GET", "/api/v1/backfills/{id}", may(permission.View, backfillOf), backfill.backfillJSON},
		{"GET", "/api/v1/jobs/{name}/backfill", may(permission.View, jobOf), backfill.planJSON},
		{"POST", "/api/v1/jobs/{name}/backfill", may(permission.Trigger, jobOf), backfill.addJSON},
		{"POST", "/api/v1/backfills/{id}/cancel", may(permission.Cancel, backfillOf),
			backfill.cancelJSON},
		{"GET", "/api/v1/replicas", may(permission.View, nil), cluster.replicasJSON},
		{"GET", "/api/v1/replicas/sessions", may(permission.View, nil), cluster.sessionsJSON},
		{"GET", "/api/v1/audit", may(permission.View, nil), audit.auditJSON},
		{"GET", "/api/v1/memcached", may(permission.View, nil), cluster.memcachedJSON},
		{"GET", "/api/v1/events", may(permission.View, nil), event.events},
		{"GET", "/api/v1/openapi.json", may(permission.View, something), probe.openAPIJSON},
		{"GET", "/api/v1/pauses", may(permission.View, nil), pause.pausesJSON},
		{"POST", "/api/v1/jobs", may(permission.EditJobs, something), job.putJobJSON},
		{"GET", "/api/v1/jobs/{name}/spec", may(permission.EditJobs, jobOf), job.specJSON},
		{"POST", "/api/v1/jobs/{name}/trigger", may(permission.Trigger, jobOf), job.triggerJSON},
		{"POST", "/api/v1/jobs/{name}/pause", may(permission.Pause, jobOf), pause.pauseJobJSON},
		{"POST", "/api/v1/jobs/{name}/resume", may(permission.Pause, jobOf), pause.resumeJobJSON},
		{"POST", "/api/v1/jobs/{name}/remove", may(permission.EditJobs, jobOf), job.removeJobJSON},
		{"POST", "/api/v1/groups/{name}/pause", may(permission.Pause, groupOf),
			pause.pauseGroupJSON},
		{"POST", "/api/v1/groups/{name}/resume", may(permission.Pause, groupOf),
			pause.resumeGroupJSON},
		{"POST", "/api/v1/pause", may(permission.Pause, nil), pause.pauseAllJSON},
		{"POST", "/api/v1/resume", may(permission.Pause, nil), pause.resumeAllJSON},
		{"POST", "/api/v1/runs/{id}/cancel", may(permission.Cancel, runOf), run.cancelJSON},
		{"POST", "/api/v1/locks/release", may(permission.Release, something), lock.releaseJSON},
		{"POST", "/api/v1/reload", may(permission.Reload, nil), cluster.reloadJSON},
		{"POST", "/api/v1/replicas/{session}/drain", may(permission.Drain, nil), cluster.drainJSON},
		{"POST", "/api/v1/replicas/{session}/undrain", may(permission.Drain, nil),
			cluster.undrainJSON},
		{"POST", "/api/v1/replicas/{session}/remove", may(permission.Drain, nil),
			cluster.removeReplicaJSON},
	}
}

const (
	// maxBody bounds the body of a request: forms and params.
	maxBody = 64 << 10
	// maxJobForm bounds a form with a job, so that it can have a job of maxBody bytes: a browser
	// sends a line break as six bytes, and any other byte as at most three.
	maxJobForm = 6*maxBody + 8<<10
)

// maxBody returns the limit of the body of a request.
func (r route) maxBody() int64 {
	switch r.path {
	case "/add", "/jobs/{name}/change":
		return maxJobForm
	}
	return maxBody
}

// Handler returns the routes with their guards, under Options.Prefix. It may be mounted in another
// server: see Options.Listen.
func (s *Server) Handler() http.Handler {
	return s.site.Prefix.Handler(s.handler(slices.DeleteFunc(s.routes(), s.isLeftOut)))
}

// isLeftOut reports whether the options leave a route out.
func (s *Server) isLeftOut(r route) bool {
	signIn := strings.HasPrefix(r.path, access.SignInPath) || r.path == access.SignOutPath
	return s.options.APIOnly && !strings.HasPrefix(r.path, "/api/") ||
		s.options.Authenticate != nil && signIn
}

func (s *Server) handler(routes []route) http.Handler {
	mux := http.NewServeMux()
	byPath := make(map[string][]route)
	for _, r := range routes {
		mux.Handle(r.method+" "+r.path, http.MaxBytesHandler(
			s.site.Guard.Admit(r.need.level, s.authorized(r.need, r.handle)), r.maxBody()))
		byPath[r.path] = append(byPath[r.path], r)
	}
	for path, same := range byPath {
		level := slices.MinFunc(same, func(a, b route) int {
			return int(a.need.level - b.need.level)
		}).need.level
		mux.Handle(path, s.site.Guard.Admit(level, s.methodNotAllowed(same)))
	}
	mux.Handle("/", s.site.Guard.Admit(access.ForIdentities,
		s.authorized(may(permission.View, something), s.site.NotFound)))
	return pages.Compress(s.site.Guard.WithSource(s.site.RecoverPanics(access.WithHeaders(
		mux, s.options.Listen != ""))))
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
