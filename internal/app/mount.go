package app

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"sync"

	"github.com/holdfast-dev/holdfast/admin/page"
	"github.com/holdfast-dev/holdfast/configs"
)

// mounts are the pages in servers of the program.
type mounts struct {
	mu    sync.Mutex
	pages []page.Mounted
	open  bool // the replica is open
}

// all returns the pages.
func (m *mounts) all() []page.Mounted {
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.Clone(m.pages)
}

// errNoOption is the error of a page in a server of the program without an option, which has the
// page.
var errNoOption = errors.New("found no option for the page, expected at least one of package " +
	"github.com/holdfast-dev/holdfast/admin, such as admin.At(\"/\")")

// Admin returns the page for a server of the program. It answers 503 while the replica is not open.
func (r *Replica) Admin(options ...page.Option) (http.Handler, error) {
	if len(options) == 0 || options[0] == nil {
		return nil, errNoOption
	}
	config := r.config.Load()
	mounted, err := options[0].Mount(r.accessOf(config.Admin), options)
	if err != nil {
		return nil, err
	}
	m := &r.mounts
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.open {
		if err := mounted.Begin(r.pageParts(config)); err != nil {
			return nil, err
		}
	}
	m.pages = append(m.pages, mounted)
	return mounted, nil
}

// openMounts makes the servers of the mounted pages.
func (r *Replica) openMounts(_ context.Context, config *configs.Config) error {
	m := &r.mounts
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, mounted := range m.pages {
		if err := mounted.Begin(r.pageParts(config)); err != nil {
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
	for _, mounted := range m.all() {
		if err := mounted.End(); err != nil {
			r.log.Debug().Err(err).Msg("closing a page of the program returned an error")
		}
	}
}

// allPages returns all pages.
func (r *Replica) allPages() []page.Guarded {
	var all []page.Guarded
	if r.page != nil {
		all = append(all, r.page)
	}
	for _, mounted := range r.mounts.all() {
		all = append(all, mounted)
	}
	return all
}

// checkAccess returns the errors that setAccess would return, or nil.
func (r *Replica) checkAccess(access page.Access) error {
	var problems []error
	for _, p := range r.allPages() {
		problems = append(problems, p.CheckAccess(access))
	}
	return errors.Join(problems...)
}

// setAccess replaces the access to all pages.
func (r *Replica) setAccess(access page.Access) error {
	for _, p := range r.allPages() {
		if err := p.SetAccess(access); err != nil {
			return err
		}
	}
	return nil
}
