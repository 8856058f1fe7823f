package admin

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/holdfast-dev/holdfast/admin/internal/access"
	"github.com/holdfast-dev/holdfast/admin/internal/param"
	"github.com/holdfast-dev/holdfast/admin/internal/words"
	"github.com/holdfast-dev/holdfast/jobs/permission"
	"github.com/holdfast-dev/holdfast/jobs/storage"
)

const (
	// keepaliveInterval is the interval of comments on a stream. They keep proxies from closing it,
	// and reveal clients that are gone.
	keepaliveInterval = 15 * time.Second
	// streamWriteTimeout bounds the time since the previous write. A slower client is disconnected.
	streamWriteTimeout = 30 * time.Second
	// maxStreamTime is how long a stream lasts. Browsers reconnect by themselves, possibly to
	// another replica.
	maxStreamTime = 30 * time.Minute
	// reconnectDelay is the delay before browsers reconnect.
	reconnectDelay = 2 * time.Second
)

// events sends changes in the cluster as Server-Sent Events. An event's name is its topic. Its id
// is the position of all topics, from which any replica can continue.
func (s eventPages) events(w http.ResponseWriter, r *http.Request) {
	topics, since, err := watchedTopics(r)
	if err != nil {
		s.Refuse(w, r, http.StatusBadRequest, err.Error())
		return
	}
	if s.hub == nil {
		s.Refuse(w, r, http.StatusNotImplemented,
			"This replica has no event stream. Poll the API instead.")
		return
	}
	if r.Method == http.MethodHead {
		eventHeaders(w)
		return
	}
	by := streamReader{access.IdentityOf(r), s.Guard.ClientOf(r)}
	st, err := s.hub.join(topics, since, by)
	if err != nil {
		status := http.StatusServiceUnavailable
		if errors.Is(err, errOwnStreams) {
			status = http.StatusTooManyRequests
		}
		w.Header().Set("Retry-After", "10")
		s.Refuse(w, r, status, words.Sentence(err.Error()))
		return
	}
	defer s.hub.leave(st)
	eventHeaders(w)
	s.stream(w, r, st)
}

func eventHeaders(w http.ResponseWriter) {
	w.Header().Set("Content-Type", "text/event-stream")
	w.Header().Set("X-Accel-Buffering", "no") // for nginx; HAProxy does not buffer
}

// watchedTopics parses the requested topics, by default all. A reconnecting browser sends its last
// position in a header.
func watchedTopics(r *http.Request) ([]storage.Topic, position, error) {
	p, err := param.Read(r, "topics", "since")
	if err != nil {
		return nil, nil, err
	}
	since, err := p.Text("since")
	if err != nil {
		return nil, nil, err
	}
	if last := r.Header.Get("Last-Event-ID"); last != "" {
		since = last
	}
	if p.Get("topics") == "" {
		return storage.Topics(), parsePosition(since), nil
	}
	var topics []storage.Topic
	for _, name := range strings.Split(p.Get("topics"), ",") {
		topic := storage.Topic(name)
		if !slices.Contains(storage.Topics(), topic) {
			return nil, nil, param.Errorf("topics has %q, expected some of %s",
				words.Cut(name, 100), words.List(storage.Topics()))
		}
		if !slices.Contains(topics, topic) {
			topics = append(topics, topic)
		}
	}
	return topics, parsePosition(since), nil
}

// stream writes events until the client disconnects, is too slow, or loses the sign-in or the
// permission, until maxStreamTime has passed, or the server stops.
func (s eventPages) stream(w http.ResponseWriter, r *http.Request, st *stream) {
	control := http.NewResponseController(w)
	write := func(text string) bool {
		if s.Guard.Authorize(r, permission.View,
			permission.Target{Kind: permission.Everything}) != nil {
			return false
		}
		if err := control.SetWriteDeadline(time.Now().Add(streamWriteTimeout)); err != nil &&
			!errors.Is(err, http.ErrNotSupported) {
			return false
		}
		if _, err := io.WriteString(w, text); err != nil {
			return false
		}
		return control.Flush() == nil
	}
	keepalive, end := time.NewTicker(keepaliveInterval), time.NewTimer(maxStreamTime)
	defer keepalive.Stop()
	defer end.Stop()
	for goes := write(fmt.Sprintf("retry: %d\n\n", reconnectDelay.Milliseconds())); goes; {
		select {
		case <-st.wake:
			goes = write(eventText(s.hub.take(st)))
		case <-keepalive.C:
			goes = write(": still here\n\n")
		case <-end.C:
			return
		case <-r.Context().Done():
			return
		case <-s.hub.ctx.Done():
			return
		}
	}
}

// eventText returns one event per topic. Only the last one has the id, so that a client that
// received a part of them misses nothing after a reconnect.
func eventText(topics []storage.Topic, at position) string {
	var b strings.Builder
	for i, topic := range topics {
		if id := at.String(); i == len(topics)-1 && id != "" {
			b.WriteString("id: " + id + "\n")
		}
		fmt.Fprintf(&b, "event: %s\ndata: {\"topic\": %q}\n\n", topic, topic)
	}
	return b.String()
}

// eventsAddress returns the address of the events after the last known position.
func (h *hub) eventsAddress(topics []storage.Topic) string {
	if len(topics) == 0 {
		topics = storage.Topics()
	}
	query := url.Values{"topics": {strings.ReplaceAll(words.List(topics), ", ", ",")}}
	if since := h.position().String(); since != "" {
		query.Set("since", since)
	}
	return "/api/v1/events?" + query.Encode()
}
