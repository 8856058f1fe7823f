package charts

import (
	"strings"
	"testing"
	"time"

	"github.com/holdfast-dev/holdfast/jobs/storage"
)

// TestHeartbeatStrip draws what a replica saw of sessions in good and in bad times.
func TestHeartbeatStrip(t *testing.T) {
	const ttl = 15 * time.Second
	now := noon.Add(14 * time.Second) // the end of a part of the strip
	seen := func(from, until, age time.Duration) (views []storage.HeartbeatView) {
		for at := now.Add(-from); at.Before(now.Add(-until)); at = at.Add(5 * time.Second) {
			views = append(views, storage.HeartbeatView{At: at, LastHeartbeat: at.Add(-age),
				ExpiresAt: at.Add(ttl - age)})
		}
		return views
	}
	for name, c := range map[string]struct {
		seen                  []storage.HeartbeatView
		lostAt                time.Time
		onTime, late, crosses int
		words                 string
	}{
		"all on time":   {seen: seen(10*time.Minute, 0, 2*time.Second), onTime: 40, words: "all on time"},
		"a new session": {seen: seen(time.Minute, 0, 2*time.Second), onTime: 5, words: "all on time"},
		"nothing seen":  {words: "not known"},
		"seen long ago": {seen: seen(time.Hour, 50*time.Minute, time.Second), words: "not known"},
		"some were late": {seen: append(seen(10*time.Minute, time.Minute, 2*time.Second),
			seen(time.Minute, 0, 9*time.Second)...),
			onTime: 35, late: 5, words: "12 late of 119 seen"},
		"lost": {seen: seen(10*time.Minute, 5*time.Minute, 2*time.Second),
			lostAt: now.Add(-4 * time.Minute), onTime: 20, crosses: 1,
			words: "none for 4 min since the session expired"},
		"lost long ago": {lostAt: now.Add(-40 * time.Minute), crosses: 1,
			words: "none for 40 min since the session expired"},
		"expired, not swept": {seen: seen(time.Minute, 0, ttl), crosses: 1, words: "all on time"},
	} {
		s := NewHeartbeatStrip(now, c.seen, c.lostAt)
		drawn := string(s.Elements())
		onTime, late, crosses := strings.Count(drawn, `class="succeeded"`),
			strings.Count(drawn, `class="late"`), strings.Count(drawn, "<path")
		if onTime != c.onTime || late != c.late || crosses != c.crosses ||
			!strings.HasSuffix(s.Words, c.words) {
			t.Errorf("%s: %d bars on time, %d late, %d crosses, %q; want %d, %d, %d, %q", name,
				onTime, late, crosses, s.Words, c.onTime, c.late, c.crosses, c.words)
		}
		if s.IsKnown() != (drawn != "") {
			t.Errorf("%s: IsKnown is %t, the strip is %q", name, s.IsKnown(), drawn)
		}
	}
}
