-- Times are microseconds since 1970, UTC. Ids are lower-case UUIDs.

-- Sessions: the lives of replicas. Never revived; kept for an hour after their end.
CREATE TABLE holdfast_sessions (
    id         TEXT PRIMARY KEY,
    replica    TEXT NOT NULL,
    version    TEXT NOT NULL,
    started_at INTEGER NOT NULL,
    renewed_at INTEGER NOT NULL,
    expires_at INTEGER NOT NULL,
    ended_at   INTEGER,
    stopped    INTEGER NOT NULL DEFAULT 0 -- its owner ended it, with nothing left to sweep
) WITHOUT ROWID;

-- Definitions: all that were ever registered. What decides is never changed.
CREATE TABLE holdfast_definitions (
    job         TEXT NOT NULL,
    version     INTEGER NOT NULL,
    hash        TEXT NOT NULL,
    schedule    TEXT NOT NULL,
    zone        TEXT NOT NULL,
    handler     TEXT NOT NULL,
    resources   TEXT NOT NULL,
    recover     INTEGER NOT NULL,
    description TEXT NOT NULL,
    may_overlap INTEGER NOT NULL DEFAULT FALSE, -- runs of the job do not exclude each other
    PRIMARY KEY (job, version),
    UNIQUE (job, hash)
) WITHOUT ROWID;

-- Jobs: which definition of each is active, and how far its scheduled times have been checked.
CREATE TABLE holdfast_jobs (
    name          TEXT PRIMARY KEY,
    version       INTEGER NOT NULL,
    checked_until INTEGER NOT NULL,
    updated_at    INTEGER NOT NULL
) WITHOUT ROWID;

-- Session jobs: which definitions a session carries.
CREATE TABLE holdfast_session_jobs (
    session TEXT NOT NULL,
    job     TEXT NOT NULL,
    version INTEGER NOT NULL,
    PRIMARY KEY (session, job)
) WITHOUT ROWID;
CREATE INDEX holdfast_session_jobs_job ON holdfast_session_jobs (job, version);

-- Runs: the history. session is the one that has the run, or had it last.
CREATE TABLE holdfast_runs (
    id          TEXT PRIMARY KEY,
    job         TEXT NOT NULL,
    scheduled_at         INTEGER NOT NULL,
    key         TEXT NOT NULL,
    recovery    INTEGER NOT NULL,
    attempt     INTEGER NOT NULL,
    state       TEXT NOT NULL,
    session     TEXT,
    replica     TEXT NOT NULL,
    token       INTEGER,
    created_at  INTEGER NOT NULL,
    started_at  INTEGER,
    finished_at INTEGER,
    rests       TEXT, -- when each began and ended, in turns, in JSON; or NULL
    start_by    INTEGER, -- of a triggered run with a limit: when it must have begun
    wait_since  INTEGER, -- of a waiting run: decides who is older
    reserved_until INTEGER NOT NULL DEFAULT 0, -- of a waiting run: until when younger ones wait behind it
    in_turn     INTEGER NOT NULL DEFAULT FALSE, -- it waits for its turn in its group, where its place is always reserved
    reason      TEXT NOT NULL,
    detail      TEXT NOT NULL,
    blocker     TEXT,
    error       TEXT NOT NULL
);
CREATE UNIQUE INDEX holdfast_runs_scheduled ON holdfast_runs (job, scheduled_at, recovery) WHERE key = '';
CREATE INDEX holdfast_runs_key ON holdfast_runs (job, key, recovery) WHERE key <> '';
-- A triggered run that was skipped leaves its key free.
CREATE UNIQUE INDEX holdfast_runs_key_taken ON holdfast_runs (job, key, recovery) WHERE key <> '' AND state <> 'skipped';
CREATE INDEX holdfast_runs_created ON holdfast_runs (created_at, id);
CREATE INDEX holdfast_runs_job ON holdfast_runs (job, created_at, id);
CREATE INDEX holdfast_runs_replica ON holdfast_runs (replica, created_at, id);
CREATE INDEX holdfast_runs_state ON holdfast_runs (state, created_at, id);

-- Outputs: apart, so that a page of history does not carry them.
CREATE TABLE holdfast_outputs (
    run    TEXT PRIMARY KEY,
    output TEXT NOT NULL
);

-- Claims: the right of a run to act. Deleted, nothing more of it can commit.
CREATE TABLE holdfast_claims (
    token      INTEGER PRIMARY KEY,
    run        TEXT NOT NULL UNIQUE,
    session    TEXT NOT NULL,
    granted_at INTEGER NOT NULL
);
CREATE INDEX holdfast_claims_session ON holdfast_claims (session);

-- Grants: what a claim holds.
CREATE TABLE holdfast_grants (
    resource TEXT NOT NULL,
    token    INTEGER NOT NULL REFERENCES holdfast_claims (token) ON DELETE CASCADE,
    mode     TEXT NOT NULL,
    slots    INTEGER NOT NULL,
    PRIMARY KEY (resource, token)
) WITHOUT ROWID;
CREATE INDEX holdfast_grants_token ON holdfast_grants (token);

-- Wants: what a waiting run waits for.
CREATE TABLE holdfast_wants (
    resource TEXT NOT NULL,
    run      TEXT NOT NULL,
    mode     TEXT NOT NULL,
    slots    INTEGER NOT NULL,
    PRIMARY KEY (resource, run)
) WITHOUT ROWID;
CREATE INDEX holdfast_wants_run ON holdfast_wants (run);
