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
    key     text COLLATE "C" NOT NULL,
    outcome jsonb -- what an action with a key told, to be told again
);
CREATE UNIQUE INDEX audit_key ON holdfast.audit (key) WHERE key <> '';
CREATE INDEX audit_at ON holdfast.audit (at, id);
CREATE INDEX audit_target ON holdfast.audit (target, at, id);

-- Saved: what each job's runs keep for the next, as JSON. Apart from the jobs,
-- whose rows change at another pace.
CREATE TABLE holdfast.saved (
    job      text COLLATE "C" PRIMARY KEY,
    value    text NOT NULL,
    run      uuid NOT NULL,
    saved_at timestamptz NOT NULL
);

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
    error      text NOT NULL DEFAULT '',
    since      timestamptz, -- since when the tries count; NULL: since it was created
    former     int NOT NULL DEFAULT 0 -- tries before that
);
CREATE INDEX deliveries_next ON holdfast.deliveries (webhook, next_at) WHERE next_at IS NOT NULL;
CREATE INDEX deliveries_failed ON holdfast.deliveries (created_at, id) WHERE tries > 0;
CREATE INDEX deliveries_run ON holdfast.deliveries (run);

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

-- Turns: which session does what only one replica does at a time.
CREATE TABLE holdfast.turns (
    work    text PRIMARY KEY,
    session uuid NOT NULL,
    until   timestamptz NOT NULL
);

-- Attempts: failures by key within a window, such as sign-ins that failed.
CREATE TABLE holdfast.attempts (
    key   text COLLATE "C" PRIMARY KEY,
    count int NOT NULL,
    until timestamptz NOT NULL
);

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

-- Watches: running runs that somebody looks at, whose output is kept as they write.
CREATE TABLE holdfast.watches (
    run   uuid PRIMARY KEY,
    until timestamptz NOT NULL
);
