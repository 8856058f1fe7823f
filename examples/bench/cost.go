package main

import (
	"bufio"
	"context"
	"fmt"
	"net"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
)

// cost is the processor time that was used since the start of each process, or between two times.
type cost struct {
	replicas, postgres, memcached time.Duration // processor time, user and system
	transactions                  int64         // committed or rolled back in the database
	wal                           int64         // bytes of write-ahead log
	// that memcached was asked, gets and sets of all kinds
	commands int64
}

func (c cost) since(before cost) cost {
	return cost{
		replicas: c.replicas - before.replicas, postgres: c.postgres - before.postgres,
		memcached:    c.memcached - before.memcached,
		transactions: c.transactions - before.transactions, wal: c.wal - before.wal,
		commands: c.commands - before.commands,
	}
}

// counterSource is where cost is read.
type counterSource struct {
	db        *pgx.Conn
	replicas  []int  // process ids
	memcached string // address
}

// readAt waits until t and reads all counters.
func (s counterSource) readAt(ctx context.Context, t time.Time) (c cost, err error) {
	if err := sleepUntil(ctx, t); err != nil {
		return c, err
	}
	const counters = `
SELECT xact_commit + xact_rollback, (pg_current_wal_insert_lsn() - '0/0')::bigint, pg_backend_pid()
FROM pg_stat_database WHERE datname = current_database()`
	var backend int
	if err := s.db.QueryRow(ctx, counters).Scan(&c.transactions, &c.wal, &backend); err != nil {
		return c, fmt.Errorf("counters of PostgreSQL: %w", err)
	}
	if c.postgres, err = familyTime(backend); err != nil {
		return c, fmt.Errorf("processor time of PostgreSQL: %w", err)
	}
	for _, pid := range s.replicas {
		p, err := readProcess(pid)
		if err != nil {
			return c, fmt.Errorf("processor time of a replica: %w", err)
		}
		c.replicas += p.used
	}
	return c, c.readMemcached(ctx, s.memcached)
}

// readMemcached reads what memcached says of itself.
func (c *cost) readMemcached(ctx context.Context, address string) error {
	var dialer net.Dialer
	conn, err := dialer.DialContext(ctx, "tcp", address)
	if err != nil {
		return fmt.Errorf("statistics of memcached: %w", err)
	}
	defer conn.Close()
	if err := conn.SetDeadline(time.Now().Add(5 * time.Second)); err != nil {
		return fmt.Errorf("statistics of memcached: %w", err)
	}
	if _, err := conn.Write([]byte("stats\r\n")); err != nil {
		return fmt.Errorf("statistics of memcached: %w", err)
	}
	lines := bufio.NewScanner(conn)
	for lines.Scan() && lines.Text() != "END" {
		fields := strings.Fields(lines.Text()) // STAT name value
		if len(fields) != 3 {
			continue
		}
		value, err := strconv.ParseFloat(fields[2], 64)
		if err != nil {
			continue // a version and the like
		}
		switch fields[1] {
		case "rusage_user", "rusage_system":
			c.memcached += time.Duration(value * float64(time.Second))
		case "cmd_get", "cmd_set":
			c.commands += int64(value)
		}
	}
	return lines.Err()
}
