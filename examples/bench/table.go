package main

import (
	"fmt"
	"strings"
)

// jobName is the name of a job and, in the schema bench, of its table.
func jobName(i int) string { return fmt.Sprintf("job_%04d", i) }

// configuration is the same for every replica. What it does not name has its
// default.
func configuration(o options, jobs int) string {
	var b strings.Builder
	fmt.Fprintf(&b, `database: {url: "${DATABASE_URL}", max_connections: %d}
replica: {name: "${REPLICA}"}
locking: {memcached: {servers: ["${MEMCACHED}"]}}
workers: %d
admin: {listen: "${LISTEN}"}
log: {format: json}
jobs:
`, o.pool, o.workers)
	for i := range jobs {
		name, table := jobName(i), jobName(i)
		if o.tables > 0 {
			table = jobName(i % o.tables)
		}
		fmt.Fprintf(&b, "  - name: %s\n    schedule: {every: 1s}\n    tables: [bench.%s]\n "+
			"   timeout: 20s\n", name, table)
		if o.tables > 0 {
			b.WriteString("    wait: {attempts: 20, delay: 100ms, backoff: constant}\n")
		}
		if o.spread > 0 {
			fmt.Fprintf(&b, "    jitter: %s\n", o.spread)
		}
		if o.noOp {
			b.WriteString("    handler: no-op\n")
			continue
		}
		fmt.Fprintf(&b, "    handler: sql\n    params: {statement: INSERT INTO bench.%s DEFAULT "+
			"VALUES, share_transaction: %t}\n", name, o.share)
	}
	return b.String()
}

// jobTables makes the table of each job. They have a parent in common, so that
// all can be read as one; that costs their inserts nothing.
func jobTables(jobs int) string {
	var b strings.Builder
	b.WriteString("CREATE SCHEMA bench;\nCREATE TABLE bench.inserted (at timestamptz NOT NULL " +
		"DEFAULT clock_timestamp());\n")
	for i := range jobs {
		fmt.Fprintf(&b, "CREATE TABLE bench.%s () INHERITS (bench.inserted);\n", jobName(i))
	}
	return b.String()
}
