package admin

import (
	"context"
	"errors"
	"fmt"
	"math"
	"net/http"
	"slices"
	"time"

	"github.com/holdfast-dev/holdfast/admin/internal/access"
	"github.com/holdfast-dev/holdfast/admin/internal/param"
	"github.com/holdfast-dev/holdfast/admin/internal/words"
	"github.com/holdfast-dev/holdfast/jobs/storage"
	"github.com/holdfast-dev/holdfast/locking/memcached"
)

// section is an entry of the navigation.
type section struct{ Path, Name string }

func sections() []section {
	return []section{
		{"/", "Overview"}, {"/locks", "Locks"}, {"/jobs", "Jobs"}, {"/runs", "Runs"},
		{"/replicas", "Replicas"}, {"/webhooks", "Webhooks"}, {"/audit", "Audit"},
	}
}

// Frame is the part that all pages share.
type Frame struct {
	Title    string
	Section  string    // path of the current navigation entry
	Address  string    // of the page itself, for refreshes
	JSONPath string    // address of the same data as JSON
	Now      time.Time // by the store's clock; zero if no state is known
	Status   Status
	ServedBy ServedBy
	Account  access.Identity
	Actions  bool          // the viewer may act
	Notice   *notice       // the result of an action, if this page follows one
	Error    string        // why the store did not answer
	Stale    bool          // the page is a cached copy, because the store did not answer
	Age      time.Duration // of the cached copy
	Refresh  int           // refresh interval in seconds, or 0
	Every    int           // refresh interval if the viewer had not stopped it, or 0
	Still    string        // address of the page without refreshes
	Events   string        // address of the event stream, or ""
	Fields   bool          // the page has input fields, so it must not reload by itself
}

// Known reports whether there is any state to show.
func (f Frame) Known() bool { return !f.Now.IsZero() }

// view is the data of a template.
type view[T any] struct {
	Frame
	Page *T // nil if nothing is known
}

// snapshot is the state that every page needs beside its own content.
type snapshot struct {
	now      time.Time
	replicas []Replica
}

func (r *reader) snapshot(ctx context.Context) (p snapshot, err error) {
	if p.now, err = r.Now(ctx); err != nil {
		return p, err
	}
	found, err := r.replicas(ctx)
	if err != nil {
		return p, err
	}
	p.replicas = make([]Replica, 0, len(found))
	for _, v := range found {
		p.replicas = append(p.replicas, Replica{ReplicaView: v, State: replicaState(v, p.now)})
	}
	return p, nil
}

// page describes how a page is made. Its parameters are parsed before, so load only queries the
// store.
type page[T any] struct {
	template string
	section  string
	title    string
	jsonPath string          // "": the page's address under /api/v1
	live     bool            // refreshes itself
	fields   bool            // has input fields
	topics   []storage.Topic // topics that the page shows; none: all
	load     func(ctx context.Context, p snapshot) (T, error)
	// complete adds what only the server knows. It returns the overview for the status, or nil if
	// the snapshot suffices. It may be nil.
	complete func(*T, *Frame) *Overview
}

// show writes a page. If the store does not answer, it writes the copy that this replica cached
// last, marked as stale.
func show[T any](s *Server, w http.ResponseWriter, r *http.Request, p page[T]) {
	f, err := s.frame(r, p.section, p.title, p.live)
	if err != nil {
		s.refuse(w, r, http.StatusBadRequest, err.Error())
		return
	}
	if f.JSONPath = p.jsonPath; f.JSONPath == "" {
		f.JSONPath = "/api/v1" + f.Address
	}
	if f.Fields = p.fields; f.Refresh > 0 {
		// the position before the store is queried
		f.Events = s.eventsAddress(r.Context(), p.topics)
	}
	snap, content, status, err := queryOrCached(s, r.Context(), f.Address, &f, p.load)
	var bad *param.Error
	switch {
	case errors.As(err, &bad):
		s.refuse(w, r, http.StatusBadRequest, bad.Text)
		return
	case errors.Is(err, storage.ErrNotFound):
		s.refuse(w, r, http.StatusNotFound, err.Error())
		return
	}
	f.Now, f.ServedBy = snap.now, s.servedBy(r.Context())
	judged := &Overview{Now: snap.now, Replicas: snap.replicas, ServedBy: f.ServedBy,
		Memcached: s.memcached(), Error: f.Error}
	if content != nil && p.complete != nil {
		if own := p.complete(content, &f); own != nil {
			judged = own
		}
	}
	f.Status = s.status(judged)
	s.pages.write(w, s.log, status, p.template, view[T]{f, content})
}

// queryOrCached runs load with a snapshot, or returns the cached result if the store does not
// answer. It returns errors of the caller, and notes errors of the store in the frame.
func queryOrCached[T any](s *Server, ctx context.Context, key string, f *Frame,
	load func(context.Context, snapshot) (T, error)) (snapshot, *T, int, error) {
	var snap snapshot
	var content T
	err := s.reader.query(ctx, func(ctx context.Context) (err error) {
		if snap, err = s.reader.snapshot(ctx); err != nil {
			return err
		}
		content, err = load(ctx, snap)
		return err
	})
	var bad *param.Error
	switch {
	case err == nil:
		s.storeAnswered()
		s.pageCache.put(key, snap, &content)
		return snap, &content, http.StatusOK, nil
	case errors.As(err, &bad), errors.Is(err, storage.ErrNotFound):
		return snapshot{}, nil, 0, err
	}
	s.storeFailed(ctx, err)
	f.Error = storeTrouble(err)
	snap, known, age := s.pageCache.lookup(key)
	last, ok := known.(*T)
	if !ok {
		return snapshot{}, nil, http.StatusServiceUnavailable, nil
	}
	f.Stale, f.Age, f.Actions = true, age, false // the store accepts no actions now
	copied := *last
	return snap, &copied, http.StatusServiceUnavailable, nil
}

// frame begins the frame of a page. Every page accepts refresh=off.
func (s *Server) frame(r *http.Request, section, title string, live bool) (Frame, error) {
	query := r.URL.Query()
	refresh := query["refresh"]
	if len(refresh) > 0 && !slices.Equal(refresh, []string{"off"}) {
		return Frame{}, param.Errorf("refresh is %q, expected off",
			words.Cut(refresh[0], 100))
	}
	query.Del("refresh")
	f := Frame{Title: title, Section: section, Account: access.IdentityOf(r),
		Address: param.Address(r.URL.EscapedPath(), query), Notice: s.noticeFor(r)}
	f.Actions = f.Account.Role == Operator && s.options.Operations != nil
	if live {
		f.Every = int(math.Ceil(s.options.Refresh.Seconds()))
		if len(refresh) == 0 {
			f.Refresh = f.Every
		}
		query.Set("refresh", "off")
		f.Still = param.Address(r.URL.EscapedPath(), query)
	}
	return f, nil
}

// Status is the state of the cluster in words.
type Status struct {
	Parts    []StatusPart // worst first
	Problems []Problem    // worst first
}

// StatusPart is the state of one part of the cluster.
type StatusPart struct {
	Name string
	Mood string // calm, notice or alarm
	Text string
}

// Mood returns the worst mood of all parts and problems.
func (s Status) Mood() string {
	worst := "calm"
	for _, p := range s.Problems {
		worst = worse(worst, p.mood())
	}
	for _, p := range s.Parts {
		worst = worse(worst, p.Mood)
	}
	return worst
}

// Alarms returns the problems with the severity alarm.
func (s Status) Alarms() []Problem { return s.of(Alarm) }

// Notices returns the problems with the severity notice.
func (s Status) Notices() []Problem { return s.of(Notice) }

func (s Status) of(severity Severity) []Problem {
	return slices.DeleteFunc(slices.Clone(s.Problems), func(p Problem) bool {
		return p.Severity != severity
	})
}

// status returns the status of the cluster.
func (s *Server) status(o *Overview) Status {
	parts := []StatusPart{{s.options.storeName(), "calm", "answers"}}
	if o.Error != "" {
		parts[0].Mood, parts[0].Text = "alarm", "does not answer"
	}
	if !o.Now.IsZero() {
		parts = append(parts, clusterPart(o.Replicas))
	}
	if o.Memcached != nil {
		parts = append(parts, memcachedPart(o.Memcached.Servers))
	}
	slices.SortStableFunc(parts, func(a, b StatusPart) int {
		return moodRank(b.Mood) - moodRank(a.Mood)
	})
	return Status{Parts: parts, Problems: problems(o)}
}

func clusterPart(replicas []Replica) StatusPart {
	part := StatusPart{Name: "Cluster", Mood: "alarm", Text: replicaSummary(replicas)}
	for _, r := range replicas {
		switch r.State {
		case ReplicaLive:
			if part.Mood == "alarm" {
				part.Mood = "calm"
			}
		case ReplicaLate:
			part.Mood = "notice"
		}
	}
	if slices.ContainsFunc(replicas, func(r Replica) bool { return r.State == ReplicaExpired }) {
		part.Mood = "alarm"
	}
	return part
}

func memcachedPart(servers []memcached.Health) StatusPart {
	counts := make(map[memcached.State]int)
	for _, h := range servers {
		counts[h.State]++
	}
	part := StatusPart{Name: "memcached", Mood: "calm"}
	of := words.Plural(len(servers), "server", "servers")
	many := func(n int, one, more string) string {
		if len(servers) == 1 {
			return "its server " + one
		}
		return fmt.Sprintf("%s of %s %s", words.Number(n), of, words.Verb(n, one, more))
	}
	switch gone, unsafe, unknown := counts[memcached.StateUnreachable],
		counts[memcached.StateUnsafe], counts[memcached.StateUnknown]; {
	case gone > 0:
		part.Mood, part.Text = "notice", many(gone, "does not answer", "do not answer")
	case unsafe > 0:
		part.Mood, part.Text = "notice",
			many(unsafe, "is not safe for locks", "are not safe for locks")
	case unknown > 0:
		part.Text = many(unknown, "is not asked yet", "are not asked yet")
	default:
		part.Text = of + words.Verb(len(servers), " answers", " answer")
	}
	return part
}

func moodRank(mood string) int { return slices.Index([]string{"calm", "notice", "alarm"}, mood) }

func worse(a, b string) string {
	if moodRank(b) > moodRank(a) {
		return b
	}
	return a
}
