-- Times are microseconds since 1970 in UTC. Ids are UUIDs in lower case.

-- Sessions: the liveness records of replicas. A session never revives. Its row stays for one
-- hour after its end, and then moves to holdfast_past_sessions.
CREATE TABLE holdfast_sessions (
    id              TEXT PRIMARY KEY,
    replica         TEXT NOT NULL,
    version         TEXT NOT NULL,
    started_at      INTEGER NOT NULL,
    renewed_at      INTEGER NOT NULL,
    expires_at      INTEGER NOT NULL,
    ended_at        INTEGER,
    stopped         INTEGER NOT NULL DEFAULT 0, -- the replica ended it and left nothing to sweep
    removed         INTEGER NOT NULL DEFAULT 0, -- an operator removed it from the list of replicas
    lock_servers    TEXT NOT NULL DEFAULT '', -- the memcached servers of its advisory locks
    draining        INTEGER NOT NULL DEFAULT 0,
    drains          TEXT NOT NULL DEFAULT '[]', -- JSON: begins and ends of drains, in turn
    config_hash     TEXT NOT NULL DEFAULT '', -- of the jobs in the replica's configuration
    -- Each heartbeat reports the columns below.
    clock_offset_ms INTEGER, -- NULL: unknown
    workers         INTEGER NOT NULL DEFAULT 0,
    busy            INTEGER NOT NULL DEFAULT 0,
    not_ready       TEXT NOT NULL DEFAULT '',
    stopping        INTEGER NOT NULL DEFAULT 0,
    databases       TEXT NOT NULL DEFAULT '[]' -- JSON: the states of the databases of jobs
) WITHOUT ROWID;

-- Past sessions: the times of sessions, for one day after their end.
CREATE TABLE holdfast_past_sessions (
    id         TEXT PRIMARY KEY,
    replica    TEXT NOT NULL,
    version    TEXT NOT NULL,
    started_at INTEGER NOT NULL,
    expires_at INTEGER NOT NULL,
    ended_at   INTEGER NOT NULL,
    stopped    INTEGER NOT NULL,
    drains     TEXT NOT NULL
) WITHOUT ROWID;
CREATE INDEX holdfast_past_sessions_ended ON holdfast_past_sessions (ended_at);

-- Definitions: every definition that a replica has registered. A definition never changes what
-- its hash covers.
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
    job_group   TEXT NOT NULL DEFAULT '', -- a pause of the group pauses the job
    priority    INTEGER NOT NULL DEFAULT 5,
    source      TEXT NOT NULL DEFAULT 'config', -- config or store
    idle_since  INTEGER, -- when a check first found that no session has the definition
    fingerprint TEXT NOT NULL DEFAULT '', -- with the zone, determines the scheduled times
    after       TEXT NOT NULL DEFAULT '[]', -- the job's dependencies, as JSON
    PRIMARY KEY (job, version),
    UNIQUE (job, hash)
) WITHOUT ROWID;
CREATE INDEX holdfast_definitions_after ON holdfast_definitions (job, version, after)
    WHERE after <> '[]';

-- Jobs: the active definition of each job, and until when its scheduled times were checked.
CREATE TABLE holdfast_jobs (
    name          TEXT PRIMARY KEY,
    version       INTEGER NOT NULL,
    checked_until INTEGER NOT NULL,
    updated_at    INTEGER NOT NULL,
    left_at       INTEGER, -- when the last session that had the job ended
    back_at       INTEGER  -- when a session had the job again; NULL until then
) WITHOUT ROWID;

-- Session jobs: which definitions a session has.
CREATE TABLE holdfast_session_jobs (
    session TEXT NOT NULL,
    job     TEXT NOT NULL,
    version INTEGER NOT NULL,
    PRIMARY KEY (session, job)
) WITHOUT ROWID;
CREATE INDEX holdfast_session_jobs_job ON holdfast_session_jobs (job, version);

-- Runs: the history. session is the session that has the run, or that had it last.
CREATE TABLE holdfast_runs (
    id             TEXT PRIMARY KEY,
    job            TEXT NOT NULL,
    scheduled_at   INTEGER NOT NULL,
    key            TEXT NOT NULL,
    recovery       INTEGER NOT NULL,
    attempt        INTEGER NOT NULL,
    state          TEXT NOT NULL,
    session        TEXT,
    replica        TEXT NOT NULL,
    token          INTEGER,
    created_at     INTEGER NOT NULL,
    started_at     INTEGER,
    finished_at    INTEGER,
    -- The start and the end of each wait between attempts, as a JSON list; or NULL.
    retry_waits    TEXT,
    start_by       INTEGER, -- the latest start of a triggered run that has a limit
    wait_since     INTEGER, -- of a waiting run: orders the waiters by age
    -- Of a waiting run: younger runs wait behind it until then.
    reserved_until INTEGER NOT NULL DEFAULT 0,
    -- It waits for a slot of its group, with its position always reserved.
    in_turn        INTEGER NOT NULL DEFAULT FALSE,
    reason         TEXT NOT NULL,
    detail         TEXT NOT NULL,
    blocker        TEXT,
    error          TEXT NOT NULL,
    params         TEXT, -- the parameters that a trigger passed
    blocked_at     INTEGER, -- when its blocker began to block it; valid only while it has a blocker
    waited         TEXT, -- the last blocker of the current or last attempt; NULL: none
    key_actor      TEXT NOT NULL DEFAULT '', -- the actor who chose the key
    backfill       TEXT -- the backfill that added it
);
CREATE UNIQUE INDEX holdfast_runs_scheduled ON holdfast_runs (job, scheduled_at, recovery)
    WHERE key = '';
CREATE INDEX holdfast_runs_key ON holdfast_runs (job, key, recovery, key_actor) WHERE key <> '';
-- A triggered run that was skipped leaves its key free.
CREATE UNIQUE INDEX holdfast_runs_key_taken ON holdfast_runs (job, key, key_actor, recovery)
    WHERE key <> '' AND state <> 'skipped';
CREATE INDEX holdfast_runs_triggered ON holdfast_runs (job, scheduled_at) WHERE key <> '';
-- It finds old triggered runs without reading the runs of backfills.
CREATE INDEX holdfast_runs_by_trigger ON holdfast_runs (job, scheduled_at)
    WHERE key <> '' AND backfill IS NULL;
CREATE INDEX holdfast_runs_backfill ON holdfast_runs (backfill, created_at, id)
    WHERE backfill IS NOT NULL;
CREATE INDEX holdfast_runs_created ON holdfast_runs (created_at, id);
CREATE INDEX holdfast_runs_job ON holdfast_runs (job, created_at, id);
CREATE INDEX holdfast_runs_replica ON holdfast_runs (replica, created_at, id);
CREATE INDEX holdfast_runs_state ON holdfast_runs (state, created_at, id);
CREATE INDEX holdfast_runs_reason ON holdfast_runs (reason, created_at, id) WHERE reason <> '';
CREATE INDEX holdfast_runs_job_unsuccessful ON holdfast_runs (job, created_at, id)
    WHERE state NOT IN ('waiting', 'running', 'succeeded');

-- Outputs: apart from the runs, so that a page of the history does not read them.
CREATE TABLE holdfast_outputs (
    run    TEXT PRIMARY KEY,
    output TEXT NOT NULL,
    result TEXT -- the handler's result, as JSON
);

-- Run attempts: the ended attempts of a run that another attempt follows, with their outputs. The
-- last attempt is in runs and outputs. Rows never change.
CREATE TABLE holdfast_run_attempts (
    run         TEXT NOT NULL,
    attempt     INTEGER NOT NULL,
    state       TEXT NOT NULL,
    reason      TEXT NOT NULL,
    detail      TEXT NOT NULL,
    error       TEXT NOT NULL,
    replica     TEXT NOT NULL,
    token       INTEGER NOT NULL,
    started_at  INTEGER NOT NULL,
    finished_at INTEGER NOT NULL,
    output      TEXT NOT NULL,
    waited      TEXT, -- its last blocker before its start; NULL: none
    PRIMARY KEY (run, attempt)
);

-- Claims: the right of a run to commit. When a claim is deleted, its run commits nothing more.
CREATE TABLE holdfast_claims (
    token      INTEGER PRIMARY KEY,
    run        TEXT NOT NULL UNIQUE,
    session    TEXT NOT NULL,
    granted_at INTEGER NOT NULL
);
CREATE INDEX holdfast_claims_session ON holdfast_claims (session);

-- Grants: the resources of a claim.
CREATE TABLE holdfast_grants (
    resource TEXT NOT NULL,
    token    INTEGER NOT NULL REFERENCES holdfast_claims (token) ON DELETE CASCADE,
    mode     TEXT NOT NULL,
    slots    INTEGER NOT NULL,
    PRIMARY KEY (resource, token)
) WITHOUT ROWID;
CREATE INDEX holdfast_grants_token ON holdfast_grants (token);

-- Wants: the resources for which a run waits.
CREATE TABLE holdfast_wants (
    resource TEXT NOT NULL,
    run      TEXT NOT NULL,
    mode     TEXT NOT NULL,
    slots    INTEGER NOT NULL,
    PRIMARY KEY (resource, run)
) WITHOUT ROWID;
CREATE INDEX holdfast_wants_run ON holdfast_wants (run);

-- Pauses: retained as long as the history, because they explain why jobs did not run.
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
CREATE UNIQUE INDEX holdfast_pauses_active ON holdfast_pauses (kind, name) WHERE resumed_at IS NULL;
CREATE INDEX holdfast_pauses_over ON holdfast_pauses (kind, name, resumed_at);

-- Specs: jobs that operators added at run time.
CREATE TABLE holdfast_specs (
    job        TEXT PRIMARY KEY,
    spec       TEXT NOT NULL,
    version    INTEGER NOT NULL,
    changed_at INTEGER NOT NULL,
    changed_by TEXT NOT NULL,
    removed    INTEGER NOT NULL
) WITHOUT ROWID;

-- Cancels: running runs that an operator has cancelled and whose replica has yet to end them.
CREATE TABLE holdfast_cancels (
    run      TEXT PRIMARY KEY,
    session  TEXT NOT NULL,
    requested_at INTEGER NOT NULL,
    requested_by TEXT NOT NULL
) WITHOUT ROWID;
CREATE INDEX holdfast_cancels_session ON holdfast_cancels (session);

-- Audit: the actions of operators. Times are limited here and in the next tables, because programs
-- cannot write years after 9999 as JSON.
CREATE TABLE holdfast_audit (
    id      TEXT PRIMARY KEY,
    at      INTEGER NOT NULL CHECK (typeof(at) = 'integer' AND at BETWEEN 0 AND 253402214400000000),
    actor   TEXT NOT NULL,
    via     TEXT NOT NULL,
    proof   TEXT NOT NULL, -- how the actor was identified
    client  TEXT NOT NULL, -- the address that asked; '' without a network
    request_id TEXT NOT NULL, -- of the request to the page or the API, or ''
    replica TEXT NOT NULL,
    action  TEXT NOT NULL,
    target  TEXT NOT NULL,
    reason  TEXT NOT NULL,
    detail  TEXT,
    key     TEXT NOT NULL,
    request TEXT NOT NULL, -- a digest of the request, for actions that have a key
    outcome TEXT -- the answer to an action that has a key; a repeated action returns it again
) WITHOUT ROWID;
CREATE UNIQUE INDEX holdfast_audit_key ON holdfast_audit (key, actor) WHERE key <> '';
CREATE INDEX holdfast_audit_at ON holdfast_audit (at, id);
CREATE INDEX holdfast_audit_target ON holdfast_audit (target, at, id);

-- Audit unsealed: lines that wait for their link in the chain of hashes.
CREATE TABLE holdfast_audit_unsealed (
    entry TEXT PRIMARY KEY,
    at    INTEGER NOT NULL CHECK (typeof(at) = 'integer' AND at BETWEEN 0 AND 253402214400000000)
) WITHOUT ROWID;
CREATE INDEX holdfast_audit_unsealed_at ON holdfast_audit_unsealed (at);

-- Audit links: the chain of hashes. Rows never change.
CREATE TABLE holdfast_audit_links (
    seq   INTEGER PRIMARY KEY,
    entry TEXT NOT NULL UNIQUE,
    at    INTEGER NOT NULL CHECK (typeof(at) = 'integer' AND at BETWEEN 0 AND 253402214400000000),
    hash  BLOB NOT NULL
);

-- Audit chain: the last link, and the last one that pruning deleted.
CREATE TABLE holdfast_audit_chain (
    one         INTEGER PRIMARY KEY CHECK (one = 1),
    seq         INTEGER NOT NULL,
    hash        BLOB NOT NULL,
    anchor_seq  INTEGER NOT NULL,
    anchor_hash BLOB NOT NULL
);
INSERT INTO holdfast_audit_chain VALUES (1, 0, zeroblob(32), 0, zeroblob(32));

-- Saved: the state that a job's run saves for the next run, as JSON.
CREATE TABLE holdfast_saved (
    job      TEXT PRIMARY KEY,
    value    TEXT NOT NULL,
    run      TEXT NOT NULL,
    saved_at INTEGER NOT NULL
);

-- Successes: the latest scheduled time of each job at which a run succeeded that was deleted from
-- the history.
CREATE TABLE holdfast_successes (
    job          TEXT PRIMARY KEY,
    scheduled_at INTEGER NOT NULL
) WITHOUT ROWID;

-- Subscriptions: which webhooks receive which final states of a job's runs, by definition.
-- Few jobs have any.
CREATE TABLE holdfast_subscriptions (
    job     TEXT NOT NULL,
    state   TEXT NOT NULL,
    version INTEGER NOT NULL,
    webhook TEXT NOT NULL,
    PRIMARY KEY (job, state, version, webhook)
) WITHOUT ROWID;

-- Deliveries: calls of webhooks that are pending or have failed. next_at is the time of the next
-- try, or the end of the lease of the replica that is trying.
CREATE TABLE holdfast_deliveries (
    id         TEXT PRIMARY KEY,
    webhook    TEXT NOT NULL,
    run        TEXT NOT NULL,
    state      TEXT NOT NULL,
    created_at INTEGER NOT NULL,
    next_at    INTEGER, -- NULL: given up
    gave_up_at INTEGER,
    tries      INTEGER NOT NULL DEFAULT 0,
    error      TEXT NOT NULL DEFAULT '',
    since      INTEGER, -- when an operator restarted the delivery; NULL: never
    earlier_tries INTEGER NOT NULL DEFAULT 0 -- tries before that
) WITHOUT ROWID;
CREATE INDEX holdfast_deliveries_next ON holdfast_deliveries (webhook, next_at)
    WHERE next_at IS NOT NULL;
CREATE INDEX holdfast_deliveries_failed ON holdfast_deliveries (created_at, id) WHERE tries > 0;
CREATE INDEX holdfast_deliveries_run ON holdfast_deliveries (run);

-- Triggers add the deliveries, so that no statement that ends a run can omit them.
CREATE TRIGGER holdfast_runs_ended AFTER UPDATE OF state ON holdfast_runs
    WHEN OLD.state IN ('waiting', 'running') AND NEW.state NOT IN ('waiting', 'running')
BEGIN
    INSERT INTO holdfast_deliveries (id, webhook, run, state, created_at, next_at)
    SELECT lower(printf('%s-%s-4%s-8%s-%s', hex(randomblob(4)), hex(randomblob(2)),
        substr(hex(randomblob(2)), 2), substr(hex(randomblob(2)), 2), hex(randomblob(6)))),
        s.webhook, NEW.id, NEW.state, NEW.finished_at, NEW.finished_at
    FROM holdfast_subscriptions s
    WHERE s.job = NEW.job AND s.state = NEW.state
        AND s.version = (SELECT abs(j.version) FROM holdfast_jobs j WHERE j.name = NEW.job);
END;
CREATE TRIGGER holdfast_runs_recorded AFTER INSERT ON holdfast_runs
    WHEN NEW.state NOT IN ('waiting', 'running')
BEGIN
    INSERT INTO holdfast_deliveries (id, webhook, run, state, created_at, next_at)
    SELECT lower(printf('%s-%s-4%s-8%s-%s', hex(randomblob(4)), hex(randomblob(2)),
        substr(hex(randomblob(2)), 2), substr(hex(randomblob(2)), 2), hex(randomblob(6)))),
        s.webhook, NEW.id, NEW.state, NEW.finished_at, NEW.finished_at
    FROM holdfast_subscriptions s
    WHERE s.job = NEW.job AND s.state = NEW.state
        AND s.version = (SELECT abs(j.version) FROM holdfast_jobs j WHERE j.name = NEW.job);
END;

-- Login attempts: failures per key within a time window, such as failed sign-ins.
CREATE TABLE holdfast_login_attempts (
    key   TEXT PRIMARY KEY,
    count INTEGER NOT NULL,
    until INTEGER NOT NULL
) WITHOUT ROWID;

-- Sign-outs: the generation of each user of the page who has signed out. Sign-ins of earlier
-- generations are not valid. Rows are deleted when the last of these sign-ins has expired.
CREATE TABLE holdfast_sign_outs (
    name       TEXT PRIMARY KEY,
    generation INTEGER NOT NULL,
    until      INTEGER NOT NULL
) WITHOUT ROWID;

-- Wait history: one row for each wait of a run for one blocker, added by triggers when the wait
-- ends. state is what the run did next. Rows never change.
CREATE TABLE holdfast_wait_history (
    run      TEXT NOT NULL,
    job      TEXT NOT NULL,
    holder   TEXT NOT NULL, -- the job
    resource TEXT NOT NULL,
    state    TEXT NOT NULL,
    since    INTEGER NOT NULL,
    until    INTEGER NOT NULL
);
CREATE INDEX holdfast_wait_history_until ON holdfast_wait_history (until);
CREATE TRIGGER holdfast_runs_unblocked AFTER UPDATE OF state, blocker ON holdfast_runs
    WHEN OLD.state = 'waiting' AND OLD.blocker IS NOT NULL AND OLD.blocked_at IS NOT NULL
        AND (NEW.state <> 'waiting'
            OR NEW.blocker ->> '$.holder.run_id' IS NOT OLD.blocker ->> '$.holder.run_id')
BEGIN
    INSERT INTO holdfast_wait_history (run, job, holder, resource, state, since, until)
    SELECT OLD.id, OLD.job, coalesce(OLD.blocker ->> '$.holder.job', ''),
        coalesce(OLD.blocker ->> '$.resource', ''),
        CASE WHEN NEW.blocker IS NOT NULL
            AND NEW.blocker ->> '$.holder.run_id' IS NOT OLD.blocker ->> '$.holder.run_id'
            THEN 'waiting' ELSE NEW.state END,
        min(OLD.blocked_at, t), t FROM (SELECT CAST(unixepoch('subsec') * 1000000 AS INTEGER) AS t);
END;
CREATE TRIGGER holdfast_runs_unblocked_at_once AFTER UPDATE OF state, blocker ON holdfast_runs
    WHEN OLD.state = 'waiting' AND NEW.state <> 'waiting' AND NEW.blocker IS NOT NULL
        AND NEW.blocker ->> '$.holder.run_id' IS NOT OLD.blocker ->> '$.holder.run_id'
BEGIN
    INSERT INTO holdfast_wait_history (run, job, holder, resource, state, since, until)
    SELECT NEW.id, NEW.job, coalesce(NEW.blocker ->> '$.holder.job', ''),
        coalesce(NEW.blocker ->> '$.resource', ''), NEW.state,
        min(coalesce(NEW.blocked_at, t), t), t
    FROM (SELECT CAST(unixepoch('subsec') * 1000000 AS INTEGER) AS t);
END;
CREATE TRIGGER holdfast_runs_blocked_at_once AFTER INSERT ON holdfast_runs
    WHEN NEW.state <> 'waiting' AND NEW.blocker IS NOT NULL
BEGIN
    INSERT INTO holdfast_wait_history (run, job, holder, resource, state, since, until)
    SELECT NEW.id, NEW.job, coalesce(NEW.blocker ->> '$.holder.job', ''),
        coalesce(NEW.blocker ->> '$.resource', ''), NEW.state,
        min(coalesce(NEW.blocked_at, t), t), t
    FROM (SELECT CAST(unixepoch('subsec') * 1000000 AS INTEGER) AS t);
END;

-- Backfills: requests for runs at past scheduled times of a job. Scheduled times up to
-- handled_until have a run or were left out. The counts are of scheduled times.
CREATE TABLE holdfast_backfills (
    id            TEXT PRIMARY KEY,
    job           TEXT NOT NULL,
    from_at       INTEGER NOT NULL,
    to_at         INTEGER NOT NULL,
    parallel      INTEGER NOT NULL,
    schedule      TEXT NOT NULL, -- which gave its scheduled times, with the zone
    state         TEXT NOT NULL, -- active, completed, cancelled or stopped
    detail        TEXT NOT NULL,
    created_at    INTEGER NOT NULL,
    created_by    TEXT NOT NULL,
    reason        TEXT NOT NULL,
    ended_at      INTEGER,
    handled_until INTEGER NOT NULL,
    times         INTEGER NOT NULL,
    left_out      INTEGER NOT NULL,
    runs          INTEGER NOT NULL,
    succeeded     INTEGER NOT NULL,
    unsuccessful  INTEGER NOT NULL
);
CREATE UNIQUE INDEX holdfast_backfills_active ON holdfast_backfills (job) WHERE state = 'active';

-- Backfill runs: the keys of the runs of backfills that have not ended or are not counted yet.
CREATE TABLE holdfast_backfill_runs (
    backfill TEXT NOT NULL,
    key      TEXT NOT NULL,
    PRIMARY KEY (backfill, key)
) WITHOUT ROWID;

-- Tallies: ended runs by the quarter of an hour of their creation, final state and start delay.
-- delay is the index in storage.Delays; -1: the run did not start.
CREATE TABLE holdfast_tallies (
    quarter INTEGER NOT NULL,
    state   TEXT NOT NULL,
    delay   INTEGER NOT NULL,
    runs    INTEGER NOT NULL,
    PRIMARY KEY (quarter, state, delay)
) WITHOUT ROWID;
CREATE TRIGGER holdfast_runs_ended_tally AFTER UPDATE OF state ON holdfast_runs
    WHEN OLD.state IN ('waiting', 'running') AND NEW.state NOT IN ('waiting', 'running')
BEGIN
    INSERT INTO holdfast_tallies (quarter, state, delay, runs)
    SELECT NEW.created_at - NEW.created_at % 900000000, NEW.state,
        CASE WHEN d IS NULL THEN -1
            ELSE (d >= 10000) + (d >= 20000) + (d >= 50000) + (d >= 100000) + (d >= 200000)
            + (d >= 500000) + (d >= 1000000) + (d >= 2000000) + (d >= 5000000) + (d >= 10000000)
            + (d >= 30000000) + (d >= 60000000) + (d >= 300000000) + (d >= 900000000)
            + (d >= 3600000000) END, 1
    FROM (SELECT NEW.started_at
        - iif(NEW.backfill IS NULL, NEW.scheduled_at, NEW.created_at) AS d) WHERE true
    ON CONFLICT (quarter, state, delay) DO UPDATE SET runs = runs + 1;
END;
CREATE TRIGGER holdfast_runs_recorded_tally AFTER INSERT ON holdfast_runs
    WHEN NEW.state NOT IN ('waiting', 'running')
BEGIN
    INSERT INTO holdfast_tallies (quarter, state, delay, runs)
    SELECT NEW.created_at - NEW.created_at % 900000000, NEW.state,
        CASE WHEN d IS NULL THEN -1
            ELSE (d >= 10000) + (d >= 20000) + (d >= 50000) + (d >= 100000) + (d >= 200000)
            + (d >= 500000) + (d >= 1000000) + (d >= 2000000) + (d >= 5000000) + (d >= 10000000)
            + (d >= 30000000) + (d >= 60000000) + (d >= 300000000) + (d >= 900000000)
            + (d >= 3600000000) END, 1
    FROM (SELECT NEW.started_at
        - iif(NEW.backfill IS NULL, NEW.scheduled_at, NEW.created_at) AS d) WHERE true
    ON CONFLICT (quarter, state, delay) DO UPDATE SET runs = runs + 1;
END;

-- Watches: running runs that a user is watching. Their replica saves their output as they write it.
CREATE TABLE holdfast_watches (
    run   TEXT PRIMARY KEY,
    until INTEGER NOT NULL
);
