package pages

import (
	"bytes"
	"embed"
	"fmt"
	"html/template"
	"io/fs"
	"net/http"
	"path"
	"strings"
	"sync"
	"time"

	"github.com/google/uuid"

	"github.com/holdfast-dev/holdfast/admin/internal/charts"
	"github.com/holdfast-dev/holdfast/admin/internal/cluster"
	"github.com/holdfast-dev/holdfast/admin/internal/locks"
	"github.com/holdfast-dev/holdfast/admin/internal/param"
	"github.com/holdfast-dev/holdfast/admin/internal/records"
	"github.com/holdfast-dev/holdfast/admin/internal/words"
	"github.com/holdfast-dev/holdfast/jobs/storage"
)

//go:embed templates
var templateFiles embed.FS

// Templates are the parsed templates of all pages. Servers can share them.
type Templates struct {
	set    *template.Template
	Assets *Assets // that the templates link to
	// buffers are those of pages, for use again. A page is large, and its buffer grows in steps.
	buffers sync.Pool
}

// NewTemplates parses the templates.
func NewTemplates() (*Templates, error) {
	a, err := newAssets()
	if err != nil {
		return nil, fmt.Errorf("admin assets: %w", err)
	}
	set := template.New("").Funcs(template.FuncMap{
		"asset":          a.url,
		"at":             words.NewTime,
		"cut":            words.Cut,
		"ended":          records.Ended,
		"facts":          words.Facts,
		"figure":         words.Figure,
		"count":          words.Count,
		"grouped":        words.Grouped,
		"title":          words.Title,
		"lasted":         records.Lasted,
		"attemptLasted":  records.AttemptLasted,
		"waitedFor":      records.WaitedFor,
		"oneLine":        words.OneLine,
		"recent":         cluster.RecentEvents,
		"eventWords":     cluster.EventWords,
		"setting":        cluster.SettingWords,
		"memcachedError": cluster.ServerError,
		"unbroken":       words.Unbroken,
		"usage":          cluster.UsageWords,
		"verdict":        words.Verdict,
		"runs":           newRunList,
		"runsOfOne":      newRunListOfOne,
		"waitingRuns":    newWaitingRuns,
		"rootRun":        newRootRunAt,
		"sentence":       words.Sentence,
		"short":          Short,
		"since":          records.Since,
		"startsLater":    func(now time.Time, r storage.Record) bool { return r.StartsLater(now) },
		"span":           words.Span,
		"state":          words.State,
		"svg":            func(f charts.Fragment) template.HTML { return template.HTML(f) },
		"why":            words.Why,
		"isRun":          isRun,
		"action":         words.Action,
		"key":            keyOf,
		"names":          words.Names,
		"offset":         words.Offset,
		"obstacle":       newObstacle,
		"prefix":         words.Prefix,
		"indent":         words.Indented,
		"backfills":      newBackfillList,
		"backfill":       newBackfillAt,
		"backfillClass":  backfillClass,
		"ofBackfill":     func(r storage.Record) bool { return r.Backfill != uuid.Nil },
		"progress":       charts.NewProgress,
		"relativeTime":   fragment((*HTML).Relative),
		"clockTime":      fragment((*HTML).Clock),
		"passedTime":     fragment((*HTML).Passed),
		"tickingTime":    fragment((*HTML).Ticking),
		"comingTime":     fragment((*HTML).Coming),
		"jobLink":        fragment((*HTML).Job),
		"runLink":        fragment((*HTML).Run),
		"first":          firstRuns,
		"histogram":      charts.NewHistogram,
		"scatter":        charts.NewScatter,
		"problemRows":    problemRows,
		"runningRows":    runningRows,
		"nextRows":       nextRows,
		"failingRows":    failingRows,
		"failureRows":    failureRows,
		"waitTreeRows":   waitTreeRows,
		"hourRows":       hourRows,
		"words":          words.ShortReason,
		"jobPath":        param.JobPath,
		"explainPath":    param.ExplainPath,
		"explainForm":    newExplainForm,
		"backfillPath":   param.BackfillPath,
		"backfillsPath":  param.BackfillsPath,
		"sections":       sections,
		"themes":         themes,
		"zones":          zones,

		"actionPath":  param.ActionPath,
		"releasePath": locks.ReleasePath,
		"deliverPath": param.AgainPath,
		"targetGroup": func(name string) storage.Target {
			return storage.Target{Kind: storage.TargetGroup, Name: name}
		},
	}).Funcs(lockFuncs())
	if err := parse(set); err != nil {
		return nil, fmt.Errorf("admin templates: %w", err)
	}
	return &Templates{set: set, Assets: a}, nil
}

// actionFrame is the frame of the pages of actions.
const actionFrame = "action.html"

// parse adds all templates to the set. For a file of the folder actions, it adds a page of the name
// of the file, which is the frame with the parts that the file defines.
func parse(set *template.Template) error {
	frame, err := templateFiles.ReadFile("templates/" + actionFrame)
	if err != nil {
		return err
	}
	return fs.WalkDir(templateFiles, "templates", func(file string, entry fs.DirEntry,
		err error) error {
		if err != nil || entry.IsDir() || entry.Name() == actionFrame {
			return err
		}
		text, err := templateFiles.ReadFile(file)
		if err != nil {
			return err
		}
		page := entry.Name()
		if path.Base(path.Dir(file)) == "actions" {
			ofAction := strings.ReplaceAll(string(frame), "NAME", strings.TrimSuffix(page, ".html"))
			if _, err := set.New(page).Parse(unindented(ofAction)); err != nil {
				return err
			}
			page = file // a template without content
		}
		_, err = set.New(page).Parse(unindented(string(text)))
		return err
	})
}

// unindented returns a template without the indentation of its lines, which each answer would have
// once per row. Lines end between two tags only, so that no tag and no sentence has a line break.
func unindented(text string) string {
	var b strings.Builder
	before := ""
	for line := range strings.SplitSeq(strings.TrimSpace(text), "\n") {
		line = strings.TrimLeft(line, " ")
		switch {
		case b.Len() == 0:
		case strings.HasSuffix(before, ">") && strings.HasPrefix(line, "<"):
			b.WriteByte('\n')
		default:
			b.WriteByte(' ')
		}
		b.WriteString(line)
		before = line
	}
	b.WriteByte('\n')
	return b.String()
}

// Write renders a page. It renders to a buffer first, so that a failing template leaves no partial
// page.
func (s *Site) Write(w http.ResponseWriter, status int, name string, data any) {
	body := s.Templates.buffer()
	defer s.Templates.keep(body)
	if err := s.Templates.set.ExecuteTemplate(body, name, data); err != nil {
		s.Log.Error().Err(err).Str("template", name).Msg("admin page could not be rendered")
		WritePlain(w, http.StatusInternalServerError,
			"Internal error: the page could not be rendered. The log of this replica has details.")
		return
	}
	WriteBody(w, status, "text/html; charset=utf-8", s.Prefix.Links(body.Bytes()))
}

// maxKeptBuffer bounds the memory of a buffer that is kept for the next page, in bytes.
const maxKeptBuffer = 1 << 20

// buffer returns an empty buffer for a page.
func (t *Templates) buffer() *bytes.Buffer {
	if b, isKept := t.buffers.Get().(*bytes.Buffer); isKept {
		return b
	}
	return new(bytes.Buffer)
}

// keep keeps a buffer for the next page. Nobody may use it afterwards.
func (t *Templates) keep(b *bytes.Buffer) {
	if b.Cap() <= maxKeptBuffer {
		b.Reset()
		t.buffers.Put(b)
	}
}

// keyOf is Key for templates, which have values of several types.
func keyOf(kind string, of ...any) string {
	texts := make([]string, len(of))
	for i, one := range of {
		texts[i] = fmt.Sprint(one)
	}
	return Key(kind, texts...)
}
