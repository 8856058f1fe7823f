package admin

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/holdfast-dev/holdfast/jobs"
)

const (
	// keepaliveInterval is how often a stream says that it stands: proxies close what is
	// silent, and who has gone is found out by it.
	keepaliveInterval = 15 * time.Second
	// streamWriteTimeout is how long a write of a stream may take, counted from the
	// one before: a reader that is slower is dropped.
	streamWriteTimeout = 30 * time.Second
	// maxStreamTime is how long a stream lasts; readers come again by themselves,
	// to whichever replica there is then.
	maxStreamTime = 30 * time.Minute
	// reconnectDelay is after what time they do.
	reconnectDelay = 2 * time.Second
)

// events tells as Server-Sent Events what changes in the cluster: an event is
// named by its topic, and says no more. Its id is where topics stood, for any
// replica to go on from.
func (s *Server) events(w http.ResponseWriter, r *http.Request) {
	topics, since, err := watchedTopics(r)
	if err != nil {
		s.refuse(w, r, http.StatusBadRequest, err.Error())
		return
	}
	if s.hub == nil {
		s.refuse(w, r, http.StatusNotImplemented,
			"This replica does not tell of changes: ask again every now and then.")
		return
	}
	if r.Method == http.MethodHead {
		eventHeaders(w)
		return
	}
	st, err := s.hub.join(topics, since)
	if err != nil {
		w.Header().Set("Retry-After", "10")
		s.refuse(w, r, http.StatusServiceUnavailable, sentence(err.Error()))
		return
	}
	defer s.hub.leave(st)
	eventHeaders(w)
	s.stream(w, r, st)
}

func eventHeaders(w http.ResponseWriter) {
	w.Header().Set("Content-Type", "text/event-stream")
	w.Header().Set("X-Accel-Buffering", "no") // of nginx; HAProxy holds nothing back
}

// watchedTopics reads what is asked for: all topics where none are named. A
// browser that comes again says where it was in a header.
func watchedTopics(r *http.Request) ([]jobs.Topic, position, error) {
	p, err := readParams(r, "topics", "since")
	if err != nil {
		return nil, nil, err
	}
	since, err := p.text("since")
	if err != nil {
		return nil, nil, err
	}
	if last := r.Header.Get("Last-Event-ID"); last != "" {
		since = last
	}
	if p.Get("topics") == "" {
		return jobs.Topics(), parsePosition(since), nil
	}
	var topics []jobs.Topic
	for _, name := range strings.Split(p.Get("topics"), ",") {
		topic := jobs.Topic(name)
		if !slices.Contains(jobs.Topics(), topic) {
			return nil, nil, &badRequest{fmt.Sprintf("topics has %q, expected some of %s",
				cut(name, 100), listed(jobs.Topics()))}
		}
		if !slices.Contains(topics, topic) {
			topics = append(topics, topic)
		}
	}
	return topics, parsePosition(since), nil
}

// stream writes until the reader has gone, is too slow or no longer who it was,
// until the stream has lasted long enough, or the server stops.
func (s *Server) stream(w http.ResponseWriter, r *http.Request, st *stream) {
	control := http.NewResponseController(w)
	write := func(text string) bool {
		if identity, err := s.accessRules().accounts.identify(r); err != nil ||
			identity.unauthenticated() {
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
	beat, end := time.NewTicker(keepaliveInterval), time.NewTimer(maxStreamTime)
	defer beat.Stop()
	defer end.Stop()
	for goes := write(fmt.Sprintf("retry: %d\n\n", reconnectDelay.Milliseconds())); goes; {
		select {
		case <-st.wake:
			goes = write(eventText(s.hub.take(st)))
		case <-beat.C:
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

// eventText is an event a topic. Only the last has the id: of who gets a part
// of them, nothing is passed over later.
func eventText(topics []jobs.Topic, at position) string {
	var b strings.Builder
	for i, topic := range topics {
		if id := at.String(); i == len(topics)-1 && id != "" {
			b.WriteString("id: " + id + "\n")
		}
		fmt.Fprintf(&b, "event: %s\ndata: {\"topic\": %q}\n\n", topic, topic)
	}
	return b.String()
}

// eventsAddress is where a page that is asked for now hears of what changes
// later; "" where nobody tells.
func (s *Server) eventsAddress(ctx context.Context, topics []jobs.Topic) string {
	if s.hub == nil {
		return ""
	}
	if len(topics) == 0 {
		topics = jobs.Topics()
	}
	query := url.Values{"topics": {strings.ReplaceAll(listed(topics), ", ", ",")}}
	if since := s.hub.position(ctx).String(); since != "" {
		query.Set("since", since)
	}
	return "/api/v1/events?" + query.Encode()
}
