-- The number of the inserting transaction: the only thing by which new rows
-- can be told from those already added, whatever order they commit in.
ALTER TABLE pgbench_history ADD COLUMN xact xid8 NOT NULL DEFAULT pg_current_xact_id();
CREATE INDEX ON pgbench_history (xact);
CREATE TABLE history_archive (LIKE pgbench_history);
CREATE VIEW all_history AS TABLE pgbench_history UNION ALL TABLE history_archive;

-- What has been added to the totals: every row with a lower xact than done.
CREATE TABLE marks (rollup text PRIMARY KEY, done xid8 NOT NULL DEFAULT '0', upto xid8);
INSERT INTO marks (rollup) VALUES ('deposits'), ('withdrawals');

CREATE TABLE branch_totals (bid int PRIMARY KEY, entries bigint NOT NULL, amount bigint NOT NULL,
    share bigint NOT NULL DEFAULT 0);
CREATE TABLE teller_totals (tid int PRIMARY KEY, entries bigint NOT NULL, amount bigint NOT NULL);
CREATE TABLE second_totals (second timestamp PRIMARY KEY, entries bigint NOT NULL,
    amount bigint NOT NULL);
CREATE TABLE account_totals (bid int PRIMARY KEY, entries bigint NOT NULL, amount bigint NOT NULL);
CREATE TABLE audits (id bigint PRIMARY KEY, branch_entries bigint NOT NULL, teller_entries bigint);
