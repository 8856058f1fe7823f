package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"regexp"
	"time"

	"github.com/jackc/pgx/v5"
)

// SQLSTATEs of the two ends that concurrent transactions come to.
const (
	deadlockDetected     = "40P01"
	serializationFailure = "40001"
)

// logLinePrefix makes every line of the server's log say where it comes from.
const logLinePrefix = "%m db=%d app=%a code=%e "

var errorLine = regexp.MustCompile(` db=(\S*) app=(\S*) code=(\S+) ERROR: `)

// counters are what PostgreSQL has counted in one database.
type counters struct {
	deadlocks int64 // pg_stat_database.deadlocks
	errors    map[failure]int64
	lines     []string // of the errors, from the server's log
}

// failure is a kind of error in the server's log.
type failure struct{ application, sqlstate string }

// of adds up the errors of one kind, whichever application had them.
func (c counters) of(sqlstate string) int64 {
	var n int64
	for f, count := range c.errors {
		if f.sqlstate == sqlstate {
			n += count
		}
	}
	return n
}

// readCounters reads both of PostgreSQL's accounts.
func readCounters(ctx context.Context, db *pgx.Conn, logPath string) (counters, error) {
	var c counters
	var name string
	err := db.QueryRow(ctx, "SELECT datname, deadlocks FROM pg_stat_database WHERE datname = "+
		"current_database()").Scan(&name, &c.deadlocks)
	if err != nil {
		return c, fmt.Errorf("pg_stat_database: %w", err)
	}
	log, err := os.Open(logPath)
	if err != nil {
		return c, fmt.Errorf("log of PostgreSQL: %w", err)
	}
	defer log.Close()
	c.errors, c.lines, err = countErrors(log, name)
	return c, err
}

// countErrors counts the errors in a database by who had them and why. It also returns their lines.
func countErrors(log io.Reader, database string) (counts map[failure]int64, errorLines []string,
	err error) {
	counts = map[failure]int64{}
	lines := bufio.NewScanner(log)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		if match := errorLine.FindStringSubmatch(lines.Text()); match != nil &&
			match[1] == database {
			counts[failure{application: match[2], sqlstate: match[3]}]++
			errorLines = append(errorLines, lines.Text())
		}
	}
	if err := lines.Err(); err != nil {
		return nil, nil, fmt.Errorf("log of PostgreSQL: %w", err)
	}
	return counts, errorLines, nil
}

const aloneLimit = 30 * time.Second

const othersConnected = `
SELECT count(*) FROM pg_stat_activity
WHERE datname = current_database() AND backend_type = 'client backend'
    AND application_name <> current_setting('application_name')`

var errNotAlone = errors.New("connections of the replicas have not ended")

// waitAlone waits until only this program is connected to the database: a
// backend adds to the statistics at its end at the latest.
func waitAlone(ctx context.Context, db *pgx.Conn) error {
	return poll(ctx, time.Now().Add(aloneLimit), errNotAlone, func() (bool, error) {
		var others int
		err := db.QueryRow(ctx, othersConnected).Scan(&others)
		return others == 0, err
	})
}
