package sqlite

import (
	"context"
	"database/sql"
	"fmt"
	"time"

	"github.com/holdfast-dev/holdfast/jobs"
)

const (
	// A new definition's dues count from its registration on: it was not
	// there to be fired before.
	upsertJob = `
INSERT INTO holdfast_jobs AS j (name, version, hash, schedule, zone, handler, resources, description, checked_until, updated_at)
VALUES (?1, 1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?8)
ON CONFLICT (name) DO UPDATE SET
    version = j.version + 1, hash = excluded.hash, schedule = excluded.schedule, zone = excluded.zone, handler = excluded.handler,
    resources = excluded.resources, description = excluded.description,
    checked_until = max(j.checked_until, excluded.checked_until), updated_at = excluded.updated_at
WHERE j.hash <> excluded.hash`

	jobVersions = `SELECT name, version FROM holdfast_jobs`
)

// Register writes definitions.
func (s *Store) Register(ctx context.Context, definitions []jobs.Definition) (map[string]int64, error) {
	var versions map[string]int64
	err := s.write(ctx, "job registration", func(tx *sql.Tx) error {
		upsert, err := tx.PrepareContext(ctx, upsertJob)
		if err != nil {
			return err
		}
		defer upsert.Close()
		now := micros(time.Now())
		for _, d := range definitions {
			resources, err := encodeRequests(d.Resources)
			if err != nil {
				return fmt.Errorf("job %s: %w", d.Name, err)
			}
			if _, err := upsert.ExecContext(ctx, d.Name, d.Hash, d.Schedule, d.Zone, d.Handler, resources, d.Description, now); err != nil {
				return fmt.Errorf("job %s: %w", d.Name, err)
			}
		}
		versions, err = readVersions(ctx, tx)
		return err
	})
	return versions, err
}

// Versions returns every job's version.
func (s *Store) Versions(ctx context.Context) (map[string]int64, error) {
	versions, err := readVersions(ctx, s.readers)
	return versions, wrap("job versions", err)
}

func readVersions(ctx context.Context, from queryer) (map[string]int64, error) {
	versions := map[string]int64{}
	err := each(ctx, from, jobVersions, nil, func(rows *sql.Rows) error {
		var name string
		var version int64
		err := rows.Scan(&name, &version)
		versions[name] = version
		return err
	})
	return versions, err
}
