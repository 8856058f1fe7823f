package access

import (
	"cmp"
	"context"
	"errors"
	"net/http"
	"sync"
	"time"

	"github.com/rs/zerolog"

	"github.com/holdfast-dev/holdfast/admin/internal/words"
	"github.com/holdfast-dev/holdfast/jobs/permission"
	"github.com/holdfast-dev/holdfast/jobs/storage"
)

const (
	// eventsPerMinute bounds the entries of the audit log that the clients of a replica can cause.
	// Successes and refusals have limits of their own, so that refusals can't hide a sign-in.
	eventsPerMinute = 30
	eventTimeout    = time.Second
	// unknownName is the actor of a refused sign-in under a name that no user has. The name itself
	// may be a password in the wrong field.
	unknownName = "(unknown)"
	// pageTarget is the target of sign-ins and sign-outs.
	pageTarget = "page"
)

// eventLog writes sign-ins, sign-outs and refusals to the audit log. A minute has at most
// eventsPerMinute successes and as many refusals. The next entry has the number of entries that
// were left out. It is safe for concurrent use.
type eventLog struct {
	writer  storage.AuditWriter // nil: there is no audit log
	replica string
	log     zerolog.Logger

	mu        sync.Mutex
	successes budget
	refusals  budget
	failing   bool // an error was logged
}

func newEventLog(writer storage.AuditWriter, replica string, log zerolog.Logger) *eventLog {
	return &eventLog{writer: writer, replica: replica, log: log}
}

// success writes a sign-in or a sign-out.
func (l *eventLog) success(r *http.Request, who Identity, event string) {
	l.write(r, &l.successes, who, event, pageTarget, nil)
}

// refusal writes that a request was refused, and why.
func (l *eventLog) refusal(r *http.Request, who Identity, event, target string, why error) {
	l.write(r, &l.refusals, who, event, target,
		map[string]any{"error": words.OneLine(why.Error(), 500)})
}

func (l *eventLog) write(r *http.Request, of *budget, who Identity, event, target string,
	detail map[string]any) {
	if l.writer == nil {
		return
	}
	l.mu.Lock()
	allowed, leftOut := of.take(time.Now(), eventsPerMinute)
	l.mu.Unlock()
	if !allowed {
		return
	}
	if leftOut > 0 {
		if detail == nil {
			detail = make(map[string]any)
		}
		detail["left_out"] = leftOut
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
		g.events.refusal(r, IdentityOf(r), storage.AuditRefused, denied.Target.String(), denied)
	}
}
