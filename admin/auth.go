package admin

import (
	"context"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"errors"
	"net/http"
	"sync"
	"time"

	"golang.org/x/crypto/bcrypt"
)

const (
	// verifiedFor is how long a password that was right is not hashed again:
	// the page asks every few seconds, and one bcrypt costs 50 ms and more.
	verifiedFor = time.Minute
	// maxChecks bounds the cores that guessing can take from the jobs.
	maxChecks = 2
)

var errWrongPassword = errors.New("wrong user or password")

// doors checks passwords. Its methods may be called concurrently.
type doors struct {
	hashes map[string][]byte
	nobody []byte        // a hash for names that don't exist, as costly as the costliest
	checks chan struct{} // one place for each check under way
	key    []byte        // so that what is remembered is of no use outside this process

	mu       sync.Mutex
	verified map[string]verification // by name: at most one a user
}

type verification struct {
	sum   []byte
	until time.Time
}

func newDoors(users []User) (*doors, error) {
	d := &doors{
		hashes:   make(map[string][]byte),
		checks:   make(chan struct{}, maxChecks),
		key:      make([]byte, sha256.Size),
		verified: make(map[string]verification),
	}
	if len(users) == 0 {
		return d, nil
	}
	_, _ = rand.Read(d.key) // never fails, by its documentation
	cost := bcrypt.MinCost
	for _, user := range users {
		d.hashes[user.Name] = []byte(user.PasswordHash)
		own, err := bcrypt.Cost([]byte(user.PasswordHash))
		if err != nil {
			return nil, err
		}
		cost = max(cost, own)
	}
	var err error
	d.nobody, err = bcrypt.GenerateFromPassword([]byte(rand.Text()), cost)
	return d, err
}

// check returns errWrongPassword, or ctx's error when it ended before the
// password's turn came. A name that does not exist costs what a wrong password
// costs.
func (d *doors) check(ctx context.Context, name, password string) error {
	sum := d.sum(name, password)
	if d.remembers(name, sum) {
		return nil
	}
	select {
	case d.checks <- struct{}{}:
		defer func() { <-d.checks }()
	case <-ctx.Done():
		return ctx.Err()
	}
	hash, known := d.hashes[name]
	if !known {
		hash = d.nobody
	}
	if err := bcrypt.CompareHashAndPassword(hash, []byte(password)); err != nil || !known {
		return errWrongPassword
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.verified[name] = verification{sum: sum, until: time.Now().Add(verifiedFor)}
	return nil
}

func (d *doors) sum(name, password string) []byte {
	mac := hmac.New(sha256.New, d.key)
	mac.Write([]byte(name))
	mac.Write([]byte{0})
	mac.Write([]byte(password))
	return mac.Sum(nil)
}

func (d *doors) remembers(name string, sum []byte) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	v, ok := d.verified[name]
	return ok && time.Now().Before(v.until) && hmac.Equal(v.sum, sum)
}

// authenticate asks for HTTP Basic authentication if there are users.
func (s *Server) authenticate(next http.Handler) http.Handler {
	if len(s.options.Users) == 0 {
		return next
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		name, password, given := r.BasicAuth()
		if !given {
			s.askPassword(w, r)
			return
		}
		ctx, cancel := context.WithTimeout(r.Context(), questionTimeout)
		defer cancel()
		switch err := s.doors.check(ctx, name, password); {
		case err == nil:
			next.ServeHTTP(w, r)
		case errors.Is(err, errWrongPassword):
			s.log.Warn().Str("user", cut(name, 100)).Str("remote", r.RemoteAddr).Msg("admin sign-in was refused")
			s.askPassword(w, r)
		default:
			w.Header().Set("Retry-After", "5")
			s.refuse(w, r, http.StatusServiceUnavailable, "Too many passwords are being checked; try again in a moment.")
		}
	})
}

func (s *Server) askPassword(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("WWW-Authenticate", `Basic realm="Holdfast", charset="UTF-8"`)
	s.refuse(w, r, http.StatusUnauthorized, "This page needs a user and a password.")
}
