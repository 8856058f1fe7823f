package admin

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/holdfast-dev/holdfast/internal/test/accesstest"
	"github.com/holdfast-dev/holdfast/jobs/storage"
)

func TestNewRefuses(t *testing.T) {
	cases := []struct {
		name   string
		change func(o *Options)
		text   string
	}{
		{"store", func(o *Options) { o.Store = nil }, "a store is needed"},
		{"replica", func(o *Options) { o.Replica = "" }, "the replica's name is needed"},
		{"refresh", func(o *Options) { o.Refresh = 4999 * time.Millisecond },
			"refresh is 4.999s, expected at least 5s"},
		{"address", func(o *Options) { o.Listen = "8080" },
			`listen is "8080", expected host:port such as 127.0.0.1:8080`},
		{"user name", func(o *Options) { o.Users = []User{user(t, "a\nb", "x", Viewer)} },
			`user 1: name "a\nb" is empty, has more than 200 bytes or an invisible character`},
		{"same user", func(o *Options) {
			o.Users = []User{user(t, "a", "x", Viewer), user(t, "a", "y", Viewer)}
		}, `user "a" is there twice`},
		{"token with a user's name", func(o *Options) {
			o.Users = []User{user(t, "a", "x", Viewer)}
			o.Tokens = []Token{{Name: "a", Role: Viewer, Hash: accesstest.Sum("y")}}
		}, `token "a" has the name of a user: they would be one actor in the audit log`},
		{"same token name", func(o *Options) {
			o.Tokens = []Token{{Name: "a", Role: Viewer, Hash: accesstest.Sum("x")},
				{Name: "a", Role: Viewer, Hash: accesstest.Sum("y")}}
		}, `token "a" is there twice`},
		{"operator of the proxy with a token's name", func(o *Options) {
			o.Tokens = []Token{{Name: "a", Role: Viewer, Hash: accesstest.Sum("x")}}
			o.Proxy = &Proxy{UserHeader: "X-User", Role: Viewer, Operators: []string{"b", "a"},
				Networks: []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8")}}
		}, `operator of the proxy "a" has the name of a token`},
		{"hash", func(o *Options) { o.Users = []User{{Name: "anna", Role: Viewer, PasswordHash: "s3cret"}} },
			`user "anna": password hash: expected an argon2id hash`},
		{"role", func(o *Options) { o.Users = []User{user(t, "anna", "x", "admin")} },
			`user "anna": role is "admin", which does not exist`},
		{"token", func(o *Options) { o.Tokens = []Token{{Name: "ci", Role: Viewer, Hash: "s3cret"}} },
			`token "ci": the hash is not the SHA-256 of a token`},
		{"token's role", func(o *Options) { o.Tokens = []Token{{Name: "ci", Role: "", Hash: accesstest.Sum("x")}} },
			`token "ci": role is "", which does not exist`},
		{"token's name", func(o *Options) { o.Tokens = []Token{{Name: "", Role: Viewer, Hash: accesstest.Sum("x")}} },
			`token 1: name "" is empty`},
		{"proxy", func(o *Options) { o.Proxy = &Proxy{UserHeader: "X-User", Role: Viewer} },
			`the proxy's networks are needed`},
		{"proxy's role", func(o *Options) {
			o.Proxy = &Proxy{UserHeader: "X-User",
				Networks: []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8")}}
		}, `the proxy's role is "", which does not exist`},
		{"cookie key", func(o *Options) { o.CookieKeys = [][]byte{[]byte("s3cret")} },
			`cookie key 1 has 6 bytes, expected at least 32`},
		{"cookie key of one byte", func(o *Options) { o.CookieKeys = [][]byte{[]byte("s")} },
			`cookie key 1 has 1 byte, expected at least 32`},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			o := calm()
			c.change(&o)
			_, err := New(o)
			if !errors.Is(err, ErrOptions) || !strings.Contains(fmt.Sprint(err), c.text) {
				t.Errorf("error is %v, want %q", err, c.text)
			}
			if strings.Contains(fmt.Sprint(err), "s3cret") {
				t.Errorf("got the hash in the error: %v", err)
			}
		})
	}
}

func TestRefusesNonLoopbackAddressWithoutUsers(t *testing.T) {
	for _, address := range []string{":0", "0.0.0.0:0", "[::]:0", "192.0.2.7:8080",
		"[2001:db8::1]:8080"} {
		o := calm()
		o.Listen = address
		_, err := New(o)
		var exposed *ExposedError
		if !errors.As(err, &exposed) || exposed.Address != address ||
			!strings.Contains(err.Error(), address) {
			t.Errorf("%s: error is %v, want an ExposedError", address, err)
		}
		trusted := &Proxy{Networks: []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8")}}
		o.Proxy = trusted // does not authenticate users
		if _, err := New(o); !errors.As(err, &exposed) {
			t.Errorf("%s behind a proxy that authenticates no users: %v", address, err)
		}
		for name, change := range map[string]func(o *Options){
			"users":  func(o *Options) { o.Users = []User{user(t, "anna", "x", Viewer)} },
			"tokens": func(o *Options) { o.Tokens = []Token{{Name: "ci", Role: Viewer, Hash: accesstest.Sum("x")}} },
			"proxy": func(o *Options) {
				o.Proxy = &Proxy{Networks: trusted.Networks, UserHeader: "X-User", Role: Viewer}
			},
		} {
			o := calm()
			o.Listen = address
			change(&o)
			if _, err := New(o); err != nil {
				t.Errorf("%s with %s: %v", address, name, err)
			}
		}
	}
	for _, address := range []string{"127.0.0.1:0", "127.8.0.1:0", "[::1]:0", "localhost:0"} {
		o := calm()
		o.Listen = address
		if _, err := New(o); err != nil {
			t.Errorf("%s: %v", address, err)
		}
	}
}

func TestPortTaken(t *testing.T) {
	first := newServer(t, calm())
	if err := first.Listen(); err != nil {
		t.Fatal(err)
	}
	defer first.Close()
	o := calm()
	o.Listen = first.Addr()
	second := newServer(t, o)
	err := second.Listen()
	if !errors.Is(err, syscall.EADDRINUSE) || !strings.Contains(err.Error(), first.Addr()) {
		t.Errorf("error is %v, want the taken address in it", err)
	}
	if err := second.Run(t.Context()); !errors.Is(err, syscall.EADDRINUSE) {
		t.Errorf("Run returned %v", err)
	}
	if err := first.Close(); err != nil {
		t.Fatal(err)
	}
	if err := second.Listen(); err != nil {
		t.Errorf("after the first gave it back: %v", err)
	}
	if err := second.Close(); err != nil || second.Addr() != "" {
		t.Errorf("Close: %v, address %q", err, second.Addr())
	}
}

// pausedHistory replies to Replicas when the test allows it.
type pausedHistory struct {
	*history
	asked, answer chan struct{}
}

func (h pausedHistory) Replicas(ctx context.Context) ([]storage.ReplicaView, error) {
	close(h.asked)
	<-h.answer
	return h.history.Replicas(ctx)
}

func TestStopFinishesAnswers(t *testing.T) {
	o := calm()
	h := pausedHistory{o.Store.(*history), make(chan struct{}), make(chan struct{})}
	o.Store = h
	server := newServer(t, o)
	if err := server.Listen(); err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	ran := make(chan error, 1)
	go func() { ran <- server.Run(ctx) }()

	type answer struct {
		body string
		err  error
	}
	answers := make(chan answer, 1)
	address := server.Addr()
	go func() {
		body, err := fetch("http://" + address + "/api/v1/replicas")
		answers <- answer{body, err}
	}()
	<-h.asked
	stop()
	for refused := false; !refused; { // a stop closes the listener first
		connection, err := net.Dial("tcp", address)
		if refused = err != nil; !refused {
			_ = connection.Close()
		}
	}
	select {
	case err := <-ran:
		t.Fatalf("Run returned %v before its answer was out", err)
	default:
	}
	close(h.answer)
	if got := <-answers; got.err != nil || !strings.Contains(got.body, "replica-3") {
		t.Errorf("answer under way: %q, %v", got.body, got.err)
	}
	if err := <-ran; err != nil {
		t.Errorf("Run returned %v", err)
	}
}

func fetch(url string) (string, error) {
	response, err := http.Get(url)
	if err != nil {
		return "", err
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	return string(body), err
}

func TestRunReportsBrokenListener(t *testing.T) {
	server := newServer(t, calm())
	if err := server.Listen(); err != nil {
		t.Fatal(err)
	}
	if err := server.listener.Close(); err != nil {
		t.Fatal(err)
	}
	if err := server.Run(t.Context()); !errors.Is(err, net.ErrClosed) {
		t.Errorf("Run returned %v, want the listener's error", err)
	}
}

func TestHealth(t *testing.T) {
	o := down() // the process is healthy while the store is unavailable
	handler := newServer(t, o).Handler()
	if reply := get(t, handler, "/healthz"); reply.Code != http.StatusOK ||
		reply.Body.String() != "ok\n" {
		t.Errorf("healthz: %d %q", reply.Code, reply.Body)
	}
	if reply := get(t, handler, "/readyz"); reply.Code != http.StatusOK ||
		reply.Body.String() != "ready\n" {
		t.Errorf("readyz: %d %q", reply.Code, reply.Body)
	}
	o.Ready = func(context.Context) error { return errors.New("session is lost:\nno heartbeat") }
	reply := get(t, newServer(t, o).Handler(), "/readyz")
	if reply.Code != http.StatusServiceUnavailable ||
		reply.Body.String() != "session is lost: no heartbeat\n" {
		t.Errorf("readyz: %d %q", reply.Code, reply.Body)
	}

	guarded := guardedOptions(t)
	guarded.Ready = o.Ready
	handler = newServer(t, guarded).Handler()
	if reply := accesstest.Ask(handler, http.MethodGet,
		"/readyz"); reply.Code != http.StatusServiceUnavailable ||
		reply.Body.String() != "not ready\n" {
		t.Errorf("readyz for a stranger: %d %q", reply.Code, reply.Body)
	}
	if reply := accesstest.Ask(handler, http.MethodGet, "/readyz",
		accesstest.WithHeader("Authorization",
			"Bearer probe-token")); reply.Body.String() != "session is lost: no heartbeat\n" {
		t.Errorf("readyz with a token: %q", reply.Body)
	}
}

// elsewhere is a listener with a non-loopback address, to which a host name may resolve.
type elsewhere struct {
	net.Listener
	closed bool
}

func (*elsewhere) Addr() net.Addr { return &net.TCPAddr{IP: net.IPv4(192, 0, 2, 7), Port: 8080} }

func (e *elsewhere) Close() error {
	e.closed = true
	return nil
}

// TestRefusesNonLoopbackNameWithoutUsers checks a host name, whose address is known only after
// listening.
func TestRefusesNonLoopbackNameWithoutUsers(t *testing.T) {
	o := calm()
	o.Listen = "scheduler.example.com:8080"
	s := newServer(t, o)
	l := &elsewhere{}
	s.listen = func(_, address string) (net.Listener, error) {
		if address != o.Listen {
			t.Errorf("listens on %s", address)
		}
		return l, nil
	}
	var exposed *ExposedError
	if err := s.Listen(); !errors.As(err, &exposed) || exposed.Address != o.Listen {
		t.Errorf("error is %v, want an ExposedError with the name", err)
	}
	if !l.closed || s.Addr() != "" {
		t.Errorf("the address is kept: closed %v, address %q", l.closed, s.Addr())
	}
	o.Users = []User{user(t, "anna", "x", Viewer)}
	s = newServer(t, o)
	l = &elsewhere{}
	s.listen = func(string, string) (net.Listener, error) { return l, nil }
	if err := s.Listen(); err != nil || l.closed {
		t.Errorf("with a user: %v, closed %v", err, l.closed)
	}
	// A reload must not remove the users.
	err := s.SetAccess(Access{})
	_, admitted := s.site.Guard.Identify(httptest.NewRequest(http.MethodGet, "/", nil))
	if !errors.As(err, &exposed) || admitted {
		t.Errorf("without its user again: %v, want an ExposedError", err)
	}
}

// TestAccessChangesWhileServing checks that the new access applies to the next request.
func TestAccessChangesWhileServing(t *testing.T) {
	o := calm()
	o.Tokens = []Token{{Name: "ci", Role: Viewer, Hash: accesstest.Sum("old")}}
	s := newServer(t, o)
	handler := s.Handler()
	status := func(token string) int {
		reply := accesstest.Ask(handler, http.MethodGet, "/api/v1/overview", func(r *http.Request) {
			r.Host = "127.0.0.1"
			r.Header.Set("Authorization", "Bearer "+token)
		})
		return reply.Code
	}
	if old, fresh := status("old"), status("fresh"); old != http.StatusOK ||
		fresh != http.StatusUnauthorized {
		t.Fatalf("%d and %d before", old, fresh)
	}
	err := s.SetAccess(Access{
		Tokens: []Token{{Name: "ci", Role: "nobody", Hash: accesstest.Sum("fresh")}}})
	if !errors.Is(err, ErrOptions) {
		t.Errorf("a role that is none: %v", err)
	}
	if old := status("old"); old != http.StatusOK {
		t.Errorf("%d after a mistake", old)
	}
	if err := s.SetAccess(Access{
		Tokens: []Token{{Name: "ci", Role: Viewer, Hash: accesstest.Sum("fresh")}}}); err != nil {
		t.Fatal(err)
	}
	if old, fresh := status("old"), status("fresh"); old != http.StatusUnauthorized ||
		fresh != http.StatusOK {
		t.Errorf("%d and %d after", old, fresh)
	}
}
