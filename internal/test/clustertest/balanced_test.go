package clustertest

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/chromedp"

	hashing "github.com/holdfast-dev/holdfast/admin/password"
	"github.com/holdfast-dev/holdfast/internal/test/browsertest"
	"github.com/holdfast-dev/holdfast/internal/test/servertest"
	"github.com/holdfast-dev/holdfast/internal/test/soak"
)

const (
	balancerFile = "../../../deploy/haproxy.cfg"
	ready        = "ready" // the HAProxy backend of replicas that can start runs
	operator     = "anna"
	passphrase   = "correct horse battery"
	soon         = time.Second
	tries        = 3 // of timed steps: on a busy machine a single try may exceed the limit
	// pageTries is how often a test requests a page. A replica refuses a page with 503 when its
	// queries take longer than 3 s, as they may on a busy machine. The last answer counts.
	pageTries = 10
)

// balanced is three replicas behind the HAProxy of configs, over TLS, and a browser that uses them.
type balanced struct {
	*cluster
	proxy   *servertest.HAProxy
	browser context.Context
}

// newBalanced starts the replicas, HAProxy and the browser. HAProxy names the replicas a, b and c
// one, two and three.
func newBalanced(t *testing.T, s settings) *balanced {
	t.Helper()
	if testing.Short() {
		t.Skip("needs a browser, HAProxy, PostgreSQL and memcached")
	}
	hash, err := hashing.New(passphrase)
	if err != nil {
		t.Fatal(err)
	}
	s.admin = fmt.Sprintf(", trusted_proxy: {networks: [127.0.0.1/32]}, users: [{name: %s, role: "+
		"operator, password_hash: %q}]", operator, hash)
	b := &balanced{cluster: newCluster(t, s)}
	b.start("a", "b", "c")
	var servers []string
	for _, name := range []string{"a", "b", "c"} {
		servers = append(servers, strings.TrimPrefix(b.replicas[name].URL, "http://"))
	}
	b.proxy = servertest.NewBalancer(t, balancerFile,
		servertest.NewAuthority(t).IssueBoth(t, "127.0.0.1"), ready, servers...)
	b.browser = browsertest.Start(t, chromedp.Flag("ignore-certificate-errors", true))
	return b
}

// tab opens a tab. When a stream breaks with its replica, the console shows an error: such errors
// are expected.
func (b *balanced) tab(expected ...string) context.Context {
	b.t.Helper()
	return browsertest.Tab(b.t, b.browser,
		append(expected, "net::ERR_INCOMPLETE_CHUNKED_ENCODING")...)
}

// only directs all new requests to one replica.
func (b *balanced) only(replica string) {
	b.t.Helper()
	if err := b.proxy.Only(ready,
		map[string]string{"a": "one", "b": "two", "c": "three", "": ""}[replica]); err != nil {
		b.t.Fatal(err)
	}
}

// open opens a page in a tab and checks which replica served it.
func (b *balanced) open(tab context.Context, path, replica string) {
	b.t.Helper()
	browsertest.Visit(b.t, tab, b.proxy.URL()+path)
	if from := browsertest.Evaluate[string](b.t, tab, servedBy); from != replica {
		b.t.Fatalf("%s is from replica %q, want %q", path, from, replica)
	}
}

const servedBy = `(document.querySelector(".from bdi")?.textContent ?? "")`

// signIn completes the sign-in form.
func (b *balanced) signIn(tab context.Context) {
	b.t.Helper()
	browsertest.Visit(b.t, tab, b.proxy.URL()+"/")
	err := chromedp.Do(tab, chromedp.SendKeys("#user", operator),
		chromedp.SendKeys("#password", passphrase), chromedp.Submit("#password"))
	if err != nil {
		b.t.Fatal(err)
	}
	browsertest.Until(b.t, tab,
		`location.pathname == "/" && document.readyState == "complete" && document.querySelector(".menu") != null`)
}

// cookie returns the session cookie of the browser.
func (b *balanced) cookie(tab context.Context) *network.Cookie {
	b.t.Helper()
	kept, err := chromedp.Call(tab, network.GetCookies, network.GetCookiesParams{})
	if err != nil {
		b.t.Fatal(err)
	}
	at := slices.IndexFunc(kept.Cookies, func(c *network.Cookie) bool {
		return c.Name == "__Host-holdfast" // not that of a known browser
	})
	if at < 0 {
		b.t.Fatal("the browser has no cookie")
	}
	return kept.Cookies[at]
}

// action posts JSON from within a page, with the sign-in of its user, and returns the time of the
// response.
func (b *balanced) action(tab context.Context, path, body string) time.Time {
	b.t.Helper()
	answer := browsertest.Await[struct {
		Status int
		Text   string
		At     int64
	}](b.t, tab, fmt.Sprintf(
		`fetch(%q, {method: "POST", body: %q, headers: {"Content-Type": "application/json"}})
		.then(async (r) => ({status: r.status, text: await r.text(), at: Date.now()}))`, path, body))
	if answer.Status != http.StatusOK {
		b.t.Fatalf("%s: got %d %s, want 200", path, answer.Status, answer.Text)
	}
	return time.UnixMilli(answer.At)
}

// actionOn posts JSON directly to a replica, with a sign-in made at another one. It returns the
// time of the response.
func (b *balanced) actionOn(replica string, cookie *network.Cookie, path, body string) time.Time {
	b.t.Helper()
	status, answer := b.post(b.replicas[replica], path, body, "Content-Type", "application/json",
		"X-Forwarded-Proto", "https", "Cookie", cookie.Name+"="+cookie.Value)
	if status != http.StatusOK {
		b.t.Fatalf("%s of %s: %d %s", path, replica, status, answer)
	}
	return time.Now()
}

func TestThreeReplicasAnswerAsOne(t *testing.T) {
	t.Parallel()
	var table string
	for i := range tries {
		table += ledgerJob(fmt.Sprintf("hold-%d", i), fmt.Sprintf("t%d", i), "", "gate: hold")
	}
	b := newBalanced(t, settings{refresh: "1h", jobs: table}) // only the stream updates the page
	tab := b.tab()

	b.only("a")
	b.signIn(tab)
	cookie := b.cookie(tab)
	if cookie.Name != "__Host-holdfast" || !cookie.Secure || !cookie.HTTPOnly ||
		cookie.SameSite != network.CookieSameSiteStrict {
		t.Errorf("the cookie is %+v", cookie)
	}
	b.only("c")
	began := time.Now()
	b.open(tab, "/", "c")
	busy := time.Since(began) // about 0.1 s on an idle machine
	var took []time.Duration
	for i := range tries {
		job := fmt.Sprintf("hold-%d", i)
		b.watch(tab, "c", fmt.Sprintf(`#live a[href="/jobs/%s"]`, job))
		answeredAt := b.actionOn("b", cookie, "/api/v1/jobs/"+job+"/trigger", `{"reason": "a test"}`)
		took = append(took, b.shown(tab).Sub(answeredAt))
	}
	slices.Sort(took)
	t.Logf("the third replica showed what was done on the second after %s; a page took %s", took,
		busy)
	if took[0] > soon+3*busy {
		t.Errorf("the third replica showed what was done on the second after %s, want %s at "+
			"most, where a page takes %s", took, soon, busy)
	}

	held := b.startedRun("hold-0", 0)
	b.watch(tab, "c", `#live .badge.cancelled`)
	b.actionOn("b", cookie, "/api/v1/runs/"+held.ID+"/cancel", `{}`)
	b.expect(b.awaitEnd(held.ID), "cancelled", "cancelled")
	b.shown(tab)
	b.expectActions("sign_in a", "trigger b", "trigger b", "trigger b", "cancel b")
	b.audit()
}

// expectActions checks the actor and the replica of each line of the audit log, the oldest first.
func (b *balanced) expectActions(want ...string) {
	b.t.Helper()
	lines, err := ask[struct{ Actor, Via, Action, Replica string }](b.ctx, b.cluster,
		`SELECT actor, via, action, replica FROM holdfast.audit ORDER BY at, id`)
	if err != nil {
		b.t.Fatal(err)
	}
	var got []string
	for _, l := range lines {
		if l.Actor != operator {
			b.t.Errorf("%s was done by %q (%s)", l.Action, l.Actor, l.Via)
		}
		got = append(got, l.Action+" "+l.Replica)
	}
	if !slices.Equal(got, want) {
		b.t.Errorf("in the audit log is %q, want %q", got, want)
	}
}

// Another replica continues the stream. The page names the dead replica, and users stay signed in.
func TestReplicaDiesWhileAPageIsOpen(t *testing.T) {
	soak.Only(t)
	t.Parallel()
	b := newBalanced(t, settings{jobs: ledgerJob("hold", "t", "", "gate: hold")})
	tab := b.tab("Failed to load resource: net::ERR_") // its connections break with the replica
	b.only("a")
	b.signIn(tab)
	b.only("c")
	b.open(tab, "/replicas", "c")
	b.only("") // all replicas serve, as in production
	if err := b.replicas["c"].Kill(); err != nil {
		t.Fatal(err)
	}
	browsertest.Until(t, tab,
		`["a", "b"].includes(`+servedBy+`) && document.querySelectorAll('[data-key^="session-"] .badge.lost').length == 1`)
	if hidden := browsertest.Evaluate[bool](t, tab,
		`document.querySelector(".offline").hidden`); !hidden {
		t.Error("note that the page is stale: got one, want none")
	}
	browsertest.Visit(t, tab, b.proxy.URL()+"/")
	browsertest.Until(t, tab,
		`/c is lost and not back/.test(document.querySelector("#problems")?.textContent)`)
	for range 4 { // every replica must know the sign-ins
		browsertest.Visit(t, tab, b.proxy.URL()+"/audit")
		if user := browsertest.Evaluate[string](t, tab,
			`document.querySelector(".menu bdi")?.textContent ?? ""`); user != operator {
			t.Errorf("the page knows %q", user)
		}
	}
	b.action(tab, "/api/v1/jobs/hold/trigger", `{}`)
	if held := b.startedRun("hold", 0); held.Replica == "c" {
		t.Error("the dead replica runs the job")
	}
}

// No replica is ready during the outage. The page shows its cached state and says so, and updates
// itself after the outage.
func TestStoreOutageBehindABalancer(t *testing.T) {
	t.Parallel()
	pg, url := ownPostgres(t)
	b := newBalanced(t, settings{url: url, jobs: ledgerJob("hold", "t", "", "")})
	tab := b.tab("status of 503") // of stale pages
	b.signIn(tab)
	for _, name := range []string{"a", "b", "c"} { // each replica then has a cached page
		b.only(name)
		b.open(tab, "/", name)
	}
	b.only("")
	if err := pg.Kill(); err != nil {
		t.Fatal(err)
	}
	browsertest.Until(t, tab, `document.querySelector("main.stale") != null`)
	b.awaitDown()
	browsertest.Visit(t, tab, b.proxy.URL()+"/")
	if text := browsertest.Evaluate[string](t, tab,
		`document.body.textContent`); !strings.Contains(text, "PostgreSQL does not answer") ||
		!strings.Contains(text, "The page shows the state") {
		t.Errorf("while no replica is ready the page is %q", text)
	}
	if err := pg.Start(b.ctx); err != nil {
		t.Fatal(err)
	}
	browsertest.Until(t, tab,
		`document.querySelector("main") != null && document.querySelector("main.stale") == null && `+servedBy+` != ""`)
}

// awaitDown waits until HAProxy sees no ready replica.
func (b *balanced) awaitDown() {
	b.t.Helper()
	b.await("no replica is ready", func(context.Context) (bool, error) {
		up, err := b.proxy.Up(ready)
		return up == 0, err
	})
}

// A signed-in user follows every link from the overview on, one of each kind. The console must show
// no error, and the content policy must block nothing.
func TestEveryPageOfAClusterIsValid(t *testing.T) {
	soak.Only(t)
	t.Parallel()
	const limit = 1000 // pages
	b := newBalanced(t, settings{wait: "{attempts: 0, elapsed: 1h, delay: 50ms, backoff: constant}",
		limit: 20 * time.Minute, // about 300 pages, and a second or more for each on a busy machine
		jobs: ledgerJob("hold", "t", "group: loads", "gate: hold") +
			ledgerJob("wait", "t", "", "") + ledgerJob("burning", "w", "", "panics: true") +
			ledgerJob("nightly", "n", `schedule: "0 3 * * *"`, "")})
	tab := b.tab("responded with a status of 503") // see pageTries
	b.signIn(tab)
	for _, job := range []string{"hold", "burning"} {
		b.action(tab, "/api/v1/jobs/"+job+"/trigger", `{}`)
	}
	b.startedRun("hold", 0)
	b.action(tab, "/api/v1/jobs/wait/trigger", `{}`)
	b.awaitRun("job = 'wait' AND state = 'waiting' AND blocker IS NOT NULL")
	b.awaitRun("job = 'burning' AND state = 'failed'")
	b.action(tab, "/api/v1/jobs/burning/pause", `{}`)

	shapes := map[string]bool{}
	pages := []string{"/"}
	for i := 0; i < min(len(pages), limit); i++ {
		status := http.StatusServiceUnavailable
		for try := 0; status == http.StatusServiceUnavailable && try < pageTries; try++ {
			status = b.answer(tab, pages[i])
		}
		if status != http.StatusOK {
			t.Errorf("%s: got %d, want 200", pages[i], status)
		}
		for _, link := range b.links(tab) {
			if shape := b.shape(link); !shapes[shape] {
				shapes[shape] = true
				pages = append(pages, link)
			}
		}
	}
	for _, want := range []string{"/locks", "/jobs/NAME", "/jobs/NAME/explain", "/runs/ID",
		"/replicas", "/audit", "/api/v1/runs/ID", "/api/v1/jobs/NAME"} {
		if !shapes[want] {
			t.Errorf("no page leads to %s", want)
		}
	}
	t.Logf("%d pages: %s", len(pages), strings.Join(pages, " "))
}

// answer visits a page, or requests a download from the page that is open: a browser saves it and
// shows no page. It returns the status.
func (b *balanced) answer(tab context.Context, page string) int {
	b.t.Helper()
	if strings.Contains(page, "download=yes") {
		return browsertest.Await[int](b.t, tab,
			fmt.Sprintf("fetch(%q).then((answer) => answer.status)", page))
	}
	browsertest.Visit(b.t, tab, b.proxy.URL()+page)
	return browsertest.Evaluate[int](b.t, tab,
		`performance.getEntriesByType("navigation")[0].responseStatus`)
}

// links returns the addresses on this site to which the page links or submits forms. It leaves out
// bulk actions, which need a selection.
func (b *balanced) links(tab context.Context) []string {
	b.t.Helper()
	return browsertest.Evaluate[[]string](b.t, tab,
		`[...document.querySelectorAll("a[href], form[method=get]")].map((e) => new URL(e.getAttribute("href") ?? e.getAttribute("action"), location)).filter((u) => u.origin == location.origin && !u.pathname.startsWith("/bulk/")).map((u) => u.pathname + u.search)`)
}

// shape returns what addresses of one kind share: the path without names, and the names of the
// parameters.
func (b *balanced) shape(address string) string {
	path, query, _ := strings.Cut(address, "?")
	parts := strings.Split(path, "/")
	for i, part := range parts[:len(parts)-1] {
		switch part {
		case "jobs", "groups":
			parts[i+1] = "NAME"
		case "runs", "replicas", "webhooks":
			parts[i+1] = "ID"
		}
	}
	var names []string
	for pair := range strings.SplitSeq(query, "&") {
		name, _, _ := strings.Cut(pair, "=")
		names = append(names, name)
	}
	slices.Sort(names)
	return strings.TrimSuffix(strings.Join(parts, "/")+"?"+strings.Join(slices.Compact(names), "&"),
		"?")
}

// watch makes the page record when it first shows an element of the selector from that replica. The
// page must not show it yet.
func (b *balanced) watch(tab context.Context, replica, selector string) {
	b.t.Helper()
	shown := fmt.Sprintf(`%s == %q && document.querySelector(%q) != null`, servedBy, replica,
		selector)
	early := browsertest.Evaluate[bool](b.t, tab, `(() => {
		const shown = () => `+shown+`;
		if (shown()) return true;
		window.shownAt = 0;
		const observer = new MutationObserver(() => {
			if (!shown()) return;
			window.shownAt = Date.now();
			observer.disconnect();
		});
		observer.observe(document.documentElement, {subtree: true, childList: true, attributes: true, characterData: true});
		return false;
	})()`)
	if early {
		b.t.Fatalf("the page shows %s before it can", selector)
	}
}

// shown waits for the element of watch and returns the time at which the page first showed it.
func (b *balanced) shown(tab context.Context) time.Time {
	b.t.Helper()
	browsertest.Until(b.t, tab, `window.shownAt > 0`)
	return time.UnixMilli(browsertest.Evaluate[int64](b.t, tab, `window.shownAt`))
}
