package admin

import (
	"crypto/sha256"
	"fmt"
	"math"
	"net/http"
	"net/http/httptest"
	"os"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-dev/holdfast/admin/internal/locks"
	"github.com/holdfast-dev/holdfast/jobs/storage"
)

func TestPageRefreshesItself(t *testing.T) {
	o := calm()
	handler := newServer(t, o).Handler()
	// refresh returns after how many seconds a page reloads, with scripts and without them.
	refresh := func(handler http.Handler, path string) string {
		body := get(t, handler, path).Body.String()
		scripted := regexp.MustCompile(`hx-get="([^"]*)" hx-trigger="every (\d+)s"`).
			FindStringSubmatch(body)
		plain := regexp.MustCompile(
			`<noscript><meta http-equiv="refresh" content="(\d+)"></noscript>`).FindStringSubmatch(
			body)
		switch {
		case scripted == nil && plain == nil:
			return ""
		case plain == nil && scripted[1] == path && scripted[2] == "5":
			return "scripts" // not without scripts, because a reload would clear its fields
		case scripted == nil || plain == nil || scripted[2] != plain[1] || scripted[1] != path:
			t.Errorf("%s: with scripts %q, without %q", path, scripted, plain)
			return "differs"
		}
		return plain[1]
	}
	for path, want := range map[string]string{
		"/": "5", "/locks": "scripts", "/replicas": "5", "/runs/" + id(1).String(): "5",
		"/jobs/merge-events":      "5",
		"/runs/" + id(2).String(): "", "/jobs": "scripts", "/runs": "scripts", "/audit": "scripts",
		"/?refresh=off": "",
	} {
		if got := refresh(handler, path); got != want {
			t.Errorf("%s asks again after %q, want %q", path, got, want)
		}
	}
	if got := refresh(newServer(t, down()).Handler(), "/"); got != "5" {
		t.Errorf("it asks again after %q while the store is down, want 5", got)
	}
	o.Refresh = 6500 * time.Millisecond
	if got := refresh(newServer(t, o).Handler(), "/"); got != "7" {
		t.Errorf("it asks again after %q, want whole seconds, rounded up", got)
	}
	for _, path := range []string{"/?refresh=7", "/?refresh=", "/?fresh=off"} {
		if reply := get(t, handler, path); reply.Code != http.StatusBadRequest {
			t.Errorf("%s: got %d, want 400", path, reply.Code)
		}
	}
}

func TestStaticFilesAreCachedByHash(t *testing.T) {
	server := newServer(t, calm())
	handler := server.Handler()
	body := get(t, handler, "/").Body.String()
	for _, match := range regexp.MustCompile(`"(/static/[^"]*)"`).FindAllStringSubmatch(body, -1) {
		reply := get(t, handler, match[1])
		if reply.Code != http.StatusOK ||
			!strings.Contains(reply.Header().Get("Cache-Control"), "immutable") {
			t.Errorf("%s: %d, Cache-Control %q", match[1], reply.Code,
				reply.Header().Get("Cache-Control"))
		}
	}
	other := get(t, handler, "/static/holdfast.0123456789abcdef.css")
	if other.Code != http.StatusOK || other.Header().Get("Cache-Control") != "no-store" {
		t.Errorf("another version's file: %d, Cache-Control %q", other.Code,
			other.Header().Get("Cache-Control"))
	}
	for _, path := range []string{"/static/holdfast.css", "/static/none.0123456789abcdef.css",
		"/static/..%2fpage.go", "/static/"} {
		if reply := get(t, handler, path); reply.Code != http.StatusNotFound {
			t.Errorf("%s: got %d, want 404", path, reply.Code)
		}
	}
}

// TestWaitTrees checks that each waiting run is listed below the run at the end of its chain of
// blockers.
func TestWaitTrees(t *testing.T) {
	o, status := clusterPages{newServer(t, contention()).base()}.overview(t.Context(), nil)
	if status != http.StatusOK {
		t.Fatalf("got %d %s, want 200", status, o.Error)
	}
	var hops func(waiters []*locks.Waiter) string
	hops = func(waiters []*locks.Waiter) string {
		var parts []string
		for _, w := range waiters {
			parts = append(parts, w.Job+hops(w.Waiters))
		}
		if len(parts) == 0 {
			return ""
		}
		return " (" + strings.Join(parts, ", ") + ")"
	}
	var got []string
	for _, tree := range o.WaitTreesShown() {
		got = append(got, tree.Holder.Job+" "+tree.Resource+hops(tree.Waiters))
	}
	want := []string{
		"rollup-sales public/orders (prune-orders (export-orders), rollup-sales, rollup-hourly)",
		"  (sync-vendors)",
	}
	if strings.Join(got, "\n") != strings.Join(want, "\n") {
		t.Errorf("trees are\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

// TestWaitTreeOfAReleasedLock checks a holder that has released its lock since its waiters last
// tried. The list of held locks on the same page shows that it is free.
func TestWaitTreeOfAReleasedLock(t *testing.T) {
	holds, had := ">holds "+tailOf("public/orders"), "was last seen with "+tailOf("public/orders")
	opts := contention()
	if body := get(t, newServer(t, opts).Handler(), "/").Body.String(); !strings.Contains(body,
		holds) || strings.Contains(body, had) {
		t.Errorf("a held lock: got no %q, or %q", holds, had)
	}
	opts.Store.(*history).locks = nil
	if body := get(t, newServer(t, opts).Handler(), "/").Body.String(); !strings.Contains(body,
		had) || strings.Contains(body, holds) {
		t.Errorf("a released lock: got no %q, or %q", had, holds)
	}
}

// TestFailingJobsAreGroupedByError checks that jobs with the same error are one entry.
func TestFailingJobsAreGroupedByError(t *testing.T) {
	o, _ := clusterPages{newServer(t, troubledNight()).base()}.overview(t.Context(), nil)
	if len(o.Failing) != 1 || len(o.Failing[0].Jobs) != 4 || o.Failing[0].Jobs[0].Failures != 5 ||
		!strings.Contains(o.Failing[0].Error, "column") {
		t.Errorf("failing: %+v", o.Failing)
	}
	for _, f := range o.Failing[0].Jobs {
		if want := ago(5 * time.Minute); !f.Since.Equal(want) {
			t.Errorf("%s fails since %s, want %s", f.Job, f.Since, want)
		}
	}
}

// TestNextOmitsPausedJobsAndThePast checks that the list omits a paused job, a job of a paused
// group and a firing whose time has passed.
func TestNextOmitsPausedJobsAndThePast(t *testing.T) {
	o := calm()
	h := o.Store.(*history)
	for _, name := range []string{"invoices", "reminders", "stock"} {
		h.jobs = append(h.jobs, job(name, "* * * * *"))
	}
	h.jobs[len(h.jobs)-2].Group = "billing"
	h.pauses = []storage.Pause{
		{Target: storage.Target{Kind: storage.TargetJob, Name: "invoices"}, At: ago(time.Hour)},
		{Target: storage.Target{Kind: storage.TargetGroup, Name: "billing"}, At: ago(time.Hour)}}
	firing := func(job string, in time.Duration) ScheduledFiring {
		return ScheduledFiring{Job: job, ScheduledAt: noon.Add(in)}
	}
	o.Upcoming = upcoming(firing("merge-events", -time.Minute), firing("invoices", time.Minute),
		firing("reminders", time.Minute), firing("stock", time.Minute))
	view, _ := clusterPages{newServer(t, o).base()}.overview(t.Context(), nil)
	if len(view.Next) != 1 || view.Next[0].Job != "stock" {
		t.Errorf("next: %+v", view.Next)
	}
}

// TestWaitIsCountedFromItsStart checks a run that failed and waits for another attempt. Its wait is
// shorter than the time since its creation.
func TestWaitIsCountedFromItsStart(t *testing.T) {
	body := get(t, newServer(t, contention()).Handler(), "/").Body.String()
	waits := regexp.MustCompile(
		`(?s)sync-vendors</bdi></a>\s+<span class="sub">.*?<span class="for"><time [^>]*>([^<]*)</time>`).
		FindStringSubmatch(body)
	if waits == nil || waits[1] != "8 s" {
		t.Errorf("got %q of a run that waits for 8 s", waits)
	}
	if strings.Contains(body, "attempt 0") {
		t.Error("got \"attempt 0\" on the page, want no attempt of a run that has not started")
	}
}

// TestBlockedBelowSchemaLock checks a run that waits for a table whose schema is locked.
func TestBlockedBelowSchemaLock(t *testing.T) {
	opts := layers()
	h := opts.Store.(*history)
	h.runs = append(h.runs, waiting(9, "load-orders", time.Minute, "warehouse/orders", h.runs[1]))
	o, _ := clusterPages{newServer(t, opts).base()}.overview(t.Context(), nil)
	trees := o.WaitTreesShown()
	if len(trees) != 1 || trees[0].Lock == nil || trees[0].Resource != "warehouse" {
		t.Errorf("trees are %+v, want the schema's lock", trees)
	}
	if o.Resources[0].Resource != "warehouse/orders" || o.Resources[0].State != locks.HeldAbove ||
		o.Resources[0].Waiting != 1 {
		t.Errorf("first resource is %+v, want what is waited for", o.Resources[0])
	}
}

// TestContrast checks the colors of the stylesheet against WCAG AA: 4.5 to 1 for text, 3 to 1 for
// marks and the borders of controls.
func TestContrast(t *testing.T) {
	css := string(newServer(t, calm()).site.Templates.Assets.ByName["holdfast.css"].Body)
	const text, shape = 4.5, 3
	least := map[[2]string]float64{{"text", "plain-ground"}: text, {"muted", "plain-ground"}: text,
		{"text", "warn-ground"}: text, {"text", "bad-ground"}: text, {"on-link", "link"}: text,
		{"on-link", "bad"}: text, {"good-mark", "good-soft"}: shape}
	for _, state := range []string{"good", "warn", "bad", "active", "wait"} {
		least[[2]string{state, state + "-ground"}] = text
		least[[2]string{state + "-mark", "surface"}] = shape
	}
	for _, ground := range []string{"surface", "ground", "sunken"} {
		for _, colour := range []string{"text", "muted", "link", "warn", "bad"} {
			least[[2]string{colour, ground}] = text
		}
		least[[2]string{"line-strong", ground}] = shape
	}
	for scheme, name := range []string{"light", "dark"} {
		for pair, want := range least {
			a, b := luminance(t, css, pair[0], scheme), luminance(t, css, pair[1], scheme)
			if ratio := (max(a, b) + 0.05) / (min(a, b) + 0.05); ratio < want {
				t.Errorf("%s: %s on %s has %.2f to 1, want %.1f", name, pair[0], pair[1], ratio,
					want)
			}
		}
	}
}

// luminance returns the relative luminance of a color variable as WCAG defines it. The scheme is 0
// for light and 1 for dark.
func luminance(t *testing.T, css, name string, scheme int) float64 {
	t.Helper()
	match := regexp.MustCompile(`--` + name + `: light-dark\(#([0-9a-f]{6}), #([0-9a-f]{6})\);`).
		FindStringSubmatch(css)
	if match == nil {
		t.Fatalf("no colour %s", name)
	}
	digits := match[1+scheme]
	var channels [3]float64
	for i := range channels {
		value, err := strconv.ParseUint(digits[2*i:2*i+2], 16, 8)
		if err != nil {
			t.Fatal(err)
		}
		c := float64(value) / 255
		if channels[i] = c / 12.92; c > 0.04045 {
			channels[i] = math.Pow((c+0.055)/1.055, 2.4)
		}
	}
	return 0.2126*channels[0] + 0.7152*channels[1] + 0.0722*channels[2]
}

// TestVendoredFilesMatchTheReadme checks that the scripts have the checksums in their README.md.
func TestVendoredFilesMatchTheReadme(t *testing.T) {
	readme, err := os.ReadFile("internal/pages/static/README.md")
	if err != nil {
		t.Fatal(err)
	}
	named := regexp.MustCompile("SHA-256 of `([a-z.]+)`: `([0-9a-f]{64})`").
		FindAllSubmatch(readme, -1)
	if len(named) == 0 {
		t.Fatal("internal/pages/static/README.md: got no checksum, want one for each script")
	}
	for _, n := range named {
		file, ok := newServer(t, calm()).site.Templates.Assets.ByName[string(n[1])]
		if sum := fmt.Sprintf("%x", sha256.Sum256(file.Body)); !ok || sum != string(n[2]) {
			t.Errorf("checksum of %s: got %s, want %s as in internal/pages/static/README.md", n[1],
				sum, n[2])
		}
	}
}

// TestAnswersAreCompressed sends the Accept-Encoding header of a browser.
func TestAnswersAreCompressed(t *testing.T) {
	handler := newServer(t, busy()).Handler()
	for _, path := range []string{"/", "/jobs", "/api/v1/overview", "/api/v1/openapi.json"} {
		request := httptest.NewRequestWithContext(t.Context(), http.MethodGet, path, nil)
		request.Host = "127.0.0.1"
		request.Header.Set("Accept-Encoding", "gzip, deflate, br, zstd")
		reply := httptest.NewRecorder()
		handler.ServeHTTP(reply, request)
		plain := get(t, handler, path)
		if got := reply.Header().Get("Content-Encoding"); reply.Code != http.StatusOK ||
			got != "gzip" || 2*reply.Body.Len() > plain.Body.Len() {
			t.Errorf("%s: %d, %q, %d of %d bytes", path, reply.Code, got, reply.Body.Len(),
				plain.Body.Len())
		}
	}
}

// tailOf is the name of a resource on the overview, where a narrow place shows its end.
func tailOf(resource string) string {
	return `<span title="` + resource + `"><bdi>` + resource + `</bdi></span>`
}
