package admin

import (
	"context"
	"errors"
	"fmt"
	"math"
	"net/http"
	"net/url"
	"slices"
	"time"

	"github.com/holdfast-dev/holdfast/jobs"
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

// Frame is what every page shows around its own content.
type Frame struct {
	Title    string
	Section  string    // the path of its entry in the navigation
	Address  string    // of the page itself, to ask again
	JSONPath string    // the same as JSON
	Now      time.Time // by the store's clock; zero where no state is known
	Status   Status
	ServedBy ServedBy
	Account  Identity
	Actions  bool          // they may act here
	Notice   *notice       // of what they have done, if this page follows an action
	Error    string        // why the store did not answer
	Stale    bool          // it did not: what is shown is the last state known
	Age      time.Duration // of that
	Refresh  int           // seconds after which the page asks again; 0: it does not
	Every    int           // of a page that may; 0: none does
	Still    string        // the address of the page that does not ask again
	Events   string        // where it hears that it should; "": nowhere
	Fields   bool          // it has some to fill in: it must not reload under somebody's hands
}

// Known reports whether there is any state to show.
func (f Frame) Known() bool { return !f.Now.IsZero() }

// view is a page as its template sees it.
type view[T any] struct {
	Frame
	Page *T // nil where nothing is known of it
}

// snapshot is what every page asks of the store, beside its own content.
type snapshot struct {
	now      time.Time
	replicas []Replica
}

func (r *reader) snapshot(ctx context.Context) (p snapshot, err error) {
	if p.now, err = r.now(ctx); err != nil {
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

// page says how one page is made. Its parameters have been read before: what
// load asks is the store.
type page[T any] struct {
	template string
	section  string
	title    string
	jsonPath string       // "": as the page, under /api/v1
	live     bool         // asks again by itself
	fields   bool         // has some to fill in
	topics   []jobs.Topic // what it shows; none: everything
	load     func(ctx context.Context, p snapshot) (T, error)
	// complete adds what only the server knows, and returns what the status is
	// judged by, where that is more than every page has. May be nil.
	complete func(*T, *Frame) *Overview
}

// show answers with a page. While the store does not answer, that is the page
// as this replica saw it last, marked stale.
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
		// as topics stand before the store is asked
		f.Events = s.eventsAddress(r.Context(), p.topics)
	}
	snap, content, status, err := queryOrCached(s, r.Context(), f.Address, &f, p.load)
	var bad *badRequest
	switch {
	case errors.As(err, &bad):
		s.refuse(w, r, http.StatusBadRequest, bad.text)
		return
	case errors.Is(err, jobs.ErrNotFound):
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

// queryOrCached asks a question together with the pulse, or returns what it was
// answered last. Mistakes of the caller are returned; that the store does not
// answer is noted in the frame.
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
	var bad *badRequest
	switch {
	case err == nil:
		s.storeAnswered()
		s.pageCache.put(key, snap, &content)
		return snap, &content, http.StatusOK, nil
	case errors.As(err, &bad), errors.Is(err, jobs.ErrNotFound):
		return snapshot{}, nil, 0, err
	}
	s.storeFailed(ctx, err)
	f.Error = storeTrouble(err)
	snap, known, age := s.pageCache.lookup(key)
	last, ok := known.(*T)
	if !ok {
		return snapshot{}, nil, http.StatusServiceUnavailable, nil
	}
	f.Stale, f.Age, f.Actions = true, age, false // no action can be done now
	copied := *last
	return snap, &copied, http.StatusServiceUnavailable, nil
}

// frame begins the frame of a page. Every page takes refresh=off.
func (s *Server) frame(r *http.Request, section, title string, live bool) (Frame, error) {
	query := r.URL.Query()
	refresh := query["refresh"]
	if len(refresh) > 0 && !slices.Equal(refresh, []string{"off"}) {
		return Frame{}, &badRequest{fmt.Sprintf("refresh is %q, expected off",
			cut(refresh[0], 100))}
	}
	query.Del("refresh")
	f := Frame{Title: title, Section: section, Account: identityOf(r),
		Address: address(r.URL.EscapedPath(), query), Notice: s.noticeFor(r)}
	f.Actions = f.Account.Role == Operator && s.options.Operations != nil
	if live {
		f.Every = int(math.Ceil(s.options.Refresh.Seconds()))
		if len(refresh) == 0 {
			f.Refresh = f.Every
		}
		query.Set("refresh", "off")
		f.Still = address(r.URL.EscapedPath(), query)
	}
	return f, nil
}

// address puts a path and a query together.
func address(path string, query url.Values) string {
	if len(query) == 0 {
		return path
	}
	return path + "?" + query.Encode()
}

// Status is the state of the cluster in words.
type Status struct {
	Parts    []StatusPart // those with trouble first
	Problems []Problem    // the worst first
}

// StatusPart is the state of one part of the cluster.
type StatusPart struct {
	Name string
	Mood string // calm, notice or alarm
	Text string
}

// Mood is the worst of what is known.
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

// Alarms returns the problems to show before anything else.
func (s Status) Alarms() []Problem { return s.of(Alarm) }

// Notices returns the other problems.
func (s Status) Notices() []Problem { return s.of(Notice) }

func (s Status) of(severity Severity) []Problem {
	return slices.DeleteFunc(slices.Clone(s.Problems), func(p Problem) bool {
		return p.Severity != severity
	})
}

// status judges what is known of the cluster.
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
		case ReplicaBeating:
			if part.Mood == "alarm" {
				part.Mood = "calm"
			}
		case ReplicaLate:
			part.Mood = "notice"
		}
	}
	if slices.ContainsFunc(replicas, func(r Replica) bool { return r.State == ReplicaSilent }) {
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
	of := plural(len(servers), "server", "servers")
	many := func(n int, one, more string) string {
		if len(servers) == 1 {
			return "its server " + one
		}
		return fmt.Sprintf("%s of %s %s", number(n), of, verb(n, one, more))
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
		part.Text = of + verb(len(servers), " answers", " answer")
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
