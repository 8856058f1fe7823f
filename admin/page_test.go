package admin

import (
	"crypto/sha256"
	"fmt"
	"math"
	"net/http"
	"os"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-dev/holdfast/admin/internal/locks"
)

func TestPageRefreshesItself(t *testing.T) {
	o := calm()
	handler := newServer(t, o).Handler()
	// refresh is after how many seconds a page asks again: with scripts, and without.
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
			return "scripts" // alone: there are fields, which a reload would empty
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
			t.Errorf("%s: %d", path, reply.Code)
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
			t.Errorf("%s: %d", path, reply.Code)
		}
	}
}

func TestBlockedGroupsNameTheirBlockers(t *testing.T) {
	o, status := clusterPages{newServer(t, contention()).base()}.overview(t.Context())
	if status != http.StatusOK {
		t.Fatal(o.Error)
	}
	var got []string
	for _, b := range o.BlockedGroups() {
		line := b.Resource + b.Job()
		for _, lock := range b.Locks {
			line += " by " + lock.Holder.Job
		}
		for _, run := range b.Runs {
			line += ", " + run.Job
		}
		got = append(got, line)
	}
	want := []string{
		"public/orders by rollup-sales, prune-orders, rollup-hourly, export-orders",
		"job:rollup-salesrollup-sales by rollup-sales, rollup-sales",
		", sync-vendors",
	}
	if strings.Join(got, "\n") != strings.Join(want, "\n") {
		t.Errorf("blockages are\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

// TestWaitIsCountedFromItsStart has a run that failed and waits for
// another attempt: it has waited for less than it has been there.
func TestWaitIsCountedFromItsStart(t *testing.T) {
	body := get(t, newServer(t, contention()).Handler(), "/").Body.String()
	waits := regexp.MustCompile(`sync-vendors</bdi></a> waits <strong><time [^>]*>([^<]*)</time>`).
		FindStringSubmatch(body)
	if waits == nil || waits[1] != "8 s" {
		t.Errorf("the page says %q of a run that waits for 8 s", waits)
	}
	if strings.Contains(body, "attempt 0") {
		t.Error("the page shows an attempt of a run that has not started")
	}
}

// TestBlockedBelowSchemaLock has a run wait for a table whose schema is held.
func TestBlockedBelowSchemaLock(t *testing.T) {
	opts := layers()
	h := opts.Store.(*history)
	h.runs = append(h.runs, waiting(9, "load-orders", time.Minute, "warehouse/orders", h.runs[1]))
	o, _ := clusterPages{newServer(t, opts).base()}.overview(t.Context())
	blockages := o.BlockedGroups()
	if len(blockages) != 1 || len(blockages[0].Locks) != 1 ||
		blockages[0].Locks[0].Resource != "warehouse" {
		t.Errorf("blockages are %+v, want the schema's lock", blockages)
	}
	if o.Resources[0].Resource != "warehouse/orders" || o.Resources[0].State != locks.HeldAbove ||
		o.Resources[0].Waiting != 1 {
		t.Errorf("first resource is %+v, want what is waited for", o.Resources[0])
	}
}

// TestContrast holds the stylesheet's colours to WCAG AA: 4.5 to 1 for text.
func TestContrast(t *testing.T) {
	css := string(newServer(t, calm()).site.Templates.Assets.ByName["holdfast.css"].Body)
	light, dark, found := strings.Cut(css, "prefers-color-scheme: dark")
	if !found {
		t.Fatal("no dark colours")
	}
	pairs := [][2]string{
		{"good", "good-ground"}, {"warn", "warn-ground"}, {"bad", "bad-ground"},
		{"text", "plain-ground"},
		{"text", "warn-ground"}, {"text", "bad-ground"},
	}
	for _, colour := range []string{"text", "muted", "link", "warn", "bad"} {
		pairs = append(pairs, [2]string{colour, "surface"}, [2]string{colour, "ground"})
	}
	for name, part := range map[string]string{"light": light, "dark": dark} {
		for _, pair := range pairs {
			a, b := luminance(t, part, pair[0]), luminance(t, part, pair[1])
			if ratio := (max(a, b) + 0.05) / (min(a, b) + 0.05); ratio < 4.5 {
				t.Errorf("%s: %s on %s has %.2f to 1", name, pair[0], pair[1], ratio)
			}
		}
	}
}

// luminance is WCAG's relative luminance of a colour variable.
func luminance(t *testing.T, css, name string) float64 {
	t.Helper()
	match := regexp.MustCompile(`--` + name + `: #([0-9a-f]{6}|[0-9a-f]{3});`).
		FindStringSubmatch(css)
	if match == nil {
		t.Fatalf("no colour %s", name)
	}
	digits := match[1]
	if len(digits) == 3 {
		digits = fmt.Sprintf("%c%c%c%c%c%c", digits[0], digits[0], digits[1], digits[1], digits[2],
			digits[2])
	}
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

// TestVendoredFilesMatchTheReadme: what browsers run was not changed
// by hand, nor taken from another version than the one that is written down.
func TestVendoredFilesMatchTheReadme(t *testing.T) {
	readme, err := os.ReadFile("internal/pages/static/README.md")
	if err != nil {
		t.Fatal(err)
	}
	named := regexp.MustCompile("SHA-256 of `([a-z.]+)`: `([0-9a-f]{64})`").
		FindAllSubmatch(readme, -1)
	if len(named) == 0 {
		t.Fatal("static/README.md names no checksum")
	}
	for _, n := range named {
		file, ok := newServer(t, calm()).site.Templates.Assets.ByName[string(n[1])]
		if sum := fmt.Sprintf("%x", sha256.Sum256(file.Body)); !ok || sum != string(n[2]) {
			t.Errorf("%s has the checksum %s, static/README.md says %s", n[1], sum, n[2])
		}
	}
}
