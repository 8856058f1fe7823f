package fence

import (
	"fmt"
	"strconv"
	"strings"
)

// Dialect is the SQL of a database.
type Dialect struct {
	name     string
	numbered bool // arguments are $1 and $2, else ?
	// What follows a query that locks its rows.
	forShare, forUpdate string
	// current follows a query that must read the latest commit.
	current string
	// index follows the name of the table, so that a query locks no other rows.
	index string
	// lockTable is the first statement of a transaction; "" if rows can be locked.
	lockTable string
	// readIsolation is a query of the isolation level; "" if every level will do.
	readIsolation string
	// bounded says that statements can limit their transaction.
	bounded      bool
	insertToken  string
	insertReader string
	insertCommit string
	// ago is the time that is an argument in seconds ago.
	ago string
	// deleteBatch is the format of a statement that deletes rows. Its arguments are a table, a
	// condition, the columns of an index for the order, and a number of rows. MariaDB would sort
	// and lock all rows that match if the order lacked the first columns of the index.
	deleteBatch string
	install     []string
	// readIdle and limitIdle are the statements for the limit of an idle session, in seconds; "" if
	// a transaction limits itself.
	readIdle, limitIdle string
	// retryable are SQLSTATEs, or the beginnings of messages, after which the pass may be repeated.
	retryable []string
	// missing are those of a statement whose table or schema does not exist.
	missing []string
	// ended are those of RELEASE SAVEPOINT after the end of its transaction; nil: the database has
	// no savepoints.
	ended []string
}

// Postgres returns the dialect of PostgreSQL 13 or later.
func Postgres() Dialect {
	return Dialect{name: "postgres", numbered: true, forShare: " FOR SHARE",
		forUpdate:     " FOR NO KEY UPDATE",
		readIsolation: "SELECT current_setting('transaction_isolation')", bounded: true,
		insertToken: "INSERT INTO holdfast_fence.tokens (cluster, name, part, token) " +
			"VALUES (?, ?, ?, 0) ON CONFLICT DO NOTHING",
		insertReader: "INSERT INTO holdfast_fence.readers (cluster, name, token) " +
			"VALUES (?, ?, ?) ON CONFLICT DO NOTHING",
		insertCommit: "INSERT INTO holdfast_fence.commits " +
			"(id, cluster, job, run, step, token, nonce, done) VALUES (?, ?, ?, ?, ?, ?, ?, ?) " +
			"ON CONFLICT DO NOTHING",
		// an index cannot find rows by clock_timestamp(), which changes within a statement
		ago: "now() - make_interval(secs => ?)",
		deleteBatch: "DELETE FROM %[1]s WHERE ctid = ANY(ARRAY(SELECT ctid FROM %[1]s " +
			"WHERE %[2]s ORDER BY %[3]s LIMIT %[4]d FOR UPDATE SKIP LOCKED))",
		install: []string{
			"CREATE SCHEMA IF NOT EXISTS holdfast_fence",
			`CREATE TABLE IF NOT EXISTS holdfast_fence.tokens (
    cluster text COLLATE "C" NOT NULL,
    name    text COLLATE "C" NOT NULL,
    part    smallint NOT NULL,
    token   bigint NOT NULL,
    PRIMARY KEY (cluster, name, part)
) WITH (fillfactor = 50)`,
			`CREATE TABLE IF NOT EXISTS holdfast_fence.readers (
    cluster text COLLATE "C" NOT NULL,
    name    text COLLATE "C" NOT NULL,
    token   bigint NOT NULL,
    PRIMARY KEY (cluster, name, token)
)`,
			`CREATE TABLE IF NOT EXISTS holdfast_fence.commits (
    id           text COLLATE "C" PRIMARY KEY,
    cluster      text COLLATE "C" NOT NULL,
    job          text NOT NULL,
    run          text NOT NULL,
    step         text NOT NULL,
    token        bigint NOT NULL,
    nonce        text NOT NULL,
    done         smallint NOT NULL,
    committed_at timestamptz NOT NULL DEFAULT clock_timestamp()
)`,
			`CREATE INDEX IF NOT EXISTS commits_committed_at
    ON holdfast_fence.commits (cluster, committed_at)`,
		},
		// serialization failure, deadlock, lock not available
		retryable: []string{"40001", "40P01", "55P03"},
		missing:   []string{"42P01", "3F000"}, // table, schema
		// unknown savepoint, no transaction
		ended: []string{"3B001", "25P01"},
	}
}

// MariaDB returns the dialect of MariaDB 10.3 or later, with InnoDB.
func MariaDB() Dialect {
	d := MySQL()
	d.name = "mariadb"
	d.readIdle = "SELECT @@session.idle_transaction_timeout"
	d.limitIdle = "SET SESSION idle_transaction_timeout = %d"
	return d
}

// MySQL returns the dialect of MySQL 8.0 or later.
func MySQL() Dialect {
	return Dialect{name: "mysql", forShare: " LOCK IN SHARE MODE", forUpdate: " FOR UPDATE",
		current: " LOCK IN SHARE MODE", index: " FORCE INDEX (PRIMARY)",
		insertToken: "INSERT INTO holdfast_fence.tokens (cluster, name, part, token) " +
			"VALUES (?, ?, ?, 0) ON DUPLICATE KEY UPDATE part = part",
		insertReader: "INSERT INTO holdfast_fence.readers (cluster, name, token) " +
			"VALUES (?, ?, ?) ON DUPLICATE KEY UPDATE token = token",
		insertCommit: "INSERT INTO holdfast_fence.commits " +
			"(id, cluster, job, run, step, token, nonce, done) VALUES (?, ?, ?, ?, ?, ?, ?, ?) " +
			"ON DUPLICATE KEY UPDATE id = id",
		ago:         "NOW(6) - INTERVAL ? SECOND",
		deleteBatch: "DELETE FROM %s WHERE %s ORDER BY %s LIMIT %d",
		install: []string{
			"CREATE DATABASE IF NOT EXISTS holdfast_fence",
			`CREATE TABLE IF NOT EXISTS holdfast_fence.tokens (
    cluster varbinary(36) NOT NULL,
    name    varbinary(1100) NOT NULL,
    part    smallint NOT NULL,
    token   bigint NOT NULL,
    PRIMARY KEY (cluster, name, part)
) ENGINE = InnoDB`,
			`CREATE TABLE IF NOT EXISTS holdfast_fence.readers (
    cluster varbinary(36) NOT NULL,
    name    varbinary(1100) NOT NULL,
    token   bigint NOT NULL,
    PRIMARY KEY (cluster, name, token)
) ENGINE = InnoDB`,
			`CREATE TABLE IF NOT EXISTS holdfast_fence.commits (
    id           varbinary(36) NOT NULL PRIMARY KEY,
    cluster      varbinary(36) NOT NULL,
    job          varbinary(200) NOT NULL,
    run          varbinary(36) NOT NULL,
    step         varbinary(200) NOT NULL,
    token        bigint NOT NULL,
    nonce        varbinary(36) NOT NULL,
    done         smallint NOT NULL,
    committed_at timestamp(6) NOT NULL DEFAULT CURRENT_TIMESTAMP(6),
    INDEX commits_committed_at (cluster, committed_at)
) ENGINE = InnoDB`,
		},
		readIdle:  "SELECT @@session.wait_timeout",
		limitIdle: "SET SESSION wait_timeout = %d",
		// changed row, lock wait, deadlock
		retryable: []string{"Error 1020 ", "Error 1205 ", "Error 1213 "},
		missing:   []string{"Error 1146 ", "Error 1049 "}, // table, database
		ended:     []string{"Error 1305 "},                // unknown savepoint
	}
}

// Redshift returns the dialect of Amazon Redshift. Its statements follow the manual, but have not
// been executed on Redshift.
func Redshift() Dialect {
	return Dialect{name: "redshift", numbered: true,
		lockTable: "LOCK holdfast_fence.tokens",
		insertToken: "INSERT INTO holdfast_fence.tokens (cluster, name, part, token) " +
			"SELECT n.cluster, n.name, n.part, 0 FROM (SELECT CAST(? AS varchar(36)) AS cluster, " +
			"CAST(? AS varchar(1100)) AS name, CAST(? AS smallint) AS part) n " +
			"WHERE NOT EXISTS (SELECT 1 FROM holdfast_fence.tokens t " +
			"WHERE t.cluster = n.cluster AND t.name = n.name AND t.part = n.part)",
		insertReader: "INSERT INTO holdfast_fence.readers (cluster, name, token) " +
			"SELECT n.cluster, n.name, n.token FROM (SELECT CAST(? AS varchar(36)) AS cluster, " +
			"CAST(? AS varchar(1100)) AS name, CAST(? AS bigint) AS token) n " +
			"WHERE NOT EXISTS (SELECT 1 FROM holdfast_fence.readers r " +
			"WHERE r.cluster = n.cluster AND r.name = n.name AND r.token = n.token)",
		insertCommit: "INSERT INTO holdfast_fence.commits " +
			"(id, cluster, job, run, step, token, nonce, done) " +
			"SELECT n.id, n.cluster, n.job, n.run, n.step, n.token, n.nonce, n.done FROM (SELECT " +
			"CAST(? AS varchar(36)) AS id, CAST(? AS varchar(36)) AS cluster, " +
			"CAST(? AS varchar(800)) AS job, CAST(? AS varchar(36)) AS run, " +
			"CAST(? AS varchar(800)) AS step, CAST(? AS bigint) AS token, " +
			"CAST(? AS varchar(36)) AS nonce, CAST(? AS smallint) AS done) n " +
			"WHERE NOT EXISTS (SELECT 1 FROM holdfast_fence.commits c WHERE c.id = n.id)",
		ago: "DATEADD(second, -CAST(? AS int), GETDATE())",
		// DELETE has no limit there
		deleteBatch: "DELETE FROM %[1]s WHERE %[2]s",
		install: []string{
			"CREATE SCHEMA IF NOT EXISTS holdfast_fence",
			`CREATE TABLE IF NOT EXISTS holdfast_fence.tokens (
    cluster varchar(36) NOT NULL,
    name    varchar(1100) NOT NULL,
    part    smallint NOT NULL,
    token   bigint NOT NULL
) DISTSTYLE ALL SORTKEY (cluster, name, part)`,
			`CREATE TABLE IF NOT EXISTS holdfast_fence.readers (
    cluster varchar(36) NOT NULL,
    name    varchar(1100) NOT NULL,
    token   bigint NOT NULL
) DISTSTYLE ALL SORTKEY (cluster, name, token)`,
			`CREATE TABLE IF NOT EXISTS holdfast_fence.commits (
    id           varchar(36) NOT NULL,
    cluster      varchar(36) NOT NULL,
    job          varchar(800) NOT NULL,
    run          varchar(36) NOT NULL,
    step         varchar(800) NOT NULL,
    token        bigint NOT NULL,
    nonce        varchar(36) NOT NULL,
    done         smallint NOT NULL,
    committed_at timestamp NOT NULL DEFAULT GETDATE()
) DISTSTYLE ALL SORTKEY (committed_at)`,
		},
		retryable: []string{"40001", "40P01"},
		missing:   []string{"42P01", "3F000"},
	}
}

// Dialects returns all dialects.
func Dialects() []Dialect { return []Dialect{Postgres(), MariaDB(), MySQL(), Redshift()} }

// DialectNamed returns the dialect with the name, such as postgres.
func DialectNamed(name string) (Dialect, error) {
	var names []string
	for _, d := range Dialects() {
		if d.name == name {
			return d, nil
		}
		names = append(names, d.name)
	}
	return Dialect{}, fmt.Errorf("unknown dialect %q, expected %s", name,
		strings.Join(names, ", "))
}

func (d Dialect) Name() string { return d.name }

// SQL returns the statements of [Install], for people who create the tables themselves.
func (d Dialect) SQL() string {
	return strings.Join(d.install, ";\n") + ";\n"
}

// in returns the statement with the arguments of the dialect.
func (d Dialect) in(statement string) string {
	if !d.numbered {
		return statement
	}
	var b strings.Builder
	for n := 1; ; n++ {
		before, after, found := strings.Cut(statement, "?")
		b.WriteString(before)
		if !found {
			return b.String()
		}
		b.WriteString("$" + strconv.Itoa(n))
		statement = after
	}
}
