package admin

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/crypto/bcrypt"
)

func user(t *testing.T, name, password string) User {
	t.Helper()
	hash, err := bcrypt.GenerateFromPassword([]byte(password), bcrypt.MinCost)
	if err != nil {
		t.Fatal(err)
	}
	return User{Name: name, PasswordHash: string(hash)}
}

func guarded(t *testing.T) *Server {
	t.Helper()
	o := contention()
	o.Users = []User{user(t, "anna", "correct horse"), user(t, "bob", "staple")}
	o.Listen = "0.0.0.0:0"
	return newServer(t, o)
}

func signIn(handler http.Handler, path, name, password string) *httptest.ResponseRecorder {
	request := httptest.NewRequest(http.MethodGet, path, nil)
	request.Host = "scheduler.example.com"
	if name != "" {
		request.SetBasicAuth(name, password)
	}
	recorder := httptest.NewRecorder()
	handler.ServeHTTP(recorder, request)
	return recorder
}

// paths returns an address of every route.
func paths(s *Server) []string {
	var all []string
	for _, r := range s.routes() {
		path := strings.NewReplacer("{$}", "", "{name}", "rollup-sales", "{id}", id(10).String(),
			"{file}", s.assets.byName["holdfast.css"].hashed).Replace(r.path)
		all = append(all, path)
	}
	return all
}

func TestEveryRouteAsksForPassword(t *testing.T) {
	server := guarded(t)
	handler := server.Handler()
	for _, path := range append(paths(server), "/nothing", "/api/v1/nothing") {
		reply := signIn(handler, path, "", "")
		if reply.Code != http.StatusUnauthorized || !strings.HasPrefix(reply.Header().Get("WWW-Authenticate"), "Basic ") {
			t.Errorf("%s: %d without a password", path, reply.Code)
		}
		if strings.Contains(reply.Body.String(), "replica") {
			t.Errorf("%s names a replica to strangers: %s", path, reply.Body)
		}
		for _, wrong := range [][2]string{{"anna", "wrong"}, {"anna", ""}, {"anna", "staple"}, {"nobody", "correct horse"}} {
			if reply := signIn(handler, path, wrong[0], wrong[1]); reply.Code != http.StatusUnauthorized {
				t.Errorf("%s: %d for %v", path, reply.Code, wrong)
			}
		}
		if reply := signIn(handler, path, "anna", "correct horse"); reply.Code == http.StatusUnauthorized {
			t.Errorf("%s: refused with the right password", path)
		}
	}
	for _, path := range []string{"/healthz", "/readyz"} {
		if reply := signIn(handler, path, "", ""); reply.Code != http.StatusOK {
			t.Errorf("%s: %d without a password", path, reply.Code)
		}
	}
}

func TestPasswordIsRememberedBriefly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d, err := newDoors([]User{user(t, "anna", "correct horse")})
		if err != nil {
			t.Fatal(err)
		}
		check := func(password string) error {
			// With no place free only what is remembered gets through.
			for range maxChecks {
				d.checks <- struct{}{}
			}
			defer func() {
				for range maxChecks {
					<-d.checks
				}
			}()
			ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
			defer cancel()
			return d.check(ctx, "anna", password)
		}
		if err := check("correct horse"); !errors.Is(err, context.DeadlineExceeded) {
			t.Fatalf("first check: %v, want it to need bcrypt", err)
		}
		if err := d.check(t.Context(), "anna", "correct horse"); err != nil {
			t.Fatal(err)
		}
		if err := check("correct horse"); err != nil {
			t.Errorf("second check: %v, want it remembered", err)
		}
		if err := check("wrong"); err == nil {
			t.Error("a wrong password got through on a remembered name")
		}
		synctest.Wait()
		time.Sleep(verifiedFor)
		if err := check("correct horse"); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("after %s: %v, want it to need bcrypt", verifiedFor, err)
		}
	})
}

func TestUnknownUserCostsTheSame(t *testing.T) {
	hash, err := bcrypt.GenerateFromPassword([]byte("x"), bcrypt.MinCost+2)
	if err != nil {
		t.Fatal(err)
	}
	d, err := newDoors([]User{user(t, "anna", "a"), {Name: "bob", PasswordHash: string(hash)}})
	if err != nil {
		t.Fatal(err)
	}
	if cost, err := bcrypt.Cost(d.nobody); err != nil || cost != bcrypt.MinCost+2 {
		t.Errorf("cost for unknown names is %d (%v), want the highest", cost, err)
	}
	if err := d.check(t.Context(), "nobody", ""); !errors.Is(err, errWrongPassword) {
		t.Errorf("error is %v", err)
	}
}

func TestTooManyPasswordChecks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := guarded(t)
		for range maxChecks {
			server.doors.checks <- struct{}{}
		}
		reply := signIn(server.Handler(), "/", "anna", "correct horse")
		if reply.Code != http.StatusServiceUnavailable || reply.Header().Get("Retry-After") == "" {
			t.Errorf("%d, Retry-After %q", reply.Code, reply.Header().Get("Retry-After"))
		}
	})
}
