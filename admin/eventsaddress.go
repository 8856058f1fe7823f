package admin

import (
	"context"
	"net/url"
	"strings"

	"github.com/holdfast-dev/holdfast/admin/internal/words"
	"github.com/holdfast-dev/holdfast/jobs/storage"
)

// eventsAddress returns the address of the events after the current position, or "" if the server
// sends no events.
func (s *Site) eventsAddress(ctx context.Context, topics []storage.Topic) string {
	if s.hub == nil {
		return ""
	}
	if len(topics) == 0 {
		topics = storage.Topics()
	}
	query := url.Values{"topics": {strings.ReplaceAll(words.List(topics), ", ", ",")}}
	if since := s.hub.position(ctx).String(); since != "" {
		query.Set("since", since)
	}
	return "/api/v1/events?" + query.Encode()
}
