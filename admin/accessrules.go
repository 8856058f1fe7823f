package admin

import (
	"errors"
	"fmt"
)

// Access is the part of Options that says who may use the page, under which host names. It can be
// replaced while the server runs.
type Access struct {
	Hosts      []string
	Users      []User
	Tokens     []Token
	Proxy      *Proxy
	CookieKeys [][]byte
}

// accessRules is an Access in use. It is immutable.
type accessRules struct {
	hosts           []string
	proxy           *Proxy
	users           int
	accounts        *accounts
	passwordChecker *passwordChecker
}

// newAccessRules expects options that Options.check accepted.
func (s *Server) newAccessRules(o Options) (*accessRules, error) {
	accounts, err := newAccounts(o)
	if err != nil {
		return nil, fmt.Errorf("admin users: %w", err)
	}
	return &accessRules{
		hosts: o.Hosts, proxy: o.Proxy, users: len(o.Users), accounts: accounts,
		passwordChecker: newPasswordChecker(accounts.users, s.throttle),
	}, nil
}

// accessRules returns the current rules.
func (s *Server) accessRules() *accessRules { return s.access.Load() }

// CheckAccess returns the error that New would return for this access, or nil.
func (s *Server) CheckAccess(a Access) error {
	_, err := s.prepare(a)
	return err
}

// SetAccess replaces the access from the next request on. If it returns an error, as CheckAccess
// does, nothing has changed. Users who were removed or have another password must sign in again.
// Counts of failed sign-ins go on.
func (s *Server) SetAccess(a Access) error {
	next, err := s.prepare(a)
	if err != nil {
		return err
	}
	s.access.Store(next)
	return nil
}

func (s *Server) prepare(a Access) (*accessRules, error) {
	o := s.options
	o.Hosts, o.Users, o.Tokens, o.Proxy, o.CookieKeys = a.Hosts, a.Users, a.Tokens, a.Proxy,
		a.CookieKeys
	if err := o.check(); err != nil {
		return nil, err
	}
	s.mu.Lock()
	listener := s.listener
	s.mu.Unlock()
	if listener != nil && !o.guarded() && beyondLoopback(listener.Addr()) {
		return nil, errors.Join(ErrOptions, &ExposedError{Address: o.Listen})
	}
	return s.newAccessRules(o)
}
