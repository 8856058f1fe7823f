package admin

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/rs/zerolog"

	"github.com/holdfast-dev/holdfast/admin/internal/access"
	"github.com/holdfast-dev/holdfast/internal/sleep"
	"github.com/holdfast-dev/holdfast/jobs/storage"
)

// Changes reports changes in the cluster. storage.Store implements it.
type Changes interface {
	storage.Marked
	// Listen is as in storage.Control.
	Listen(ctx context.Context, changed func()) error
}

const (
	// pollInterval is how often the hub queries the positions of all topics. The query does not
	// depend on the number of streams.
	pollInterval = time.Second
	// minGap is the minimum time between two notifications of actions.
	minGap = 100 * time.Millisecond
	// lingerTime is how long the hub goes on after the last stream has ended, because a user who
	// changes pages reconnects at once.
	lingerTime = 10 * time.Second
	// maxStreams bounds the streams of a replica. It is well below MaxConnections, because each
	// stream occupies a connection.
	maxStreams = 128
	// maxIdentityStreams and maxAddressStreams bound the streams of one identity and of one client
	// address, so that neither can take all.
	maxIdentityStreams = 32
	maxAddressStreams  = 64

	relistenDelay    = time.Second // initial delay after Listen returned
	maxRelistenDelay = 30 * time.Second
)

var (
	errManyStreams = errors.New("open event stream: too many streams on this replica")
	errOwnStreams  = errors.New("open event stream: too many streams of this user or address")
	errClosing     = errors.New("this replica is shutting down")
)

// hub detects changes in the cluster and notifies the streams of this replica. It works only while
// there are streams. Listen reports operators' actions at once. Polling finds all other changes.
type hub struct {
	source    Changes
	query     func(ctx context.Context, load func(ctx context.Context) error) error
	log       zerolog.Logger
	changed   chan struct{} // holds a value after an action
	listening chan struct{} // holds a value after Listen has begun

	ctx   context.Context // ends with close
	close context.CancelCauseFunc
	done  sync.WaitGroup

	mu      sync.Mutex
	streams map[*stream]bool
	left    time.Time // when the last stream ended
	running bool
	latest  position
	asked   time.Time // last poll, also if it failed
	failing bool      // an error was logged
}

// stream is a subscription of a client to topics.
type stream struct {
	topics []storage.Topic
	reader streamReader
	wake   chan struct{} // holds a value if there are changed topics

	// Guarded by the hub's mu. Pending changes are kept as a set of topics, so a slow client has no
	// queue.
	seen position
	news []storage.Topic
}

// streamReader is who reads a stream.
type streamReader struct {
	identity access.Identity // Name is "" on a server without users
	address  netip.Addr
}

func newHub(source Changes, query func(ctx context.Context,
	load func(ctx context.Context) error) error, log zerolog.Logger) *hub {
	h := &hub{
		source: source, query: query, log: log, streams: make(map[*stream]bool),
		changed: make(chan struct{}, 1), listening: make(chan struct{}, 1),
	}
	h.ctx, h.close = context.WithCancelCause(context.Background())
	return h
}

// join adds a stream that has seen the topics up to since. It is notified of every change after
// that.
func (h *hub) join(topics []storage.Topic, since position, by streamReader) (*stream, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	switch {
	case h.ctx.Err() != nil:
		return nil, errClosing
	case len(h.streams) >= maxStreams:
		return nil, errManyStreams
	case h.hasTooMany(by):
		return nil, errOwnStreams
	}
	st := &stream{topics: topics, reader: by, wake: make(chan struct{}, 1), seen: since}
	h.streams[st] = true
	if !h.running {
		h.running = true
		h.done.Go(h.run)
	}
	return st, nil
}

// hasTooMany reports whether the identity or the address may have no further stream. The caller
// holds mu.
func (h *hub) hasTooMany(by streamReader) bool {
	identity, address := 0, 0
	for st := range h.streams {
		if by.identity.Name != "" && st.reader.identity.Name == by.identity.Name &&
			st.reader.identity.By == by.identity.By {
			identity++
		}
		if st.reader.address == by.address {
			address++
		}
	}
	return identity >= maxIdentityStreams || address >= maxAddressStreams
}

func (h *hub) leave(st *stream) {
	h.mu.Lock()
	defer h.mu.Unlock()
	delete(h.streams, st)
	h.left = time.Now()
}

// take returns the changed topics of the stream, and their position.
func (h *hub) take(st *stream) ([]storage.Topic, position) {
	h.mu.Lock()
	defer h.mu.Unlock()
	news := st.news
	st.news = nil
	return news, st.seen
}

// refresh queries the position of the topics, unless the last query was less than pollInterval ago.
func (h *hub) refresh(ctx context.Context) {
	h.mu.Lock()
	recent := time.Since(h.asked) < pollInterval
	h.mu.Unlock()
	if !recent {
		_ = h.poll(ctx) // which logs the error
	}
}

// position returns the last known position of the topics, which is nil if there is none.
func (h *hub) position() position {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.latest
}

// stop ends all streams, and returns when the hub's goroutines have ended.
func (h *hub) stop() {
	h.mu.Lock()
	h.close(errClosing)
	h.mu.Unlock() // from here on join fails
	h.done.Wait()
}

// run polls until there have been no streams for lingerTime.
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
			_ = h.query(ctx, h.poll) // poll logs its error
		}
		if !h.waitForPoll(ctx, every.C) {
			return
		}
	}
}

// waitForPoll sends notifications of actions until the next poll. It returns at once when Listen
// begins, because an action between the last poll and that would be missed. It returns false when
// ctx ends.
func (h *hub) waitForPoll(ctx context.Context, until <-chan time.Time) bool {
	for {
		select {
		case <-until:
			return true
		case <-h.listening:
			return true
		case <-h.changed:
			h.notify(nil)
			sleep.For(ctx, minGap)
		case <-ctx.Done():
			return false
		}
	}
}

// keepRunning reports whether run goes on. Only run calls it.
func (h *hub) keepRunning() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.running = len(h.streams) > 0 || time.Since(h.left) < lingerTime
	return h.running
}

// listen reports actions at once. Polling finds those that it misses.
func (h *hub) listen(ctx context.Context) {
	for delay := relistenDelay; ctx.Err() == nil; delay = min(2*delay, maxRelistenDelay) {
		var listens atomic.Bool
		start := time.Now()
		_ = h.source.Listen(ctx, func() {
			// the replica, which also listens, logs the error
			if listens.Swap(true) {
				signal(h.changed)
			} else {
				signal(h.listening)
			}
		})
		if time.Since(start) > maxRelistenDelay {
			delay = relistenDelay
		}
		sleep.For(ctx, delay)
	}
}

// signal puts a value into a channel of capacity one, unless it is full.
func signal(c chan<- struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// hasStreams reports whether the hub has any streams.
func (h *hub) hasStreams() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return len(h.streams) > 0
}

// poll queries the positions of the topics. If the query fails, no stream is notified.
func (h *hub) poll(ctx context.Context) error {
	marks, err := h.source.Marks(ctx)
	if err != nil {
		err = fmt.Errorf("positions of topics: %w", err)
	} else {
		h.notify(positionOf(marks))
	}
	h.polled(ctx, err)
	return err
}

// polled notes the time of a poll, and logs its error if the poll before had none.
func (h *hub) polled(ctx context.Context, err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.asked = time.Now()
	if errors.Is(ctx.Err(), context.Canceled) {
		return // a browser went away, or the hub stops
	}
	if err != nil && !h.failing {
		h.log.Warn().Err(err).Msg("admin query for changes failed")
	}
	h.failing = err != nil
}

// notify marks the changed topics of each stream. A nil position means that all topics may have
// changed.
func (h *hub) notify(now position) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if now != nil {
		h.latest = now
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
