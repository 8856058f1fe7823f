package attacks

import (
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/crypto/bcrypt"

	"github.com/holdfast-dev/holdfast/admin/password"
)

// pair starts two replicas of one cluster.
func (a *attack) pair(admin string) (first, second *target) {
	a.Helper()
	database := "url: '" + server.Database(a.T) + "'"
	return a.start(plan{name: "first", database: database, admin: admin}),
		a.start(plan{name: "second", database: database, admin: admin})
}

// TestRow06 guesses the password of an operator, who then signs in.
func TestRow06(t *testing.T) {
	a := begin(t, 6)
	first, second := a.pair(a.guarded())
	known := first.signIn("anna", passphrase, "127.0.0.20")
	if known.status != http.StatusSeeOther {
		t.Fatalf("sign-in: %d", known.status)
	}
	refused := map[int]int{}
	for i := range 30 {
		refused[first.signIn("anna", fmt.Sprint("guess ", i),
			fmt.Sprintf("127.0.0.%d", 30+i%3)).status]++
	}
	if refused[http.StatusTooManyRequests] == 0 {
		a.Errorf("no guess was slowed: %v", refused)
	}
	for _, g := range []*target{first, second} {
		if again := g.signIn("anna", passphrase, "127.0.0.20",
			known.cookies...); again.status != http.StatusSeeOther {
			a.Errorf("%s: the operator in a known browser: %d", g.Name, again.status)
		}
	}
	strange := time.Now()
	second.await("sign-in from a new browser", time.Minute, func() bool {
		return second.signIn("anna", passphrase, "127.0.0.21").status == http.StatusSeeOther
	})
	notice := first.ask(request{path: "/", cookies: known.cookies}).body
	if !strings.Contains(notice, "sign-ins") && !strings.Contains(notice, "Sign-ins") {
		a.Error("the overview has no notice")
	}
	a.report("30 wrong passwords (%d refused as wrong, %d slowed): the operator signs in at both "+
		"replicas at once in a known browser, and after %.1f s in a new one",
		refused[http.StatusForbidden], refused[http.StatusTooManyRequests],
		time.Since(strange).Seconds())
}

// TestRow07 signs in 560 times at once.
func TestRow07(t *testing.T) {
	a := begin(t, 7)
	g := a.start(plan{admin: a.guarded()})
	const clients = 560
	var mu sync.Mutex
	statuses, advised := map[int]int{}, 0
	var all sync.WaitGroup
	for i := range clients {
		all.Go(func() {
			answer, err := g.try(request{path: "/login", from: fmt.Sprintf("127.0.0.%d", 10+i%40),
				form: url.Values{"user": {fmt.Sprint("user ", i)}, "password": {"guess"}}})
			mu.Lock()
			defer mu.Unlock()
			if err != nil {
				statuses[0]++ // evicted at the limit of connections
				return
			}
			statuses[answer.status]++
			if answer.status == http.StatusServiceUnavailable &&
				answer.header.Get("Retry-After") != "" {
				advised++
			}
		})
	}
	var slowest time.Duration
	for range 10 {
		for path, token := range map[string]string{"/healthz": "", "/api/v1/jobs": viewerToken} {
			answer, err := g.try(request{path: path, token: token, from: "127.0.0.99",
				limit: allowed})
			if err != nil || answer.status != http.StatusOK {
				a.Errorf("%s beside them: %v, %d", path, err, answer.status)
			}
			slowest = max(slowest, answer.took)
		}
	}
	all.Wait()
	if advised == 0 || advised != statuses[http.StatusServiceUnavailable] {
		a.Errorf("answers by status: %v, %d with Retry-After", statuses, advised)
	}
	a.report("%d parallel sign-ins: %d checked, %d got 503 with Retry-After, %d lost their "+
		"connection; others are answered in %d ms at most", clients,
		statuses[http.StatusForbidden], advised, statuses[0], slowest.Milliseconds())
}

// TestRow10 goes on after the limits of sign-ins and of tokens.
func TestRow10(t *testing.T) {
	a := begin(t, 10)
	g := a.start(plan{admin: a.guarded()})
	guess := func(i int) int {
		return g.signIn(fmt.Sprint("user ", i), "guess", "127.0.0.20").status
	}
	for i := range 60 { // more than the limit of 40
		guess(i)
	}
	lines := strings.Count(g.Log(), "\n")
	const further = 1500
	statuses := map[int]int{}
	begun := time.Now()
	for i := range further {
		statuses[guess(100+i)]++
	}
	took := time.Since(begun)
	written := strings.Count(g.Log(), "\n") - lines
	minutes := int(took.Minutes()) + 2
	if statuses[http.StatusTooManyRequests] < further*9/10 || written > 150*minutes {
		a.Errorf("answers by status: %v, %d lines in the log", statuses, written)
	}
	tokens := map[int]int{}
	for i := range 80 {
		tokens[g.ask(request{path: "/api/v1/jobs", token: fmt.Sprint("guess-", i),
			from: "127.0.0.21"}).status]++
	}
	if tokens[http.StatusTooManyRequests] < 30 {
		a.Errorf("answers to wrong tokens by status: %v", tokens)
	}
	g.expect(http.StatusOK, request{path: "/api/v1/jobs", token: viewerToken, from: "127.0.0.22"})
	a.report("%d sign-ins of a throttled address in %.1f s: %d lines in the log; %d of 80 wrong "+
		"tokens got 429", further, took.Seconds(), written, tokens[http.StatusTooManyRequests])
}

// TestRow12 uses a copied cookie after the sign-out, and a role that was taken away.
func TestRow12(t *testing.T) {
	a := begin(t, 12)
	admin := a.guarded()
	first, second := a.pair(admin)
	cookies := first.signIn("anna", passphrase, "").cookies
	status := func(g *target) int {
		return g.ask(request{path: "/api/v1/jobs", cookies: cookies}).status
	}
	if status(first) != http.StatusOK || status(second) != http.StatusOK {
		t.Fatal("the cookie is not valid at both replicas")
	}
	out := first.ask(request{path: "/logout", cookies: cookies, form: url.Values{},
		header: map[string]string{"Origin": first.URL}})
	if out.status != http.StatusSeeOther {
		a.Errorf("sign-out: %d %s", out.status, out.body)
	}
	if got := status(first); got != http.StatusUnauthorized {
		a.Errorf("after the sign-out: %d", got)
	}
	begun := time.Now()
	second.await("end of the cookie at the other replica", time.Minute, func() bool {
		return status(second) == http.StatusUnauthorized
	})
	elsewhere := time.Since(begun)
	if elsewhere > 3*allowed {
		a.Errorf("the other replica accepted the cookie for %s", elsewhere)
	}
	pause := request{path: "/api/v1/pause", cookies: first.signIn("anna", passphrase, "").cookies,
		json: `{"reason": "x"}`, header: map[string]string{"Origin": first.URL}}
	first.expect(http.StatusOK, pause)
	first.reload("name: anna, role: operator", "name: anna, role: viewer")
	first.expect(http.StatusForbidden, pause)
	a.report("a copied cookie: refused at once after the sign-out, at the other replica after "+
		"%.1f s; a role that a reload took away is refused at the next request",
		elsewhere.Seconds())
}

// TestRow13 compares the times of refusals for names with hashes of each kind and for no user. It
// measures up to three times, each with a new replica: a difference of the code shows each time,
// the noise of other processes does not.
func TestRow13(t *testing.T) {
	a := begin(t, 13)
	slow, err := password.New(passphrase)
	if err != nil {
		t.Fatal(err)
	}
	quick, err := bcrypt.GenerateFromPassword([]byte(passphrase), bcrypt.MinCost)
	if err != nil {
		t.Fatal(err)
	}
	users := plan{admin: fmt.Sprintf("users: [{name: argon, password_hash: '%s'}, {name: "+
		"bcrypt, password_hash: '%s'}], cookie_keys: [{key: 0123456789abcdef0123456789abcdef}]",
		slow, quick)}
	names := []string{"argon", "bcrypt", "nobody"}
	var least map[string]time.Duration
	var differ []string
	for range 3 {
		least = leastTimes(t, a.start(users), names)
		differ = nil
		for _, name := range names {
			if f := float64(least[name]) / float64(least["nobody"]); f < 0.6 || f > 1.6 {
				differ = append(differ,
					fmt.Sprintf("the refusal of %s takes %.2f times that of no user", name, f))
			}
		}
		if differ == nil {
			break
		}
		t.Log(differ)
	}
	for _, text := range differ {
		a.Errorf("%s", text)
	}
	a.report("wrong passwords of users with argon2id, with bcrypt and of no user are refused in "+
		"%.1f, %.1f and %.1f ms at least", least["argon"].Seconds()*1000,
		least["bcrypt"].Seconds()*1000, least["nobody"].Seconds()*1000)
}

// leastTimes returns the least time of a refusal for each name, which has the least noise of other
// processes.
func leastTimes(t *testing.T, g *target, names []string) map[string]time.Duration {
	t.Helper()
	times := map[string][]time.Duration{}
	for i := range 15 { // below the limits
		for _, name := range names {
			begun := time.Now()
			answer := g.signIn(name, "guess", fmt.Sprintf("127.0.0.%d", 20+i))
			times[name] = append(times[name], time.Since(begun))
			if answer.status != http.StatusForbidden {
				t.Fatalf("%s: %d", name, answer.status)
			}
		}
	}
	least := make(map[string]time.Duration)
	for _, name := range names {
		least[name] = slices.Min(times[name])
	}
	return least
}
