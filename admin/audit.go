package admin

import (
	"context"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/holdfast-dev/holdfast/jobs"
)

// defaultAudited is how many lines the audit log's list holds unless limit says
// otherwise.
const defaultAudited = 100

func (s *Server) auditJSON(w http.ResponseWriter, r *http.Request) {
	answer(s, w, r, func(ctx context.Context) ([]jobs.Audited, error) {
		filter, err := auditFilter(r)
		if err != nil || s.options.Operations == nil {
			return []jobs.Audited{}, err
		}
		lines, err := s.audited(ctx, filter)
		if err == nil && len(lines) == filter.Limit {
			last, query := lines[len(lines)-1], r.URL.Query()
			query.Set("before", last.At.Format(time.RFC3339Nano)+"_"+last.ID.String())
			w.Header().Set("Link", fmt.Sprintf(`<%s?%s>; rel="next"`, r.URL.Path, query.Encode()))
		}
		return lines, err
	})
}

// audited returns lines of the audit log, the youngest first, never nil.
func (s *Server) audited(ctx context.Context, filter jobs.AuditFilter) ([]jobs.Audited, error) {
	found, err := s.options.Operations.Audit(ctx, filter)
	if err != nil {
		return nil, fmt.Errorf("audit log: %w", err)
	}
	lines := make([]jobs.Audited, 0, len(found))
	for _, line := range found {
		line.At = line.At.UTC()
		lines = append(lines, line)
	}
	return lines, nil
}

// auditFilter reads the parameters of a list of the audit log.
func auditFilter(r *http.Request) (jobs.AuditFilter, error) {
	if err := onlyParams(r, "actor", "action", "target", "limit", "before"); err != nil {
		return jobs.AuditFilter{}, err
	}
	query := r.URL.Query()
	filter := jobs.AuditFilter{Actor: query.Get("actor"), Action: query.Get("action"), Target: query.Get("target"), Limit: defaultAudited}
	var err error
	if query.Has("limit") {
		filter.Limit, err = strconv.Atoi(query.Get("limit"))
		if err != nil || filter.Limit < 1 || filter.Limit > jobs.MaxBatch {
			return filter, &badRequest{fmt.Sprintf("limit is %q, expected a number from 1 to %d", cut(query.Get("limit"), 100), jobs.MaxBatch)}
		}
	}
	if query.Has("before") {
		filter.Before, err = auditCursor(query.Get("before"))
	}
	return filter, err
}

// auditCursor reads a place in the audit log, as the answer before has it.
func auditCursor(text string) (*jobs.RunCursor, error) {
	at, id, _ := strings.Cut(text, "_")
	instant, err := time.Parse(time.RFC3339Nano, at)
	line, errID := uuid.Parse(id)
	if err != nil || errID != nil {
		return nil, &badRequest{fmt.Sprintf("before is %q, expected what the answer before it links to", cut(text, 100))}
	}
	return &jobs.RunCursor{CreatedAt: instant.UTC(), ID: line}, nil
}
