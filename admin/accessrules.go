package admin

import (
	"errors"
	"fmt"
)

// Access says who may use the page, and under which names it is asked for. Its fields are those of
// Options.
type Access struct {
	Hosts      []string
	Users      []User
	Tokens     []Token
	Proxy      *Proxy
	CookieKeys [][]byte
}

// accessRules are those who may use the page, as one Access has them. They are not changed.
type accessRules struct {
	hosts           []string
	proxy           *Proxy
	users           int
	accounts        *accounts
	passwordChecker *passwordChecker
}

// newAccessRules takes options that were checked.
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

// accessRules returns those who may use the page now.
func (s *Server) accessRules() *accessRules { return s.access.Load() }

// CheckAccess returns what New would say of the options with this access, or nil.
func (s *Server) CheckAccess(a Access) error {
	_, err := s.prepare(a)
	return err
}

// SetAccess lets others use the page from the next request on, with the errors of CheckAccess; then
// nothing has changed. Who has signed in and is no longer known, or has another password, has to
// sign in again. Counts of failed sign-ins go on.
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
