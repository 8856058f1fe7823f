-- What operators ask for. orders grows with each act that replicas must hear of.
ALTER TABLE holdfast.meta ADD COLUMN orders bigint NOT NULL DEFAULT 0;
ALTER TABLE holdfast.sessions ADD COLUMN draining boolean NOT NULL DEFAULT false;

-- Pauses: kept as long as the history, since they explain what did not run.
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
CREATE UNIQUE INDEX pauses_standing ON holdfast.pauses (kind, name) WHERE resumed_at IS NULL;
CREATE INDEX pauses_over ON holdfast.pauses (kind, name, resumed_at);

-- Specs: jobs that were added at run time.
CREATE TABLE holdfast.specs (
    job        text COLLATE "C" PRIMARY KEY,
    spec       jsonb NOT NULL,
    version    bigint NOT NULL,
    changed_at timestamptz NOT NULL,
    changed_by text NOT NULL,
    removed    boolean NOT NULL
);

-- Cancels: runs that their replicas are to end.
CREATE TABLE holdfast.cancels (
    run      uuid PRIMARY KEY,
    session  uuid NOT NULL,
    asked_at timestamptz NOT NULL,
    asked_by text NOT NULL
);
CREATE INDEX cancels_session ON holdfast.cancels (session);

-- Audit: who did what.
CREATE TABLE holdfast.audit (
    id      uuid PRIMARY KEY,
    at      timestamptz NOT NULL,
    actor   text COLLATE "C" NOT NULL,
    via     text NOT NULL,
    replica text NOT NULL,
    action  text COLLATE "C" NOT NULL,
    target  text COLLATE "C" NOT NULL,
    reason  text NOT NULL,
    detail  jsonb,
    key     text COLLATE "C" NOT NULL
);
CREATE UNIQUE INDEX audit_key ON holdfast.audit (key) WHERE key <> '';
CREATE INDEX audit_at ON holdfast.audit (at, id);
CREATE INDEX audit_target ON holdfast.audit (target, at, id);

-- A job's group is paused with it. source is where it comes from: config or store.
ALTER TABLE holdfast.definitions ADD COLUMN job_group text COLLATE "C" NOT NULL DEFAULT '',
    ADD COLUMN priority int NOT NULL DEFAULT 5,
    ADD COLUMN source text NOT NULL DEFAULT 'config';

-- Params of the moment, of a run that was triggered with some.
ALTER TABLE holdfast.runs ADD COLUMN params jsonb;

-- What a replica tells of itself: which jobs its configuration has as its session
-- opens, the rest with each heartbeat.
ALTER TABLE holdfast.sessions ADD COLUMN config_hash text NOT NULL DEFAULT '',
    ADD COLUMN clock_offset_ms bigint, -- NULL where it is not known
    ADD COLUMN workers int NOT NULL DEFAULT 0,
    ADD COLUMN busy int NOT NULL DEFAULT 0,
    ADD COLUMN not_ready text NOT NULL DEFAULT '';
-- Saved: what each job's runs keep for the next, as JSON. Apart from the jobs,
-- whose rows change at another pace.
CREATE TABLE holdfast.saved (
    job      text COLLATE "C" PRIMARY KEY,
    value    text NOT NULL,
    run      uuid NOT NULL,
    saved_at timestamptz NOT NULL
);
-- What a handler gave as its result, as JSON.
ALTER TABLE holdfast.outputs ADD COLUMN result text;

-- Subscriptions: which webhooks are told of which ends of a job's runs, by its
-- definitions. Few jobs have any.
CREATE TABLE holdfast.subscriptions (
    job     text COLLATE "C" NOT NULL,
    state   text COLLATE "C" NOT NULL,
    version bigint NOT NULL,
    webhook text COLLATE "C" NOT NULL,
    PRIMARY KEY (job, state, version, webhook)
);

-- Deliveries: what webhooks are still to be told. next_at is when the next try
-- is due, or until when one has the delivery.
CREATE TABLE holdfast.deliveries (
    id         uuid PRIMARY KEY,
    webhook    text COLLATE "C" NOT NULL,
    run        uuid NOT NULL,
    state      text NOT NULL,
    created_at timestamptz NOT NULL,
    next_at    timestamptz, -- NULL once it was given up
    gave_up_at timestamptz,
    tries      int NOT NULL DEFAULT 0,
    error      text NOT NULL DEFAULT ''
);
CREATE INDEX deliveries_next ON holdfast.deliveries (webhook, next_at) WHERE next_at IS NOT NULL;
CREATE INDEX deliveries_failed ON holdfast.deliveries (created_at) WHERE tries > 0;

-- However a run ends, and whoever ends it, the webhooks of its job's definition
-- in force are told: a statement that forgot them would lose one for ever.
CREATE FUNCTION holdfast.tell_hooks() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO holdfast.deliveries (id, webhook, run, state, created_at, next_at)
    SELECT gen_random_uuid(), s.webhook, NEW.id, NEW.state, t, t
    FROM holdfast.subscriptions s, clock_timestamp() t
    WHERE s.job = NEW.job AND s.state = NEW.state COLLATE "C"
        AND s.version = (SELECT abs(j.version) FROM holdfast.jobs j WHERE j.name = NEW.job);
    RETURN NULL;
END $$;
CREATE TRIGGER runs_ended AFTER UPDATE OF state ON holdfast.runs FOR EACH ROW
    WHEN (OLD.state IN ('waiting', 'running') AND NEW.state NOT IN ('waiting', 'running')) EXECUTE FUNCTION holdfast.tell_hooks();
CREATE TRIGGER runs_recorded AFTER INSERT ON holdfast.runs FOR EACH ROW
    WHEN (NEW.state NOT IN ('waiting', 'running')) EXECUTE FUNCTION holdfast.tell_hooks();
-- What an act with a key told, to be told again.
ALTER TABLE holdfast.audit ADD COLUMN outcome jsonb;

-- Turns: which session does what only one replica does at a time.
CREATE TABLE holdfast.turns (
    work    text PRIMARY KEY,
    session uuid NOT NULL,
    until   timestamptz NOT NULL
);

-- Since when nobody carries a definition that is not in force, as far as was noticed.
ALTER TABLE holdfast.definitions ADD COLUMN idle_since timestamptz;

-- Attempts: failures by key within a window, such as sign-ins that failed.
CREATE TABLE holdfast.attempts (
    key   text COLLATE "C" PRIMARY KEY,
    count int NOT NULL,
    until timestamptz NOT NULL
);

-- Removed jobs: the version that was in force is kept negative.
CREATE INDEX jobs_removed ON holdfast.jobs (name) WHERE version < 0;

-- Why a run did not run, or did not end by itself: like trouble NULL on the way
-- to success, so that no change on that way writes to the index. The troubled
-- runs of one job are found among all of its runs.
ALTER TABLE holdfast.runs ADD COLUMN cause text
    GENERATED ALWAYS AS (CASE WHEN state NOT IN ('waiting', 'running', 'succeeded') THEN nullif(reason, '') END) STORED;
CREATE INDEX runs_cause ON holdfast.runs (cause, created_at, id) WHERE cause IS NOT NULL;
CREATE INDEX runs_job_trouble ON holdfast.runs (job, created_at, id) WHERE trouble IS NOT NULL;
-- What did not end well in a day is counted from the index alone.
DROP INDEX holdfast.runs_trouble;
CREATE INDEX runs_trouble ON holdfast.runs (trouble, created_at, id) INCLUDE (job, cause) WHERE trouble IS NOT NULL;

-- Deliveries that were to be made again: since when their tries count, and how
-- many there were before. A run is looked up as it is pruned.
ALTER TABLE holdfast.deliveries ADD COLUMN since timestamptz, -- NULL: since it was created
    ADD COLUMN former int NOT NULL DEFAULT 0;
DROP INDEX holdfast.deliveries_failed;
CREATE INDEX deliveries_failed ON holdfast.deliveries (created_at, id) WHERE tries > 0;
CREATE INDEX deliveries_run ON holdfast.deliveries (run);

-- By what a job's dues are found, besides the zone. '' of what was registered before.
ALTER TABLE holdfast.definitions ADD COLUMN fingerprint text NOT NULL DEFAULT '';

-- Since when nobody carries the job, and when somebody did again: NULL until then.
ALTER TABLE holdfast.jobs ADD COLUMN left_at timestamptz, ADD COLUMN back_at timestamptz;
CREATE INDEX sessions_runs ON holdfast.sessions (started_at) WHERE NOT locks;

-- Since when nobody has carried the job of a run that waits, as far as was noticed.
ALTER TABLE holdfast.waits ADD COLUMN left_at timestamptz;

-- Since when a waiting run waits for its blocker: to be read only while it has one.
ALTER TABLE holdfast.runs ADD COLUMN blocked_at timestamptz;

-- Blockages: a row each time that a run waits no more for the same run, whichever
-- statement has it so, with what became of it then. Rows are added and pruned,
-- never changed.
CREATE TABLE holdfast.blockages (
    run      uuid NOT NULL,
    job      text COLLATE "C" NOT NULL,
    holder   text COLLATE "C" NOT NULL, -- the job; '' of a program
    resource text COLLATE "C" NOT NULL,
    state    text NOT NULL,
    since    timestamptz NOT NULL,
    until    timestamptz NOT NULL
);
CREATE INDEX blockages_until ON holdfast.blockages (until);

CREATE FUNCTION holdfast.keep_blockage() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
    t timestamptz := clock_timestamp();
    another boolean := NEW.blocker -> 'holder' IS DISTINCT FROM OLD.blocker -> 'holder';
BEGIN
    IF OLD.blocker IS NOT NULL THEN
        INSERT INTO holdfast.blockages (run, job, holder, resource, state, since, until)
        SELECT OLD.id, OLD.job, coalesce(OLD.blocker -> 'holder' ->> 'job', ''), coalesce(OLD.blocker ->> 'resource', ''),
            CASE WHEN another AND NEW.blocker IS NOT NULL THEN 'waiting' ELSE NEW.state END, least(OLD.blocked_at, t), t
        WHERE OLD.blocked_at IS NOT NULL;
    END IF;
    IF another AND NEW.blocker IS NOT NULL AND NEW.state <> 'waiting' THEN
        INSERT INTO holdfast.blockages (run, job, holder, resource, state, since, until)
        VALUES (NEW.id, NEW.job, coalesce(NEW.blocker -> 'holder' ->> 'job', ''), coalesce(NEW.blocker ->> 'resource', ''), NEW.state,
            least(coalesce(NEW.blocked_at, t), t), t);
    END IF;
    RETURN NULL;
END $$;
CREATE TRIGGER runs_unblocked AFTER UPDATE OF state, blocker ON holdfast.runs FOR EACH ROW
    WHEN (OLD.state = 'waiting' AND (OLD.blocker IS NOT NULL OR NEW.blocker IS NOT NULL)
        AND (NEW.state <> 'waiting' OR OLD.blocker IS NOT NULL AND NEW.blocker -> 'holder' IS DISTINCT FROM OLD.blocker -> 'holder'))
    EXECUTE FUNCTION holdfast.keep_blockage();

-- Restarts of stage 1's servers, each once, whoever has noticed it first.
CREATE TABLE holdfast.restarts (
    server     text COLLATE "C" NOT NULL,
    started_at timestamptz NOT NULL,
    noticed_at timestamptz NOT NULL,
    noticed_by text NOT NULL,
    PRIMARY KEY (server, started_at)
);

-- What a run was kept waiting by before it started; NULL where nothing did.
ALTER TABLE holdfast.runs ADD COLUMN waited jsonb;

-- Watches: running runs that somebody looks at, whose output is kept as they write.
CREATE TABLE holdfast.watches (
    run   uuid PRIMARY KEY,
    until timestamptz NOT NULL
);
