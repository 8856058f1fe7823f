package pages

import (
	"encoding/base64"
	"encoding/json"
	"net/http"
	"strings"
	"time"

	"github.com/holdfast-dev/holdfast/admin/internal/words"
)

// noticeLifetime is how long the result of an action is shown on the page after it, including
// refreshes.
const noticeLifetime = 30 * time.Second

// noticeSuffix distinguishes the cookie from that of the sign-in.
const noticeSuffix = "-notice"

// Notice is the result of an action, shown on the next page. A cookie transports it, so that any
// replica can show it. An address could not, because a link from another site could then show a
// false notice.
type Notice struct {
	Path string    `json:"path"`
	Text string    `json:"text"`
	At   time.Time `json:"at"`
}

// SetNotice shows a text on the page at location, which the client requests next.
func (s *Site) SetNotice(w http.ResponseWriter, r *http.Request, location, text string) {
	path, _, _ := strings.Cut(location, "?")
	encoded, err := json.Marshal(Notice{path, words.Cut(text, 500), time.Now().UTC()})
	if err != nil {
		s.Log.Error().Err(err).Msg("notice could not be encoded")
		return
	}
	s.Guard.SetCookie(w, r, noticeSuffix, base64.RawURLEncoding.EncodeToString(encoded),
		noticeLifetime)
}

// noticeFor returns the notice for the requested page, or nil.
func (s *Site) noticeFor(r *http.Request) *Notice {
	const longest = 4096
	value := s.Guard.Cookie(r, noticeSuffix)
	if len(value) > longest {
		return nil
	}
	var n Notice
	decoded, err := base64.RawURLEncoding.DecodeString(value)
	if err != nil || json.Unmarshal(decoded, &n) != nil || n.Path != r.URL.EscapedPath() ||
		n.Text == "" {
		return nil
	}
	n.Text = words.Cut(n.Text, 500)
	return &n
}
