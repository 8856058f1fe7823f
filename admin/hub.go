package admin

import (
	"context"
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/holdfast-dev/holdfast/jobs"
)

// Changes tells that something has changed in the cluster. jobs.Store
// implements it.
type Changes interface {
	jobs.Marked
	// Listen is as in jobs.Control.
	Listen(ctx context.Context, changed func()) error
}

const (
	// pollInterval is how often the store is asked where topics stand. The question
	// is the same however many watch.
	pollInterval = time.Second
	// minGap is between two actions that are changed of: of many, one is told.
	minGap = 100 * time.Millisecond
	// lingerTime is how long the hub listens on when nobody watches any more: who
	// goes from page to page comes back at once.
	lingerTime = 10 * time.Second
	// maxStreams bounds the streams of a replica, well below maxConnections:
	// streams keep theirs.
	maxStreams = 128

	relistenDelay    = time.Second // after listening ended, at first
	maxRelistenDelay = 30 * time.Second
)

var (
	errManyStreams = errors.New("too many watch this replica: ask again later, or watch another")
	errClosing     = errors.New("this replica is shutting down")
)

// hub learns what changes in the cluster, and tells the streams of this replica.
// It asks and listens only while there are any. Operators' acts are changed of at
// once, everything else is found by asking for marks.
type hub struct {
	source    Changes
	query     func(ctx context.Context, load func(ctx context.Context) error) error
	changed   chan struct{} // holds a value when somebody has acted
	listening chan struct{} // holds a value when listening has begun

	ctx   context.Context // ends with close
	close context.CancelCauseFunc
	done  sync.WaitGroup

	mu      sync.Mutex
	streams map[*stream]bool
	left    time.Time // when the last one did
	running bool
	latest  position // as last asked
	asked   time.Time
}

// stream is somebody who watches some topics.
type stream struct {
	topics []jobs.Topic
	wake   chan struct{} // holds a value when there is news

	// Guarded by the hub's mu. What is not taken yet is kept by topic: who reads
	// slowly has no queue.
	seen position
	news []jobs.Topic
}

func newHub(source Changes, query func(ctx context.Context,
	load func(ctx context.Context) error) error) *hub {
	h := &hub{
		source: source, query: query, streams: make(map[*stream]bool),
		changed: make(chan struct{}, 1), listening: make(chan struct{}, 1),
	}
	h.ctx, h.close = context.WithCancelCause(context.Background())
	return h
}

// join adds a stream that has seen the topics as they stood at since. It is told
// of everything that has changed since then.
func (h *hub) join(topics []jobs.Topic, since position) (*stream, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	switch {
	case h.ctx.Err() != nil:
		return nil, errClosing
	case len(h.streams) >= maxStreams:
		return nil, errManyStreams
	}
	st := &stream{topics: topics, wake: make(chan struct{}, 1), seen: since}
	h.streams[st] = true
	if !h.running {
		h.running = true
		h.done.Go(h.run)
	}
	return st, nil
}

func (h *hub) leave(st *stream) {
	h.mu.Lock()
	defer h.mu.Unlock()
	delete(h.streams, st)
	h.left = time.Now()
}

// take returns what the stream is to be told, and where topics stand with that.
func (h *hub) take(st *stream) ([]jobs.Topic, position) {
	h.mu.Lock()
	defer h.mu.Unlock()
	news := st.news
	st.news = nil
	return news, st.seen
}

// position is where topics stood when it was called, or a little before; nil
// where that can't be asked.
func (h *hub) position(ctx context.Context) position {
	h.mu.Lock()
	latest, recent := h.latest, time.Since(h.asked) < pollInterval
	h.mu.Unlock()
	if !recent {
		h.poll(ctx)
		h.mu.Lock()
		defer h.mu.Unlock()
		return h.latest
	}
	return latest
}

// stop ends all streams, and returns when nothing of the hub goes on.
func (h *hub) stop() {
	h.mu.Lock()
	h.close(errClosing)
	h.mu.Unlock() // nobody joins any more
	h.done.Wait()
}

// run goes on until nobody has watched for a while.
func (h *hub) run() {
	ctx, cancel := context.WithCancel(h.ctx)
	var listener sync.WaitGroup
	defer listener.Wait()
	defer cancel()
	listener.Go(func() { h.listen(ctx) })
	every := time.NewTicker(pollInterval)
	defer every.Stop()
	for h.keepRunning() {
		if h.hasStreams() {
			h.poll(ctx)
		}
		if !h.waitForPoll(ctx, every.C) {
			return
		}
	}
}

// waitForPoll tells of actions until it is time to look: after a while, and at once when
// listening begins, because nobody hears an action between the last look and that.
// It returns false when ctx ended before.
func (h *hub) waitForPoll(ctx context.Context, until <-chan time.Time) bool {
	for {
		select {
		case <-until:
			return true
		case <-h.listening:
			return true
		case <-h.changed:
			h.notify(nil)
			wait(ctx, minGap)
		case <-ctx.Done():
			return false
		}
	}
}

// keepRunning reports whether following goes on; it is called by run alone.
func (h *hub) keepRunning() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.running = len(h.streams) > 0 || time.Since(h.left) < lingerTime
	return h.running
}

// listen hears of actions at once. What is missed while it can't is found by asking.
func (h *hub) listen(ctx context.Context) {
	for delay := relistenDelay; ctx.Err() == nil; delay = min(2*delay, maxRelistenDelay) {
		var listens atomic.Bool
		begun := time.Now()
		_ = h.source.Listen(ctx, func() {
			// why it ended is logged by the replica, which listens too
			if listens.Swap(true) {
				signal(h.changed)
			} else {
				signal(h.listening)
			}
		})
		if time.Since(begun) > maxRelistenDelay {
			delay = relistenDelay
		}
		wait(ctx, delay)
	}
}

// signal puts a value into a channel that holds one, unless it has one already.
func signal(c chan<- struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

func wait(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}

// hasStreams reports whether there is anybody to tell.
func (h *hub) hasStreams() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return len(h.streams) > 0
}

// poll asks where topics stand. Where that can't be asked nothing is told: pages
// query again by themselves, and say so.
func (h *hub) poll(ctx context.Context) {
	var marks jobs.Marks
	err := h.query(ctx, func(ctx context.Context) (err error) {
		marks, err = h.source.Marks(ctx)
		return err
	})
	if err == nil {
		h.notify(positionOf(marks))
	}
}

// notify tells each stream which of its topics have changed; a nil position is
// that all may have.
func (h *hub) notify(now position) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if now != nil {
		h.latest, h.asked = now, time.Now()
	}
	for st := range h.streams {
		for _, topic := range st.topics {
			if (now == nil || st.seen[topic] != now[topic]) && !slices.Contains(st.news, topic) {
				st.news = append(st.news, topic)
			}
		}
		if now != nil {
			st.seen = now
		}
		if len(st.news) > 0 {
			signal(st.wake)
		}
	}
}
