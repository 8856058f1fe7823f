package admin

import (
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-dev/holdfast/internal/test/accesstest"
	"github.com/holdfast-dev/holdfast/internal/test/soak"
	"github.com/holdfast-dev/holdfast/internal/test/speedtest"
)

// hostileParams returns params of about this size, in bytes, by their names.
func hostileParams(size int) map[string]string {
	return map[string]string{
		"unknown params": `{` + many(`"k%d":1,`, size) + `}`,
		"one param":      `{` + strings.TrimSuffix(repeated(`"rows":1,`, size), ",") + `}`,
		"a long name":    `{"` + repeated("r", size) + `":1}`,
		"a long number":  `{"rows":` + repeated("1", size) + `}`,
		"an exponent":    `{"rows":1e` + repeated("1", size) + `}`,
		"brackets":       `{"rows":` + repeated("[", size/2) + repeated("]", size/2) + `}`,
		"open brackets":  repeated(`{"rows":[`, size),
		"escapes":        `{"rows":"` + repeated(`\u0041`, size) + `"}`,
		"half escapes":   `{"rows":"` + repeated(`\ud800`, size) + `"}`,
		"quotes":         repeated(`"`, size),
		"spaces":         `{` + repeated(" ", size) + `}`,
		"variables":      `{"rows":"` + repeated("${A", size) + `"}`,
	}
}

// hostileBodies returns bodies of about this size for a trigger, by their names.
func hostileBodies(size int) map[string]string {
	bodies := map[string]string{
		"unknown fields":    `{` + many(`"k%d":1,`, size) + `}`,
		"a long reason":     `{"reason": "` + repeated("r", size) + `"}`,
		"a long wait":       `{"wait": "` + repeated("1h", size) + `"}`,
		"a long delay":      `{"delay": "` + repeated("1", size) + `h"}`,
		"a long time":       `{"at": "2026-01-01T00:00:00.` + repeated("1", size) + `Z"}`,
		"a repeated field":  `{` + strings.TrimSuffix(repeated(`"params":{},`, size), ",") + `}`,
		"a field of spaces": `{"params": ` + repeated(" ", size) + `1}`,
	}
	for name, text := range hostileParams(size - 100) {
		bodies[name] = `{"params": ` + text + `}`
	}
	return bodies
}

func repeated(part string, size int) string { return strings.Repeat(part, size/len(part)) }

// many repeats a part with an increasing number.
func many(part string, size int) string {
	var b strings.Builder
	for i := 0; b.Len() < size; i++ {
		fmt.Fprintf(&b, part, i)
	}
	return strings.TrimSuffix(b.String(), ",")
}

// TestHostileTriggersAreFast sends bodies of 63 KB to trigger a job, as JSON and as a form. On a
// slow machine they may take longer, but not three times as long as half of them.
func TestHostileTriggersAreFast(t *testing.T) {
	part := soak.Pick(4, 1) // outside the soak a quarter of the text has a quarter of the time
	size := (63 << 10) / part
	server, _ := acting(t)
	handler := server.Handler()
	fast := func(kind string, halves, texts map[string]string, send func(text string) int) {
		for name, text := range texts {
			t.Run(kind+"/"+name, func(t *testing.T) {
				sends := func(text string) func() {
					return func() {
						if got := send(text); got < 200 || got >= 500 {
							t.Errorf("got %d", got)
						}
					}
				}
				speedtest.WithinOrLike(t, name, 100*time.Millisecond/time.Duration(part),
					sends(halves[name]), sends(text))
			})
		}
	}
	// a character may take three bytes in a form
	fast("form", hostileParams(size/6), hostileParams(size/3), func(text string) int {
		return accesstest.Ask(handler, http.MethodPost, "/jobs/rollup-sales/trigger",
			accesstest.WithForm(url.Values{"key": {"k"}, "params": {text}}),
			func(r *http.Request) {
				r.Host = "localhost"
				r.Header.Set("Origin", "http://localhost")
			}).Code
	})
	fast("api", hostileBodies(size/2), hostileBodies(size), func(text string) int {
		return post(handler, "/api/v1/jobs/rollup-sales/trigger", text).Code
	})
}
