package admin

import (
	"bytes"
	"embed"
	"fmt"
	"html/template"
	"net/http"
	"slices"
	"time"

	"github.com/google/uuid"
	"github.com/rs/zerolog"

	"github.com/holdfast-dev/holdfast/admin/internal/charts"
	"github.com/holdfast-dev/holdfast/admin/internal/locks"
	"github.com/holdfast-dev/holdfast/admin/internal/param"
	"github.com/holdfast-dev/holdfast/admin/internal/records"
	"github.com/holdfast-dev/holdfast/admin/internal/words"
	"github.com/holdfast-dev/holdfast/jobs/storage"
)

//go:embed templates
var templateFiles embed.FS

// The number of entries that the page shows of each list. The JSON has all.
const (
	shownRunning       = 12
	shownBlockedGroups = 20
	shownFree          = 300
	shownFailures      = 12
	shownPauses        = 5
)

// pages renders the templates. Servers can share it.
type pages struct {
	set    *template.Template
	assets *assets // that the templates link to
}

func newPages() (*pages, error) {
	a, err := newAssets()
	if err != nil {
		return nil, fmt.Errorf("admin assets: %w", err)
	}
	set, err := template.New("").Funcs(template.FuncMap{
		"asset":          a.url,
		"at":             words.NewTime,
		"cut":            words.Cut,
		"ended":          records.Ended,
		"figure":         words.Figure,
		"lasted":         records.Lasted,
		"recent":         recent,
		"eventWords":     eventWords,
		"setting":        settingWords,
		"memcachedError": memcachedError,
		"usage":          usageWords,
		"verdict":        words.Verdict,
		"runs":           newRunList,
		"runsOfOne":      newRunListOfOne,
		"sentence":       words.Sentence,
		"short":          short,
		"since":          records.Since,
		"span":           words.Span,
		"state":          words.State,
		"why":            words.Why,
		"whyWaits":       words.WhyWaits,
		"isRun":          isRun,
		"action":         words.Action,
		"names":          words.Names,
		"offset":         words.Offset,
		"prefix":         words.Prefix,
		"indent":         words.Indented,
		"first":          firstRuns,
		"plot":           charts.NewPlot,
		"strip":          charts.NewStrip,
		"words":          words.ShortReason,
		"jobPath":        param.JobPath,
		"sections":       sections,

		"actionPath":  actionPath,
		"releasePath": locks.ReleasePath,
		"deliverPath": againPath,
		"targetJob": func(name string) storage.Target {
			return storage.Target{Kind: storage.TargetJob, Name: name}
		},
		"targetGroup": func(name string) storage.Target {
			return storage.Target{Kind: storage.TargetGroup, Name: name}
		},
		"targetAll": func() storage.Target { return storage.Target{Kind: storage.TargetAll} },
	}).Funcs(lockFuncs()).ParseFS(templateFiles, "templates/*.html")
	if err != nil {
		return nil, fmt.Errorf("admin templates: %w", err)
	}
	return &pages{set, a}, nil
}

// write renders to a buffer first, so that a failing template leaves no partial page.
func (p *pages) write(w http.ResponseWriter, log zerolog.Logger, status int, name string,
	data any) {
	var body bytes.Buffer
	if err := p.set.ExecuteTemplate(&body, name, data); err != nil {
		log.Error().Err(err).Str("template", name).Msg("admin page could not be rendered")
		writePlain(w, http.StatusInternalServerError,
			"Internal error: the page could not be rendered. The log of this replica has details.")
		return
	}
	writeBody(w, status, "text/html; charset=utf-8", body.Bytes())
}

// message is a page with one text.
type message struct {
	Frame
	Code  int // HTTP status
	Text  string
	Known bool // the sender is identified
}

func (s *Server) overviewPage(w http.ResponseWriter, r *http.Request) {
	if err := param.Only(r, "refresh"); err != nil {
		s.refuse(w, r, http.StatusBadRequest, err.Error())
		return
	}
	show(s, w, r, page[Overview]{
		template: "overview.html", section: "/", title: "Overview", jsonPath: "/api/v1/overview",
		live: true, load: s.reader.overview,
		complete: func(o *Overview, f *Frame) *Overview {
			s.completeOverview(o, f)
			f.Title = o.Title()
			return o
		},
	})
}

// Title returns the title for the browser's tab, with the number of problems.
func (o *Overview) Title() string {
	switch {
	case o.Error != "":
		return "Store does not answer"
	case len(o.Problems) > 0 && o.Problems[0].Severity == Alarm:
		return "Alarm"
	case len(o.Waiting) > 0:
		return words.Figure(len(o.Waiting), "waiting", "waiting")
	}
	return "Overview"
}

// Busy returns the resources that are held or waited for.
func (o *Overview) Busy() []locks.ResourceState {
	var busy []locks.ResourceState
	for _, r := range o.Resources {
		if r.State != locks.HeldNot || r.Waiting > 0 {
			busy = append(busy, r)
		}
	}
	return busy
}

// BlockedGroupsShown returns the groups that the page lists.
func (o *Overview) BlockedGroupsShown() []locks.BlockedGroup {
	all := o.BlockedGroups()
	return all[:min(len(all), shownBlockedGroups)]
}

// BlockedGroupsMore returns the number of groups that the page does not list.
func (o *Overview) BlockedGroupsMore() int {
	return len(o.BlockedGroups()) - len(o.BlockedGroupsShown())
}

// Free returns the resources that are neither held nor waited for.
func (o *Overview) Free() []locks.ResourceState { return o.Resources[len(o.Busy()):] }

// FreeShown returns the free resources that the page lists.
func (o *Overview) FreeShown() []locks.ResourceState {
	return o.Free()[:min(len(o.Free()),
		shownFree)]
}

// FreeMore returns the number of free resources that the page does not list.
func (o *Overview) FreeMore() int { return len(o.Free()) - len(o.FreeShown()) }

// RunningShown returns the oldest running runs, which the page lists.
func (o *Overview) RunningShown() []storage.Record {
	return o.Running[:min(len(o.Running), shownRunning)]
}

// RunningMore returns the number of running runs that the page does not list.
func (o *Overview) RunningMore() int { return len(o.Running) - len(o.RunningShown()) }

// PausesShown returns the pauses that the page lists.
func (o *Overview) PausesShown() []storage.Pause {
	return o.Pauses[:min(len(o.Pauses), shownPauses)]
}

// AllPaused reports whether all jobs are paused.
func (o *Overview) AllPaused() bool {
	return slices.ContainsFunc(o.Pauses, func(p storage.Pause) bool {
		return p.Target.Kind == storage.TargetAll
	})
}

// PausesMore returns the number of pauses that the page does not list.
func (o *Overview) PausesMore() int { return len(o.Pauses) - len(o.PausesShown()) }

// FailuresShown returns the jobs with the most failures, which the page lists.
func (o *Overview) FailuresShown() []JobFailures {
	return o.FailuresByJob[:min(len(o.FailuresByJob), shownFailures)]
}

// FailuresMore returns the number of jobs with failures that the page does not list.
func (o *Overview) FailuresMore() int { return len(o.FailuresByJob) - len(o.FailuresShown()) }

// firstRuns returns the first n of a list.
func firstRuns(runs []storage.Record, n int) []storage.Record { return runs[:min(len(runs), n)] }

// isRun reports whether a text, such as a holder's run, is a run's id.
func isRun(id string) bool { return uuid.Validate(id) == nil }

// short returns the end of an id, which is its random part. Logs contain it, too.
func short(id string) string {
	if len(id) <= 8 {
		return id
	}
	return "…" + id[len(id)-8:]
}

// runList is a list of runs for the template.
type runList struct {
	Now     time.Time
	Runs    []storage.Record
	One     bool // all runs have the same job
	Actions bool // each run has links to its actions
}

// For returns the list with or without links to actions.
func (l runList) For(actions bool) runList {
	l.Actions = actions
	return l
}

func newRunList(now time.Time, runs []storage.Record) runList {
	return runList{Now: now, Runs: runs}
}

func newRunListOfOne(now time.Time, runs []storage.Record) runList {
	return runList{Now: now, Runs: runs, One: true}
}
