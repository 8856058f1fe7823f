-- Sessions: the lives of replicas and of programs. Never revived; kept for an
-- hour after their end. Those of programs have locks and no runs.
CREATE TABLE holdfast.sessions (
    id         uuid PRIMARY KEY,
    replica    text NOT NULL,
    version    text NOT NULL,
    ttl        interval NOT NULL,
    started_at timestamptz NOT NULL,
    renewed_at timestamptz NOT NULL,
    expires_at timestamptz NOT NULL,
    ended_at   timestamptz,
    stopped    boolean NOT NULL DEFAULT false, -- its owner ended it, with nothing left to sweep
    sweep      uuid, -- the sweep that is ending it, or ended it
    locks      boolean NOT NULL DEFAULT false,
    lock_servers    text NOT NULL DEFAULT '', -- the servers of stage 1; '' where it locks on none
    draining        boolean NOT NULL DEFAULT false,
    config_hash     text NOT NULL DEFAULT '', -- of the jobs in the replica's configuration
    clock_offset_ms bigint, -- what follows is told with each heartbeat; NULL where it is not known
    workers         int NOT NULL DEFAULT 0,
    busy            int NOT NULL DEFAULT 0,
    not_ready       text NOT NULL DEFAULT '',
    -- The claims of the session with tokens up to claims_floor are among claims_old;
    -- up to claims_next there will be none that is not there yet: see raiseClaims.
    claims_floor    bigint NOT NULL DEFAULT 0,
    claims_next     bigint NOT NULL DEFAULT 0,
    claims_old      bigint[] NOT NULL DEFAULT '{}',
    raised_at       timestamptz NOT NULL DEFAULT clock_timestamp()
);
CREATE INDEX sessions_sweep ON holdfast.sessions (sweep) WHERE sweep IS NOT NULL;
CREATE INDEX sessions_runs ON holdfast.sessions (started_at) WHERE NOT locks;

-- Definitions: all that were ever registered. What decides is never changed.
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
    job_group   text COLLATE "C" NOT NULL DEFAULT '', -- is paused with the group
    priority    int NOT NULL DEFAULT 5,
    source      text NOT NULL DEFAULT 'config', -- or store
    idle_since  timestamptz, -- since when no session carries it, as far as was noticed
    fingerprint text NOT NULL DEFAULT '', -- by what the scheduled times are found, besides the zone
    after       text[] COLLATE "C" NOT NULL DEFAULT '{}', -- the jobs that it follows
    may_overlap boolean NOT NULL DEFAULT false, -- runs of the job do not exclude each other
    PRIMARY KEY (job, hash),
    UNIQUE (job, version)
);
CREATE INDEX definitions_after ON holdfast.definitions (cardinality(after)) WHERE after <> '{}'; -- few follow

-- Jobs: which definition of each is active, and how far its scheduled times have been
-- checked. Apart from the definitions, so that moving the cursor is cheap.
CREATE TABLE holdfast.jobs (
    name          text COLLATE "C" PRIMARY KEY,
    version       bigint NOT NULL,
    checked_until timestamptz NOT NULL,
    updated_at    timestamptz NOT NULL,
    left_at       timestamptz, -- since when no session carries the job
    back_at       timestamptz  -- when one did again: NULL until then
) WITH (fillfactor = 70);
CREATE INDEX jobs_removed ON holdfast.jobs (name) WHERE version < 0; -- a removed job keeps its version, negative

-- Session jobs: which definitions a session carries. The rows of one that has
-- ended say that what they had in force is still to be settled.
CREATE TABLE holdfast.session_jobs (
    session uuid NOT NULL,
    job     text COLLATE "C" NOT NULL,
    version bigint NOT NULL,
    PRIMARY KEY (session, job)
);
CREATE INDEX session_jobs_job ON holdfast.session_jobs (job, version, session);

-- Runs: the history. No index names a column that a run changes on its way to
-- success, nor does the condition of one, so that each change on that way is a
-- heap-only update. trouble is the state of a run that ended otherwise, and cause
-- the reason of that.
CREATE TABLE holdfast.runs (
    id          uuid PRIMARY KEY,
    job         text COLLATE "C" NOT NULL,
    scheduled_at         timestamptz NOT NULL,
    key         text COLLATE "C" NOT NULL DEFAULT '',
    recovery    int NOT NULL DEFAULT 0,
    attempt     int NOT NULL DEFAULT 0, -- 0 until it has started
    state       text NOT NULL,
    session     uuid,
    replica     text NOT NULL DEFAULT '',
    token       bigint,
    created_at  timestamptz NOT NULL,
    started_at  timestamptz,
    finished_at timestamptz,
    rests       timestamptz[], -- when each began and ended, in turns; NULL where there were none
    reason      text NOT NULL DEFAULT '',
    detail      text NOT NULL DEFAULT '',
    blocker     jsonb,
    error       text NOT NULL DEFAULT '',
    trouble     text GENERATED ALWAYS AS (CASE WHEN state NOT IN ('waiting', 'running', 'succeeded') THEN state END) STORED,
    params      jsonb, -- of a run that was triggered with some
    cause       text GENERATED ALWAYS AS (CASE WHEN state NOT IN ('waiting', 'running', 'succeeded') THEN nullif(reason, '') END) STORED,
    start_by    timestamptz, -- of a triggered run with a limit: when it must have begun
    blocked_at  timestamptz, -- since when it waits for its blocker; to be read only while it has one
    waited      jsonb -- the blocker it had before it started; NULL where it had none
) WITH (fillfactor = 70);
CREATE UNIQUE INDEX runs_scheduled ON holdfast.runs (job, scheduled_at, recovery) WHERE key = '';
CREATE INDEX runs_key ON holdfast.runs (job, key, recovery) WHERE key <> '';
-- A triggered run that was skipped leaves its key free.
CREATE UNIQUE INDEX runs_key_taken ON holdfast.runs (job, key, recovery) WHERE key <> '' AND trouble IS DISTINCT FROM 'skipped';
CREATE INDEX runs_created ON holdfast.runs (created_at, id);
CREATE INDEX runs_job ON holdfast.runs (job, created_at, id);
CREATE INDEX runs_replica ON holdfast.runs (replica, created_at, id);
-- The runs that did not succeed in a day are counted from the index alone.
CREATE INDEX runs_trouble ON holdfast.runs (trouble, created_at, id) INCLUDE (job, cause) WHERE trouble IS NOT NULL;
CREATE INDEX runs_cause ON holdfast.runs (cause, created_at, id) WHERE cause IS NOT NULL;
CREATE INDEX runs_job_trouble ON holdfast.runs (job, created_at, id) WHERE trouble IS NOT NULL;

-- Outputs: apart, so that a page of history does not carry them.
CREATE TABLE holdfast.outputs (
    run    uuid PRIMARY KEY,
    output text NOT NULL,
    result text -- what the handler gave as its result, as JSON
);

-- Claims: the right of a run, or of a program's lock, to act. Deleted, nothing
-- more of it can commit.
CREATE SEQUENCE holdfast.tokens;
CREATE TABLE holdfast.claims (
    token      bigint PRIMARY KEY,
    run        uuid NOT NULL UNIQUE,
    session    uuid NOT NULL,
    granted_at timestamptz NOT NULL,
    owner      jsonb -- of a lock: its id is the run
);
-- An expression, or while the table is small its index would be walked for a token.
CREATE INDEX claims_session ON holdfast.claims (session, (token + 0));

-- Grants: what a claim holds.
CREATE TABLE holdfast.grants (
    resource text COLLATE "C" NOT NULL,
    token    bigint NOT NULL,
    mode     text NOT NULL,
    slots    int NOT NULL,
    PRIMARY KEY (resource, token)
);
CREATE INDEX grants_token ON holdfast.grants (token);

-- Waits: the runs and locks that wait, and what for. A run without a living
-- session is free to be adopted; the place of a lock ends with its session.
CREATE TABLE holdfast.waits (
    run     uuid PRIMARY KEY,
    session uuid,
    since   timestamptz NOT NULL,
    owner   jsonb, -- of a lock
    blocker jsonb, -- of a lock, as in runs
    reserved_until timestamptz NOT NULL DEFAULT '-infinity', -- until when younger ones wait behind it
    in_turn boolean NOT NULL DEFAULT false, -- it waits for its turn in its group, where its place is always reserved
    triggered boolean NOT NULL DEFAULT false -- later runs of its job wait behind it, whoever has it
);
CREATE INDEX waits_session ON holdfast.waits (session);
CREATE TABLE holdfast.wants (
    resource text COLLATE "C" NOT NULL,
    since    timestamptz NOT NULL, -- as in waits: the oldest is found first
    run      uuid NOT NULL,
    mode     text NOT NULL,
    slots    int NOT NULL,
    PRIMARY KEY (resource, since, run)
);
CREATE INDEX wants_run ON holdfast.wants (run);

-- Fences: a lock point a resource, and a token below which nobody has it any
-- more. Updated once in a thousand tokens, so that it does not bloat, and
-- forgotten after an hour, so that names which are used no more do not stay.
CREATE TABLE holdfast.fences (
    resource text COLLATE "C" PRIMARY KEY,
    floor    bigint NOT NULL DEFAULT 0,
    added_at timestamptz NOT NULL DEFAULT now()
);
CREATE INDEX fences_added ON holdfast.fences (added_at);
