package app

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"sync"

	"github.com/holdfast-dev/holdfast/admin"
	"github.com/holdfast-dev/holdfast/configs"
)

// mounts are the pages in servers of the program.
type mounts struct {
	mu    sync.Mutex
	pages []*admin.Mount
	open  bool // the replica is open
}

// all returns the pages.
func (m *mounts) all() []*admin.Mount {
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.Clone(m.pages)
}

// Admin returns the page for a server of the program. It answers 503 while the replica is not open.
func (r *Replica) Admin(change ...admin.Option) (http.Handler, error) {
	config := r.config.Load()
	base := AccessOptions(config.Admin)
	base.Authorizer = r.authorizer
	page, err := admin.NewMount(base, change...)
	if err != nil {
		return nil, err
	}
	m := &r.mounts
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.open {
		if err := page.Begin(r.pageOptions(config)); err != nil {
			return nil, err
		}
	}
	m.pages = append(m.pages, page)
	return page, nil
}

// openMounts makes the servers of the mounted pages.
func (r *Replica) openMounts(_ context.Context, config *configs.Config) error {
	m := &r.mounts
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, page := range m.pages {
		if err := page.Begin(r.pageOptions(config)); err != nil {
			return err
		}
	}
	m.open = true
	return nil
}

func (r *Replica) closeMounts() {
	m := &r.mounts
	m.mu.Lock()
	m.open = false
	m.mu.Unlock()
	for _, page := range m.all() {
		if err := page.End(); err != nil {
			r.log.Debug().Err(err).Msg("closing a page of the program returned an error")
		}
	}
}

// pageAccess is a page and the access to it.
type pageAccess struct {
	*admin.Server
	access admin.Access
}

// accessOf returns all pages, with the access to them that a configuration gives.
func (r *Replica) accessOf(config configs.Admin) []pageAccess {
	base := AccessOptions(config)
	base.Authorizer = r.authorizer
	var pages []pageAccess
	if r.page != nil {
		pages = append(pages, pageAccess{r.page, base.Access()})
	}
	for _, page := range r.mounts.all() {
		if server := page.Server(); server != nil {
			options := page.Options(base)
			pages = append(pages, pageAccess{server, options.Access()})
		}
	}
	return pages
}

// checkAccess returns the errors that setAccess would return, or nil.
func checkAccess(pages []pageAccess) error {
	var problems []error
	for _, p := range pages {
		problems = append(problems, p.CheckAccess(p.access))
	}
	return errors.Join(problems...)
}

func setAccess(pages []pageAccess) error {
	for _, p := range pages {
		if err := p.SetAccess(p.access); err != nil {
			return err
		}
	}
	return nil
}
