-- Sessions: the liveness records of replicas and of programs. A session never revives. Its row
-- stays for one hour after its end, and that of a replica then moves to past_sessions. The session
-- of a program has locks and no runs.
CREATE TABLE holdfast.sessions (
    id         uuid PRIMARY KEY,
    replica    text NOT NULL,
    version    text NOT NULL,
    ttl        interval NOT NULL,
    started_at timestamptz NOT NULL,
    renewed_at timestamptz NOT NULL,
    expires_at timestamptz NOT NULL,
    ended_at   timestamptz,
    stopped    boolean NOT NULL DEFAULT false, -- its owner ended it and left nothing to sweep
    removed    boolean NOT NULL DEFAULT false, -- an operator removed it from the list of replicas
    sweep      uuid, -- the sweep that is ending it or has ended it
    locks      boolean NOT NULL DEFAULT false,
    lock_servers    text NOT NULL DEFAULT '', -- the memcached servers of its advisory locks
    draining        boolean NOT NULL DEFAULT false,
    drains          timestamptz[] NOT NULL DEFAULT '{}', -- begins and ends of drains, in turn
    config_hash     text NOT NULL DEFAULT '', -- of the jobs in the replica's configuration
    -- The process ID of the PostgreSQL backend that serves the owner's heartbeats, and no other
    -- client. NULL: unknown, for example behind a pooler.
    backend         int,
    -- Each heartbeat reports the next six columns.
    clock_offset_ms bigint, -- NULL: unknown
    workers         int NOT NULL DEFAULT 0,
    busy            int NOT NULL DEFAULT 0,
    not_ready       text NOT NULL DEFAULT '',
    stopping        boolean NOT NULL DEFAULT false, -- its waiting runs are free
    databases       jsonb NOT NULL DEFAULT '[]', -- the states of the databases of jobs
    -- claims_old lists the session's claims with tokens up to claims_floor. The session gets no
    -- further claim with a token up to claims_next: see raiseClaims.
    claims_floor    bigint NOT NULL DEFAULT 0,
    claims_next     bigint NOT NULL DEFAULT 0,
    claims_old      bigint[] NOT NULL DEFAULT '{}',
    raised_at       timestamptz NOT NULL DEFAULT clock_timestamp()
);
CREATE INDEX sessions_sweep ON holdfast.sessions (sweep) WHERE sweep IS NOT NULL;
CREATE INDEX sessions_runs ON holdfast.sessions (started_at) WHERE NOT locks;

-- Past sessions: the times of replicas' sessions, for one day after their end. They are in a table
-- of their own, because sweeps and starts read sessions.
CREATE TABLE holdfast.past_sessions (
    id         uuid PRIMARY KEY,
    replica    text NOT NULL,
    version    text NOT NULL,
    started_at timestamptz NOT NULL,
    expires_at timestamptz NOT NULL,
    ended_at   timestamptz NOT NULL,
    stopped    boolean NOT NULL,
    drains     timestamptz[] NOT NULL
);
CREATE INDEX past_sessions_ended ON holdfast.past_sessions (ended_at);

-- Definitions: every definition that a replica has registered. A definition never changes what
-- its hash covers.
CREATE TABLE holdfast.definitions (
    job         text COLLATE "C" NOT NULL,
    hash        text COLLATE "C" NOT NULL,
    version     bigint NOT NULL,
    schedule    text NOT NULL,
    zone        text NOT NULL,
    handler     text NOT NULL,
    resources   jsonb NOT NULL,
    recover     boolean NOT NULL,
    description text NOT NULL,
    job_group   text COLLATE "C" NOT NULL DEFAULT '', -- a pause of the group pauses the job
    priority    int NOT NULL DEFAULT 5,
    source      text NOT NULL DEFAULT 'config', -- config or store
    idle_since  timestamptz, -- when a check first found that no session has the definition
    fingerprint text NOT NULL DEFAULT '', -- with the zone, determines the scheduled times
    after       text[] COLLATE "C" NOT NULL DEFAULT '{}', -- the job's dependencies
    may_overlap boolean NOT NULL DEFAULT false, -- runs of the job do not exclude each other
    PRIMARY KEY (job, hash),
    UNIQUE (job, version)
);
CREATE INDEX definitions_group ON holdfast.definitions (job_group);
CREATE INDEX definitions_after ON holdfast.definitions (cardinality(after)) WHERE after <> '{}';

-- Jobs: the active definition of each job, and until when its scheduled times were checked.
-- Apart from the definitions, so that an update of the cursor writes a small row.
CREATE TABLE holdfast.jobs (
    name          text COLLATE "C" PRIMARY KEY,
    version       bigint NOT NULL,
    checked_until timestamptz NOT NULL,
    updated_at    timestamptz NOT NULL,
    left_at       timestamptz, -- when the last session that had the job ended
    back_at       timestamptz  -- when a session had the job again; NULL until then
) WITH (fillfactor = 70);
-- A removed job has its last version, negated.
CREATE INDEX jobs_removed ON holdfast.jobs (name) WHERE version < 0;

-- Session jobs: which definitions a session has. The rows of an ended session show that the next
-- sweep has yet to activate the definitions of the remaining sessions.
CREATE TABLE holdfast.session_jobs (
    session uuid NOT NULL,
    job     text COLLATE "C" NOT NULL,
    version bigint NOT NULL,
    PRIMARY KEY (session, job)
);
CREATE INDEX session_jobs_job ON holdfast.session_jobs (job, version, session);

-- Runs: the history. Until a run has succeeded, each of its updates is heap-only: no index, and no
-- condition of an index, uses a column that such an update changes, and a page keeps space for an
-- update of each of its rows. A batch of ends can update all of them before PostgreSQL may reuse
-- the space of their old versions. unsuccessful_state is the state of a run that ended without
-- success, and cause is the reason. PostgreSQL parses generated columns
-- and the conditions of triggers in each statement that writes a run, so those here are short, with
-- each list as one constant.
CREATE TABLE holdfast.runs (
    id          uuid PRIMARY KEY,
    job         text COLLATE "C" NOT NULL,
    scheduled_at timestamptz NOT NULL,
    key         text COLLATE "C" NOT NULL DEFAULT '',
    recovery    int NOT NULL DEFAULT 0,
    attempt     int NOT NULL DEFAULT 0, -- 0 until the run starts
    state       text NOT NULL,
    -- The statement that ended it did the work of the triggers.
    batched     boolean NOT NULL DEFAULT false,
    session     uuid,
    replica     text NOT NULL DEFAULT '',
    token       bigint,
    created_at  timestamptz NOT NULL,
    started_at  timestamptz,
    finished_at timestamptz,
    retry_waits timestamptz[], -- the start and the end of each wait between attempts; or NULL
    reason      text NOT NULL DEFAULT '',
    detail      text NOT NULL DEFAULT '',
    blocker     jsonb,
    error       text NOT NULL DEFAULT '',
    unsuccessful_state text GENERATED ALWAYS AS (
        CASE WHEN state <> ALL ('{waiting,running,succeeded}') THEN state END) STORED,
    params      jsonb, -- the parameters that a trigger passed
    cause       text GENERATED ALWAYS AS (
        CASE WHEN state <> ALL ('{waiting,running,succeeded}')
            THEN nullif(reason, '') END) STORED,
    start_by    timestamptz, -- the latest start of a triggered run that has a limit
    -- When its blocker began to block it; valid only while it has a blocker.
    blocked_at  timestamptz,
    waited      jsonb, -- the last blocker of the current or last attempt; NULL: none
    key_actor   text COLLATE "C" NOT NULL DEFAULT '', -- the actor who chose the key
    backfill    uuid -- the backfill that added it
) WITH (fillfactor = 45);
CREATE UNIQUE INDEX runs_scheduled ON holdfast.runs (job, scheduled_at, recovery) WHERE key = '';
CREATE INDEX runs_key ON holdfast.runs (job, key, recovery) WHERE key <> '';
-- A triggered run that was skipped leaves its key free.
CREATE UNIQUE INDEX runs_key_taken ON holdfast.runs (job, key, key_actor, recovery)
    WHERE key <> '' AND unsuccessful_state IS DISTINCT FROM 'skipped';
-- A look-up by key must not read all triggered runs of the job, so only statements that state the
-- second condition can use this index.
CREATE INDEX runs_triggered ON holdfast.runs (job, scheduled_at)
    WHERE key <> '' AND scheduled_at > '-infinity';
-- It finds old triggered runs without reading the runs of backfills.
CREATE INDEX runs_by_trigger ON holdfast.runs (job, scheduled_at)
    WHERE key <> '' AND backfill IS NULL AND scheduled_at < 'infinity';
CREATE INDEX runs_backfill ON holdfast.runs (backfill, created_at, id) WHERE backfill IS NOT NULL;
-- The next three have all runs. Only statements that state their condition can use them. Otherwise
-- a plan of PostgreSQL 17 and later might look a run up by its id through them, which skips from
-- each time to the next, and costs more with each run.
CREATE INDEX runs_created ON holdfast.runs (created_at, id) WHERE created_at > '-infinity';
CREATE INDEX runs_job ON holdfast.runs (job, created_at, id) WHERE created_at > '-infinity';
CREATE INDEX runs_replica ON holdfast.runs (replica, created_at, id) WHERE created_at > '-infinity';
-- An index-only scan counts the runs of a day that did not succeed.
CREATE INDEX runs_unsuccessful ON holdfast.runs (unsuccessful_state, created_at, id)
    INCLUDE (job, cause) WHERE unsuccessful_state IS NOT NULL;
CREATE INDEX runs_cause ON holdfast.runs (cause, created_at, id)
    INCLUDE (job, unsuccessful_state, replica) WHERE cause IS NOT NULL;
CREATE INDEX runs_job_unsuccessful ON holdfast.runs (job, created_at, id)
    WHERE unsuccessful_state IS NOT NULL;

-- Outputs: apart from the runs, so that a page of the history does not read them.
CREATE TABLE holdfast.outputs (
    run    uuid PRIMARY KEY,
    output text NOT NULL,
    result text -- the handler's result, as JSON
);

-- Run attempts: the ended attempts of a run that another attempt follows, with their outputs. The
-- last attempt is in runs and outputs. Rows never change.
CREATE TABLE holdfast.run_attempts (
    run         uuid NOT NULL,
    attempt     int NOT NULL,
    state       text NOT NULL,
    reason      text NOT NULL,
    detail      text NOT NULL,
    error       text NOT NULL,
    replica     text NOT NULL,
    token       bigint NOT NULL,
    started_at  timestamptz NOT NULL,
    finished_at timestamptz NOT NULL,
    output      text NOT NULL,
    waited      jsonb, -- its last blocker before its start; NULL: none
    PRIMARY KEY (run, attempt)
);

-- Claims: the right of a run, or of a program's lock, to commit. When a claim is deleted, its owner
-- commits nothing more.
CREATE SEQUENCE holdfast.tokens;
CREATE TABLE holdfast.claims (
    token      bigint PRIMARY KEY,
    run        uuid NOT NULL UNIQUE,
    session    uuid NOT NULL,
    granted_at timestamptz NOT NULL,
    owner      jsonb -- of a program's lock, whose id is in run
);
-- The index is on an expression: otherwise, while the table is small, a plan might scan it for a
-- token.
CREATE INDEX claims_session ON holdfast.claims (session, (token + 0));

-- Grants: the resources of a claim.
CREATE TABLE holdfast.grants (
    resource text COLLATE "C" NOT NULL,
    token    bigint NOT NULL,
    mode     text NOT NULL,
    slots    int NOT NULL,
    PRIMARY KEY (resource, token)
);
-- The index is on an expression: otherwise, while the table is small, a plan might use it for the
-- grants of a resource, or the primary key for those of a token.
CREATE INDEX grants_token ON holdfast.grants ((token + 0));

-- Waits: the runs and locks that wait, and in wants the resources for which they wait. A replica
-- may adopt a run that has no live session. The wait of a lock ends with its session.
CREATE TABLE holdfast.waits (
    run     uuid PRIMARY KEY,
    session uuid,
    since   timestamptz NOT NULL,
    owner   jsonb, -- of a lock
    blocker jsonb, -- of a lock, as in runs
    -- Younger waiters wait behind it until then.
    reserved_until timestamptz NOT NULL DEFAULT '-infinity',
    -- It waits for a slot of its group, with its position always reserved.
    in_turn boolean NOT NULL DEFAULT false,
    triggered boolean NOT NULL DEFAULT false -- later runs of its job wait behind it in any session
);
CREATE INDEX waits_session ON holdfast.waits (session);
-- Runs that were triggered for a later time are at its end.
CREATE INDEX waits_since ON holdfast.waits (since);
CREATE TABLE holdfast.wants (
    resource text COLLATE "C" NOT NULL,
    -- as in waits: orders an index scan by age
    since    timestamptz NOT NULL CHECK (since > '-infinity'),
    run      uuid NOT NULL,
    mode     text NOT NULL,
    slots    int NOT NULL
);
-- It has all rows, but only statements that state its condition can use it. Otherwise, while the
-- table is small, a plan might use it for the resources of a run.
CREATE UNIQUE INDEX wants_resource ON holdfast.wants (resource, since, run)
    WHERE since > '-infinity';
-- PostgreSQL deletes no row of a published table that has no replica identity.
ALTER TABLE holdfast.wants REPLICA IDENTITY FULL;
CREATE INDEX wants_run ON holdfast.wants (run);

-- Fences: one row per resource, which starts lock. No claim with a token below floor holds the
-- resource. The floor rises once in a thousand tokens, so that the table does not bloat. A sweep
-- deletes a fence after an hour, so that unused names do not remain.
CREATE TABLE holdfast.fences (
    resource text COLLATE "C" PRIMARY KEY,
    floor    bigint NOT NULL DEFAULT 0,
    added_at timestamptz NOT NULL DEFAULT now()
);
CREATE INDEX fences_added ON holdfast.fences (added_at);

-- Pauses: retained as long as the history, because they explain why jobs did not run.
CREATE TABLE holdfast.pauses (
    id         uuid PRIMARY KEY,
    kind       text NOT NULL,
    name       text COLLATE "C" NOT NULL,
    paused_at  timestamptz NOT NULL,
    paused_by  text NOT NULL,
    reason     text NOT NULL,
    resumed_at timestamptz,
    resumed_by text NOT NULL DEFAULT ''
);
CREATE UNIQUE INDEX pauses_active ON holdfast.pauses (kind, name) WHERE resumed_at IS NULL;
CREATE INDEX pauses_over ON holdfast.pauses (kind, name, resumed_at);

-- Specs: jobs that operators added at run time.
CREATE TABLE holdfast.specs (
    job        text COLLATE "C" PRIMARY KEY,
    spec       jsonb NOT NULL,
    version    bigint NOT NULL,
    changed_at timestamptz NOT NULL,
    changed_by text NOT NULL,
    removed    boolean NOT NULL
);

-- Cancels: running runs that an operator has cancelled and whose replica has yet to end them.
CREATE TABLE holdfast.cancels (
    run      uuid PRIMARY KEY,
    session  uuid NOT NULL,
    requested_at timestamptz NOT NULL,
    requested_by text NOT NULL
);
CREATE INDEX cancels_session ON holdfast.cancels (session);

-- Audit: the actions of operators. Times are limited here and in the next tables, because programs
-- cannot read infinite times or write years after 9999 as JSON.
CREATE TABLE holdfast.audit (
    id      uuid PRIMARY KEY,
    at      timestamptz NOT NULL CHECK (at BETWEEN '1970-01-01 00:00Z' AND '9999-12-31 00:00Z'),
    actor   text COLLATE "C" NOT NULL,
    via     text NOT NULL,
    proof   text NOT NULL, -- how the actor was identified
    client  text NOT NULL, -- the address that asked; '' without a network
    request_id text NOT NULL, -- of the request to the page or the API, or ''
    replica text NOT NULL,
    action  text COLLATE "C" NOT NULL,
    target  text COLLATE "C" NOT NULL,
    reason  text NOT NULL,
    detail  jsonb,
    key     text COLLATE "C" NOT NULL,
    request text NOT NULL, -- a digest of the request, for actions that have a key
    outcome jsonb -- the answer to an action that has a key; a repeated action returns it again
);
CREATE UNIQUE INDEX audit_key ON holdfast.audit (key, actor) WHERE key <> '';
CREATE INDEX audit_at ON holdfast.audit (at, id);
CREATE INDEX audit_target ON holdfast.audit (target, at, id);

-- Audit unsealed: lines that wait for their link in the chain of hashes.
CREATE TABLE holdfast.audit_unsealed (
    entry uuid PRIMARY KEY,
    at    timestamptz NOT NULL CHECK (at BETWEEN '1970-01-01 00:00Z' AND '9999-12-31 00:00Z')
);
CREATE INDEX audit_unsealed_at ON holdfast.audit_unsealed (at);

-- Audit links: the chain of hashes. Rows never change.
CREATE TABLE holdfast.audit_links (
    seq   bigint PRIMARY KEY,
    entry uuid NOT NULL UNIQUE,
    at    timestamptz NOT NULL CHECK (at BETWEEN '1970-01-01 00:00Z' AND '9999-12-31 00:00Z'),
    hash  bytea NOT NULL
);

-- Audit chain: the last link, and the last one that pruning deleted.
CREATE TABLE holdfast.audit_chain (
    one         boolean PRIMARY KEY DEFAULT true CHECK (one),
    seq         bigint NOT NULL DEFAULT 0,
    hash        bytea NOT NULL DEFAULT decode(repeat('00', 32), 'hex'),
    anchor_seq  bigint NOT NULL DEFAULT 0,
    anchor_hash bytea NOT NULL DEFAULT decode(repeat('00', 32), 'hex'),
    pruned      bigint NOT NULL DEFAULT 0 -- counts batches of pruning
);
INSERT INTO holdfast.audit_chain DEFAULT VALUES;

-- Saved: the state that a job's run saves for the next run, as JSON. Apart from the jobs, whose
-- rows change less often.
CREATE TABLE holdfast.saved (
    job      text COLLATE "C" PRIMARY KEY,
    value    text NOT NULL,
    run      uuid NOT NULL,
    saved_at timestamptz NOT NULL
);

-- Successes: the latest scheduled time of each job at which a run succeeded that was deleted from
-- the history.
CREATE TABLE holdfast.successes (
    job          text COLLATE "C" PRIMARY KEY,
    scheduled_at timestamptz NOT NULL
);

-- Backfills: requests for runs at past scheduled times of a job. Scheduled times up to
-- handled_until have a run or were left out. The counts are of scheduled times.
CREATE TABLE holdfast.backfills (
    id            uuid PRIMARY KEY,
    job           text COLLATE "C" NOT NULL,
    from_at       timestamptz NOT NULL,
    to_at         timestamptz NOT NULL,
    parallel      int NOT NULL,
    schedule      text COLLATE "C" NOT NULL, -- which gave its scheduled times, with the zone
    state         text NOT NULL, -- active, completed, cancelled or stopped
    detail        text NOT NULL DEFAULT '',
    created_at    timestamptz NOT NULL,
    created_by    text NOT NULL,
    reason        text NOT NULL,
    ended_at      timestamptz,
    handled_until timestamptz NOT NULL,
    times         int NOT NULL,
    left_out      int NOT NULL DEFAULT 0,
    runs          int NOT NULL DEFAULT 0,
    succeeded     int NOT NULL DEFAULT 0,
    unsuccessful  int NOT NULL DEFAULT 0
) WITH (fillfactor = 70);
CREATE UNIQUE INDEX backfills_active ON holdfast.backfills (job) WHERE state = 'active';

-- Backfill runs: the keys of the runs of backfills that have not ended or are not counted yet.
CREATE TABLE holdfast.backfill_runs (
    backfill uuid NOT NULL,
    key      text COLLATE "C" NOT NULL,
    PRIMARY KEY (backfill, key)
);

-- Subscriptions: which webhooks receive which final states of a job's runs, by definition.
-- Few jobs have any.
CREATE TABLE holdfast.subscriptions (
    job     text COLLATE "C" NOT NULL,
    state   text COLLATE "C" NOT NULL,
    version bigint NOT NULL,
    webhook text COLLATE "C" NOT NULL,
    PRIMARY KEY (job, state, version, webhook)
);

-- Deliveries: calls of webhooks that are pending or have failed. next_at is the time of the next
-- try, or the end of the lease of the replica that is trying.
CREATE TABLE holdfast.deliveries (
    id         uuid PRIMARY KEY,
    webhook    text COLLATE "C" NOT NULL,
    run        uuid NOT NULL,
    state      text NOT NULL,
    created_at timestamptz NOT NULL,
    next_at    timestamptz, -- NULL: given up
    gave_up_at timestamptz,
    tries      int NOT NULL DEFAULT 0,
    error      text NOT NULL DEFAULT '',
    since      timestamptz, -- when an operator restarted the delivery; NULL: never
    earlier_tries int NOT NULL DEFAULT 0 -- tries before that
);
CREATE INDEX deliveries_next ON holdfast.deliveries (webhook, next_at) WHERE next_at IS NOT NULL;
CREATE INDEX deliveries_failed ON holdfast.deliveries (created_at, id) WHERE tries > 0;
CREATE INDEX deliveries_run ON holdfast.deliveries (run);

-- Turns: which session does the work that only one replica does at a time.
CREATE TABLE holdfast.turns (
    work    text PRIMARY KEY,
    session uuid NOT NULL,
    until   timestamptz NOT NULL
);

-- Login attempts: failures per key within a time window, such as failed sign-ins.
CREATE TABLE holdfast.login_attempts (
    key   text COLLATE "C" PRIMARY KEY,
    count int NOT NULL,
    until timestamptz NOT NULL
);

-- Sign-outs: the generation of each user of the page who has signed out. Sign-ins of earlier
-- generations are not valid. Rows are deleted when the last of these sign-ins has expired.
CREATE TABLE holdfast.sign_outs (
    name       text COLLATE "C" PRIMARY KEY,
    generation bigint NOT NULL,
    until      timestamptz NOT NULL
);

-- Wait history: one row for each wait of a run for one blocker, added by a trigger when the wait
-- ends. state is what the run did next. Rows never change.
CREATE TABLE holdfast.wait_history (
    run      uuid NOT NULL,
    job      text COLLATE "C" NOT NULL,
    holder   text COLLATE "C" NOT NULL, -- the job; '' for a program
    resource text COLLATE "C" NOT NULL,
    state    text NOT NULL,
    since    timestamptz NOT NULL,
    until    timestamptz NOT NULL
);
CREATE INDEX wait_history_until ON holdfast.wait_history (until);
ALTER TABLE holdfast.wait_history REPLICA IDENTITY FULL;

-- Tallies: ended runs by the quarter of an hour of their creation, final state and start delay. The
-- transaction that ends a run adds to tally_changes, so that finishes at one time do not wait for
-- each other. A sweep moves the changes to the tallies. delay is the index in storage.Delays; -1:
-- the run did not start.
CREATE TABLE holdfast.tallies (
    quarter timestamptz NOT NULL,
    state   text COLLATE "C" NOT NULL,
    delay   int NOT NULL,
    runs    bigint NOT NULL,
    PRIMARY KEY (quarter, state, delay)
) WITH (fillfactor = 70);
CREATE TABLE holdfast.tally_changes (
    quarter timestamptz NOT NULL,
    state   text COLLATE "C" NOT NULL,
    delay   int NOT NULL,
    runs    bigint NOT NULL
);
ALTER TABLE holdfast.tally_changes REPLICA IDENTITY FULL;
CREATE FUNCTION holdfast.quarter(created_at timestamptz) RETURNS timestamptz LANGUAGE sql STABLE AS
    $$ SELECT to_timestamp(floor(date_part('epoch', created_at) / 900) * 900) $$;
-- due is the time from which the delay counts.
CREATE FUNCTION holdfast.delay(due timestamptz, started_at timestamptz)
    RETURNS int LANGUAGE sql STABLE AS
    $$ SELECT CASE WHEN started_at IS NULL THEN -1
        ELSE width_bucket(date_part('epoch', started_at - due),
        '{0.01,0.02,0.05,0.1,0.2,0.5,1,2,5,10,30,60,300,900,3600}'::float8[]) END $$;

-- Triggers of runs add the deliveries and the tally, so that no statement that ends a run can omit
-- them. The statements that end most runs add them more cheaply, and set batched.
CREATE FUNCTION holdfast.add_deliveries(run_ids uuid[], job_names text[], run_states text[])
    RETURNS int LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO holdfast.deliveries (id, webhook, run, state, created_at, next_at)
    SELECT gen_random_uuid(), s.webhook, e.run, e.state, s.t, s.t
    FROM unnest(run_ids, job_names, run_states) AS e (run, job, state) CROSS JOIN LATERAL (
        SELECT s.webhook, clock_timestamp() AS t FROM holdfast.subscriptions s
        WHERE s.job = e.job AND s.state = e.state COLLATE "C" AND s.version = (
            SELECT abs(j.version) FROM holdfast.jobs j WHERE j.name = e.job) OFFSET 0) s;
    RETURN 0;
END $$;
CREATE FUNCTION holdfast.note_ended(r holdfast.runs) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    PERFORM holdfast.add_deliveries(ARRAY[r.id], ARRAY[r.job], ARRAY[r.state]);
    INSERT INTO holdfast.tally_changes (quarter, state, delay, runs)
    VALUES (holdfast.quarter(r.created_at), r.state, holdfast.delay(
        CASE WHEN r.backfill IS NULL THEN r.scheduled_at ELSE r.created_at END, r.started_at), 1);
END $$;

CREATE FUNCTION holdfast.run_recorded() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    PERFORM holdfast.note_ended(NEW);
    RETURN NULL;
END $$;
CREATE TRIGGER runs_recorded AFTER INSERT ON holdfast.runs FOR EACH ROW
    WHEN (NOT NEW.batched AND NEW.state <> ALL ('{waiting,running}'))
    EXECUTE FUNCTION holdfast.run_recorded();

-- The condition of the trigger is shorter than those of its parts, and includes them.
CREATE FUNCTION holdfast.run_changed() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
    t timestamptz := clock_timestamp();
    another boolean := NEW.blocker -> 'holder' IS DISTINCT FROM OLD.blocker -> 'holder';
BEGIN
    IF NOT NEW.batched AND OLD.state = ANY ('{waiting,running}')
        AND NEW.state <> ALL ('{waiting,running}') THEN
        PERFORM holdfast.note_ended(NEW);
    END IF;
    IF OLD.state <> 'waiting' THEN
        RETURN NULL;
    END IF;
    IF OLD.blocker IS NOT NULL AND (another OR NEW.state <> 'waiting') THEN
        INSERT INTO holdfast.wait_history (run, job, holder, resource, state, since, until)
        SELECT OLD.id, OLD.job, coalesce(OLD.blocker -> 'holder' ->> 'job', ''),
            coalesce(OLD.blocker ->> 'resource', ''),
            CASE WHEN another AND NEW.blocker IS NOT NULL THEN 'waiting' ELSE NEW.state END,
            least(OLD.blocked_at, t), t
        WHERE OLD.blocked_at IS NOT NULL;
    END IF;
    IF another AND NEW.blocker IS NOT NULL AND NEW.state <> 'waiting' THEN
        INSERT INTO holdfast.wait_history (run, job, holder, resource, state, since, until)
        VALUES (NEW.id, NEW.job, coalesce(NEW.blocker -> 'holder' ->> 'job', ''),
            coalesce(NEW.blocker ->> 'resource', ''), NEW.state,
            least(coalesce(NEW.blocked_at, t), t), t);
    END IF;
    RETURN NULL;
END $$;
CREATE TRIGGER runs_changed AFTER UPDATE OF state, blocker ON holdfast.runs FOR EACH ROW
    WHEN (NEW.state <> OLD.state AND (NOT NEW.batched OR OLD.blocker IS NOT NULL)
        OR NEW.blocker IS DISTINCT FROM OLD.blocker)
    EXECUTE FUNCTION holdfast.run_changed();

-- Restarts: restarts of memcached servers. The first replica that notices a restart adds the row.
CREATE TABLE holdfast.restarts (
    server     text COLLATE "C" NOT NULL,
    started_at timestamptz NOT NULL,
    noticed_at timestamptz NOT NULL,
    noticed_by text NOT NULL,
    PRIMARY KEY (server, started_at)
);

-- Watches: running runs that a user is watching. Their replica saves their output as they write it.
CREATE TABLE holdfast.watches (
    run   uuid PRIMARY KEY,
    until timestamptz NOT NULL
);
