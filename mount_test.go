package holdfast_test

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/rs/zerolog"
	"go.opentelemetry.io/otel/trace/noop"

	"github.com/holdfast-dev/holdfast"
	"github.com/holdfast-dev/holdfast/admin"
	"github.com/holdfast-dev/holdfast/admin/page"
	"github.com/holdfast-dev/holdfast/configs"
	"github.com/holdfast-dev/holdfast/jobs/sqlite"
)

// asAnna is the authentication of a program that has one user.
func asAnna(*http.Request) (admin.Visitor, error) {
	return admin.Visitor{Name: "anna", Role: admin.Operator}, nil
}

// status returns the status of a page.
func status(page http.Handler, path string) int {
	reply := httptest.NewRecorder()
	page.ServeHTTP(reply, httptest.NewRequest(http.MethodGet, path, nil))
	return reply.Code
}

// TestAdminInAServerOfTheProgram follows the page from before Open until after Run. A page that is
// made after Open serves at once.
func TestAdminInAServerOfTheProgram(t *testing.T) {
	replica, err := holdfast.New(
		holdfast.WithSQLite(sqlite.Driver, filepath.Join(t.TempDir(), "test.db")),
		holdfast.WithReplicaName("a"), holdfast.WithLog(zerolog.Nop(), nil))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := replica.Admin(admin.At("/")); !errors.Is(err, admin.ErrOptions) {
		t.Errorf("a page without users: %v", err)
	}
	if _, err := replica.Admin(); err == nil ||
		!strings.Contains(err.Error(), "expected at least one of package") {
		t.Errorf("a page without options: %v", err)
	}
	page, err := replica.Admin(admin.At("/holdfast/"), admin.Authenticate(asAnna))
	if err != nil {
		t.Fatal(err)
	}
	if got := status(page, "/holdfast/jobs"); got != http.StatusServiceUnavailable {
		t.Errorf("before Open: status %d", got)
	}
	if err := replica.Open(t.Context()); err != nil {
		t.Fatal(err)
	}
	second, err := replica.Admin(admin.At("/api/"), admin.Authenticate(asAnna), admin.APIOnly())
	if err != nil {
		t.Fatal(err)
	}
	stop := running(replica)
	for path, page := range map[string]http.Handler{"/holdfast/jobs": page,
		"/api/api/v1/jobs": second} {
		if got := status(page, path); got != http.StatusOK {
			t.Errorf("%s: status %d", path, got)
		}
	}
	if err := replica.Health(); err != nil {
		t.Errorf("while it runs: %v", err)
	}
	if err := stop(); err != nil {
		t.Fatal(err)
	}
	if got := status(page, "/holdfast/jobs"); got != http.StatusServiceUnavailable {
		t.Errorf("after Run: status %d", got)
	}
	if err := replica.Health(); err == nil || !strings.Contains(err.Error(), "has stopped") {
		t.Errorf("after Run: %v", err)
	}
}

// TestReloadReachesMountedPages removes the users of the configuration from a page that needs them.
func TestReloadReachesMountedPages(t *testing.T) {
	const user = "admin: {listen: '', hosts: [example.com], tokens: [{name: deploy, role: NAME, " +
		"token_hash: 6ff1ec2d8ff29bd9c4e9bd43f3bb7b2a46e0d1a7d6f2b9ad8c1e2f3a4b5c6d7e}]}\n"
	parse := func(role string) (*configs.Config, error) {
		return configs.Parse("holdfast.yaml", []byte("database: {url: 'sqlite://"+
			filepath.ToSlash(filepath.Join(t.TempDir(), "test.db"))+"'}\nreplica: {name: a}\n"+
			strings.Replace(user, "NAME", role, 1)))
	}
	config, err := parse("viewer")
	if err != nil {
		t.Fatal(err)
	}
	replica, err := holdfast.New(holdfast.WithDriver(sqlite.Driver),
		holdfast.WithConfig(config), holdfast.WithLog(zerolog.Nop(), nil))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := replica.Admin(admin.At("/")); err != nil {
		t.Fatal(err)
	}
	if err := replica.Open(t.Context()); err != nil {
		t.Fatal(err)
	}
	stop := running(replica)
	err = replica.Reload(func() (*configs.Config, error) {
		return configs.Parse("holdfast.yaml", []byte("replica: {name: a}\nadmin: {listen: ''}\n"))
	})
	if !errors.Is(err, admin.ErrOptions) {
		t.Errorf("a reload without users: got %v, want an error of the page", err)
	}
	if err := stop(); err != nil {
		t.Error(err)
	}
}

// slowPage is a page whose request waits for proceed before it uses the parts of the replica.
type slowPage struct {
	parts          page.Parts
	begun, proceed chan struct{}
	trace          page.Trace
}

func (p *slowPage) Mount(page.Access, []page.Option) (page.Mounted, error) { return p, nil }
func (p *slowPage) CheckAccess(page.Access) error                          { return nil }
func (p *slowPage) SetAccess(page.Access) error                            { return nil }
func (p *slowPage) End() error                                             { return nil }

func (p *slowPage) Begin(parts page.Parts) error {
	p.parts = parts
	return nil
}

func (p *slowPage) ServeHTTP(http.ResponseWriter, *http.Request) {
	parts := p.parts
	close(p.begun)
	<-p.proceed
	parts.Upcoming(time.Now(), 1)
	p.trace = parts.Trace(uuid.New())
}

// TestRequestOfAMountedPageDuringClose continues a request after Close. It uses the parts that the
// replica had when the request began.
func TestRequestOfAMountedPageDuringClose(t *testing.T) {
	replica, err := holdfast.New(
		holdfast.WithSQLite(sqlite.Driver, filepath.Join(t.TempDir(), "test.db")),
		holdfast.WithReplicaName("a"), holdfast.WithLog(zerolog.Nop(), nil),
		holdfast.WithTracerProvider(noop.NewTracerProvider()))
	if err != nil {
		t.Fatal(err)
	}
	p := &slowPage{begun: make(chan struct{}), proceed: make(chan struct{})}
	handler, err := replica.Admin(p)
	if err != nil {
		t.Fatal(err)
	}
	if err := replica.Open(t.Context()); err != nil {
		t.Fatal(err)
	}
	var requests sync.WaitGroup
	requests.Go(func() { status(handler, "/") })
	<-p.begun
	replica.Close()
	close(p.proceed)
	requests.Wait()
	if p.trace.ID == "" {
		t.Error("the request got no trace after Close")
	}
}
