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

// TestHostileTriggersAreFast sends bodies of 63 KB to trigger a job, as JSON and as a form.
func TestHostileTriggersAreFast(t *testing.T) {
	part := soak.Pick(4, 1) // outside the soak a quarter of the text has a quarter of the time
	size := (63 << 10) / part
	server, _ := acting(t)
	handler := server.Handler()
	repeated := func(part string, size int) string { return strings.Repeat(part, size/len(part)) }
	// many repeats a part with an increasing number.
	many := func(part string, size int) string {
		var b strings.Builder
		for i := 0; b.Len() < size; i++ {
			fmt.Fprintf(&b, part, i)
		}
		return strings.TrimSuffix(b.String(), ",")
	}
	params := func(size int) map[string]string {
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
	fast := func(name string, send func() int) {
		t.Run(name, func(t *testing.T) {
			speedtest.Within(t, name, 100*time.Millisecond/time.Duration(part), func() {
				if got := send(); got < 200 || got >= 500 {
					t.Errorf("got %d", got)
				}
			})
		})
	}
	bodies := map[string]string{
		"unknown fields":    `{` + many(`"k%d":1,`, size) + `}`,
		"a long reason":     `{"reason": "` + repeated("r", size) + `"}`,
		"a long wait":       `{"wait": "` + repeated("1h", size) + `"}`,
		"a long delay":      `{"delay": "` + repeated("1", size) + `h"}`,
		"a long time":       `{"at": "2026-01-01T00:00:00.` + repeated("1", size) + `Z"}`,
		"a repeated field":  `{` + strings.TrimSuffix(repeated(`"params":{},`, size), ",") + `}`,
		"a field of spaces": `{"params": ` + repeated(" ", size) + `1}`,
	}
	for name, text := range params(size - 100) {
		bodies[name] = `{"params": ` + text + `}`
	}
	for name, text := range params(size / 3) { // a character may take three bytes in a form
		fast("form/"+name, func() int {
			return accesstest.Ask(handler, http.MethodPost, "/jobs/rollup-sales/trigger",
				accesstest.WithForm(url.Values{"key": {"k"}, "params": {text}}),
				func(r *http.Request) {
					r.Host = "localhost"
					r.Header.Set("Origin", "http://localhost")
				}).Code
		})
	}
	for name, body := range bodies {
		fast("api/"+name, func() int {
			return post(handler, "/api/v1/jobs/rollup-sales/trigger", body).Code
		})
	}
}
