-- What operators ask for. orders grows with each act that replicas must hear of.
ALTER TABLE holdfast_meta ADD COLUMN orders INTEGER NOT NULL DEFAULT 0;
ALTER TABLE holdfast_sessions ADD COLUMN draining INTEGER NOT NULL DEFAULT 0;

-- Pauses: kept as long as the history, since they explain what did not run.
CREATE TABLE holdfast_pauses (
    id         TEXT PRIMARY KEY,
    kind       TEXT NOT NULL,
    name       TEXT NOT NULL,
    paused_at  INTEGER NOT NULL,
    paused_by  TEXT NOT NULL,
    reason     TEXT NOT NULL,
    resumed_at INTEGER,
    resumed_by TEXT NOT NULL DEFAULT ''
) WITHOUT ROWID;
CREATE UNIQUE INDEX holdfast_pauses_standing ON holdfast_pauses (kind, name) WHERE resumed_at IS NULL;
CREATE INDEX holdfast_pauses_over ON holdfast_pauses (kind, name, resumed_at);

-- Specs: jobs that were added at run time.
CREATE TABLE holdfast_specs (
    job        TEXT PRIMARY KEY,
    spec       TEXT NOT NULL,
    version    INTEGER NOT NULL,
    changed_at INTEGER NOT NULL,
    changed_by TEXT NOT NULL,
    removed    INTEGER NOT NULL
) WITHOUT ROWID;

-- Cancels: runs that their replicas are to end.
CREATE TABLE holdfast_cancels (
    run      TEXT PRIMARY KEY,
    session  TEXT NOT NULL,
    asked_at INTEGER NOT NULL,
    asked_by TEXT NOT NULL
) WITHOUT ROWID;
CREATE INDEX holdfast_cancels_session ON holdfast_cancels (session);

-- Audit: who did what.
CREATE TABLE holdfast_audit (
    id      TEXT PRIMARY KEY,
    at      INTEGER NOT NULL,
    actor   TEXT NOT NULL,
    via     TEXT NOT NULL,
    replica TEXT NOT NULL,
    action  TEXT NOT NULL,
    target  TEXT NOT NULL,
    reason  TEXT NOT NULL,
    detail  TEXT,
    key     TEXT NOT NULL
) WITHOUT ROWID;
CREATE UNIQUE INDEX holdfast_audit_key ON holdfast_audit (key) WHERE key <> '';
CREATE INDEX holdfast_audit_at ON holdfast_audit (at, id);
CREATE INDEX holdfast_audit_target ON holdfast_audit (target, at, id);

-- A job's group is paused with it. source is where it comes from: config or store.
ALTER TABLE holdfast_definitions ADD COLUMN job_group TEXT NOT NULL DEFAULT '';
ALTER TABLE holdfast_definitions ADD COLUMN priority INTEGER NOT NULL DEFAULT 5;
ALTER TABLE holdfast_definitions ADD COLUMN source TEXT NOT NULL DEFAULT 'config';

-- Params of the moment, of a run that was triggered with some.
ALTER TABLE holdfast_runs ADD COLUMN params TEXT;

-- Runs by why they did not run, and those of one job that did not end well.
CREATE INDEX holdfast_runs_reason ON holdfast_runs (reason, created_at, id) WHERE reason <> '';
CREATE INDEX holdfast_runs_job_trouble ON holdfast_runs (job, created_at, id) WHERE state NOT IN ('waiting', 'running', 'succeeded');
