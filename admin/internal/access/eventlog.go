package access

import (
	"cmp"
	"context"
	"errors"
	"net/http"
	"net/netip"
	"sync"
	"time"

	"github.com/rs/zerolog"

	"github.com/holdfast-dev/holdfast/admin/internal/words"
	"github.com/holdfast-dev/holdfast/jobs/permission"
	"github.com/holdfast-dev/holdfast/jobs/storage"
)

const (
	eventTimeout = time.Second
	// unknownName is the actor of a refused sign-in under a name that no user has. The name itself
	// may be a password in the wrong field.
	unknownName = "(unknown)"
	// pageTarget is the target of sign-ins and sign-outs.
	pageTarget = "page"
)

// eventLog writes sign-ins, sign-outs and refusals to the audit log. Each kind of event has a
// limit of its own, so that clients without a sign-in cannot hide the refusals of those with one,
// and neither can hide a sign-in. It is safe for concurrent use.
type eventLog struct {
	writer  storage.AuditWriter // nil: there is no audit log
	replica string
	log     zerolog.Logger

	mu        sync.Mutex
	successes actorBudget // by user
	anonymous actorBudget // refusals of clients that proved no identity, by address
	denied    actorBudget // refusals of identities, by name
	failing   bool        // an error was logged
}

func newEventLog(writer storage.AuditWriter, replica string, log zerolog.Logger) *eventLog {
	return &eventLog{writer: writer, replica: replica, log: log}
}

// success writes a sign-in or a sign-out.
func (l *eventLog) success(r *http.Request, who Identity, event string) {
	l.write(r, &l.successes, who.Name, who, event, pageTarget, nil)
}

// refusal writes that a client did not prove an identity, and why.
func (l *eventLog) refusal(r *http.Request, client netip.Addr, who Identity, why error) {
	l.write(r, &l.anonymous, clientNetwork(client).String(), who, storage.AuditSignInRefused,
		pageTarget, why)
}

// denial writes that an identity lacks a permission.
func (l *eventLog) denial(r *http.Request, who Identity, why *permission.DeniedError) {
	l.write(r, &l.denied, who.Name, who, storage.AuditRefused, why.Target.String(), why)
}

func (l *eventLog) write(r *http.Request, of *actorBudget, actor string, who Identity,
	event, target string, why error) {
	if l.writer == nil {
		return
	}
	l.mu.Lock()
	allowed, leftOut := of.take(time.Now(), actor)
	l.mu.Unlock()
	if !allowed {
		return
	}
	detail := make(map[string]any)
	if why != nil {
		detail["error"] = words.OneLine(why.Error(), 500)
	}
	if leftOut.Entries > 0 {
		detail["left_out"] = leftOut.Entries
		detail["left_out_actors"] = leftOut.Actors
	}
	source, via := SourceOf(r), "page"
	if ForMachines(r) {
		via = "api"
	}
	by := storage.Action{Actor: cmp.Or(who.Name, unknownName), Via: via,
		Proof: who.subject(nil).Proof, Client: source.Client, RequestID: source.RequestID,
		Replica: l.replica}
	// The entry is written also if the client has gone.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(r.Context()), eventTimeout)
	defer cancel()
	var facts any // nil without detail
	if len(detail) > 0 {
		facts = detail
	}
	l.heard(l.writer.WriteAudit(ctx, by, event, target, facts))
}

// heard logs the first error of several.
func (l *eventLog) heard(err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if err != nil && !l.failing {
		l.log.Warn().Err(err).Msg("sign-ins and refusals can't be written to the audit log")
	}
	l.failing = err != nil
}

// Denied writes to the audit log that a permission was missing, if err says so.
func (g *Guard) Denied(r *http.Request, err error) {
	var denied *permission.DeniedError
	if errors.As(err, &denied) {
		g.events.denial(r, IdentityOf(r), denied)
	}
}
