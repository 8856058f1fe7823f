package access

import (
	"fmt"
	"net/http"
	"net/netip"
	"testing"

	"github.com/rs/zerolog"

	"github.com/holdfast-dev/holdfast/internal/test/accesstest"
	"github.com/holdfast-dev/holdfast/jobs/storage"
)

func testUser(t *testing.T, name, password string, role Role) User {
	t.Helper()
	return User{Name: name, Role: role, PasswordHash: accesstest.Hash(t, password)}
}

// testPolicy has two users, three tokens and a trusted proxy that names users.
func testPolicy(t *testing.T) Policy {
	t.Helper()
	return Policy{
		Hosts: []string{accesstest.Host},
		Users: []User{testUser(t, "anna", "correct horse", Operator),
			testUser(t, "vera", "staple", Viewer)},
		Tokens: []Token{{Name: "deploy", Role: Operator,
			Hash: accesstest.Sum(accesstest.DeployToken)},
			{Name: "probe", Role: Viewer, Hash: accesstest.Sum("probe-token")},
			{Name: "prometheus", Role: MetricsReader, Hash: accesstest.Sum("scrape-token")}},
		Proxy: &Proxy{
			Networks:   []netip.Prefix{netip.MustParsePrefix("10.1.0.0/16")},
			UserHeader: "X-Forwarded-User", Role: Viewer, Operators: []string{"olga@example.com"},
		},
	}
}

// texts writes responses as plain text.
type texts struct{}

func (texts) Refuse(w http.ResponseWriter, _ *http.Request, status int, text string) {
	http.Error(w, text, status)
}

func (texts) SignIn(w http.ResponseWriter, _ *http.Request, status int, form SignInForm) {
	http.Error(w, fmt.Sprintf("%+v", form), status)
}

func newGuard(t *testing.T, p Policy) *Guard {
	t.Helper()
	return newGuardWith(t, p, nil, zerolog.Nop())
}

func newGuardWith(t *testing.T, p Policy, attempts storage.LoginAttempts,
	log zerolog.Logger) *Guard {
	t.Helper()
	p.Check(func(format string, args ...any) { t.Errorf(format, args...) })
	return newSharedGuard(t, p, Shared{LoginAttempts: attempts}, log)
}

func newSharedGuard(t *testing.T, p Policy, shared Shared, log zerolog.Logger) *Guard {
	t.Helper()
	guard, err := NewGuard(p, "", shared, texts{}, log)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(guard.Close)
	return guard
}

func newHandler(t *testing.T, p Policy) http.Handler {
	t.Helper()
	return handlerOf(newGuard(t, p))
}

// handlerOf returns a handler that serves the sign-in to everybody and all other paths to viewers.
func handlerOf(guard *Guard) http.Handler {
	signIn := SignIn{guard}
	mux := http.NewServeMux()
	mux.Handle("GET /login", guard.Admit(ForAnybody, signIn.ShowForm))
	mux.Handle("POST /login", guard.Admit(ForAnybody, signIn.Submit))
	mux.Handle("GET "+StartPath, guard.Admit(ForAnybody, signIn.StartOIDC))
	mux.Handle("GET "+CallbackPath, guard.Admit(ForAnybody, signIn.FinishOIDC))
	mux.Handle("GET "+SignedOutPath, guard.Admit(ForAnybody, signIn.SignedOut))
	mux.Handle("POST /logout", guard.Admit(ForIdentities, signIn.SignOut))
	mux.Handle("/", guard.Admit(ForIdentities, func(http.ResponseWriter, *http.Request) {}))
	return mux
}
