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
	Listen(ctx context.Context, heard func()) error
}

const (
	// lookEvery is how often the store is asked where topics stand. The question
	// is the same however many watch.
	lookEvery = time.Second
	// leastGap is between two actions that are heard of: of many, one is told.
	leastGap = 100 * time.Millisecond
	// lingers is how long the hub listens on when nobody watches any more: who
	// goes from page to page comes back at once.
	lingers = 10 * time.Second
	// maxStreams bounds the streams of a replica, well below maxConnections:
	// streams keep theirs.
	maxStreams = 128

	listenAgain  = time.Second // after listening ended, at first
	listenRarest = 30 * time.Second
)

var (
	errManyStreams = errors.New("too many watch this replica: ask again later, or watch another")
	errClosing     = errors.New("this replica is shutting down")
)

// hub learns what changes in the cluster, and tells the streams of this replica.
// It asks and listens only while there are any. Operators' acts are heard of at
// once, everything else is found by asking for marks.
type hub struct {
	source Changes
	ask    func(ctx context.Context, question func(ctx context.Context) error) error
	heard  chan struct{} // holds a value when somebody has acted
	began  chan struct{} // holds a value when listening has begun

	ctx   context.Context // ends with close
	close context.CancelCauseFunc
	done  sync.WaitGroup

	mu        sync.Mutex
	streams   map[*stream]bool
	left      time.Time // when the last one did
	following bool
	stands    position // as last asked
	asked     time.Time
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

func newHub(source Changes, ask func(ctx context.Context,
	question func(ctx context.Context) error) error) *hub {
	h := &hub{
		source: source, ask: ask, streams: make(map[*stream]bool),
		heard: make(chan struct{}, 1), began: make(chan struct{}, 1),
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
	if !h.following {
		h.following = true
		h.done.Go(h.follow)
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
	stands, recent := h.stands, time.Since(h.asked) < lookEvery
	h.mu.Unlock()
	if !recent {
		h.look(ctx)
		h.mu.Lock()
		defer h.mu.Unlock()
		return h.stands
	}
	return stands
}

// stop ends all streams, and returns when nothing of the hub goes on.
func (h *hub) stop() {
	h.mu.Lock()
	h.close(errClosing)
	h.mu.Unlock() // nobody joins any more
	h.done.Wait()
}

// follow goes on until nobody has watched for a while.
func (h *hub) follow() {
	ctx, cancel := context.WithCancel(h.ctx)
	var listening sync.WaitGroup
	defer listening.Wait()
	defer cancel()
	listening.Go(func() { h.listen(ctx) })
	every := time.NewTicker(lookEvery)
	defer every.Stop()
	for h.watched() {
		if h.streaming() {
			h.look(ctx)
		}
		if !h.hear(ctx, every.C) {
			return
		}
	}
}

// hear tells of actions until it is time to look: after a while, and at once when
// listening begins, because nobody hears an action between the last look and that.
// It returns false when ctx ended before.
func (h *hub) hear(ctx context.Context, until <-chan time.Time) bool {
	for {
		select {
		case <-until:
			return true
		case <-h.began:
			return true
		case <-h.heard:
			h.tell(nil)
			wait(ctx, leastGap)
		case <-ctx.Done():
			return false
		}
	}
}

// watched reports whether following goes on; it is called by follow alone.
func (h *hub) watched() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.following = len(h.streams) > 0 || time.Since(h.left) < lingers
	return h.following
}

// listen hears of actions at once. What is missed while it can't is found by asking.
func (h *hub) listen(ctx context.Context) {
	for delay := listenAgain; ctx.Err() == nil; delay = min(2*delay, listenRarest) {
		var listens atomic.Bool
		begun := time.Now()
		_ = h.source.Listen(ctx, func() {
			// why it ended is logged by the replica, which listens too
			if listens.Swap(true) {
				signal(h.heard)
			} else {
				signal(h.began)
			}
		})
		if time.Since(begun) > listenRarest {
			delay = listenAgain
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

// streaming reports whether there is anybody to tell.
func (h *hub) streaming() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return len(h.streams) > 0
}

// look asks where topics stand. Where that can't be asked nothing is told: pages
// ask again by themselves, and say so.
func (h *hub) look(ctx context.Context) {
	var marks jobs.Marks
	err := h.ask(ctx, func(ctx context.Context) (err error) {
		marks, err = h.source.Marks(ctx)
		return err
	})
	if err == nil {
		h.tell(positionOf(marks))
	}
}

// tell tells each stream which of its topics have changed; a nil position is
// that all may have.
func (h *hub) tell(now position) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if now != nil {
		h.stands, h.asked = now, time.Now()
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
