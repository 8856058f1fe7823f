-- What operators ask for. orders grows with each action that replicas must hear of.
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

-- What a replica tells of itself: which jobs its configuration has as its session
-- opens, the rest with each heartbeat.
ALTER TABLE holdfast_sessions ADD COLUMN config_hash TEXT NOT NULL DEFAULT '';
ALTER TABLE holdfast_sessions ADD COLUMN clock_offset_ms INTEGER; -- NULL where it is not known
ALTER TABLE holdfast_sessions ADD COLUMN workers INTEGER NOT NULL DEFAULT 0;
ALTER TABLE holdfast_sessions ADD COLUMN busy INTEGER NOT NULL DEFAULT 0;
ALTER TABLE holdfast_sessions ADD COLUMN not_ready TEXT NOT NULL DEFAULT '';
-- Saved: what each job's runs keep for the next, as JSON.
CREATE TABLE holdfast_saved (
    job      TEXT PRIMARY KEY,
    value    TEXT NOT NULL,
    run      TEXT NOT NULL,
    saved_at INTEGER NOT NULL
);
-- What a handler gave as its result, as JSON.
ALTER TABLE holdfast_outputs ADD COLUMN result TEXT;

-- Subscriptions: which webhooks are told of which ends of a job's runs, by its
-- definitions. Few jobs have any.
CREATE TABLE holdfast_subscriptions (
    job     TEXT NOT NULL,
    state   TEXT NOT NULL,
    version INTEGER NOT NULL,
    webhook TEXT NOT NULL,
    PRIMARY KEY (job, state, version, webhook)
) WITHOUT ROWID;

-- Deliveries: what webhooks are still to be told. next_at is when the next try
-- is due, or until when one has the delivery.
CREATE TABLE holdfast_deliveries (
    id         TEXT PRIMARY KEY,
    webhook    TEXT NOT NULL,
    run        TEXT NOT NULL,
    state      TEXT NOT NULL,
    created_at INTEGER NOT NULL,
    next_at    INTEGER, -- NULL once it was given up
    gave_up_at INTEGER,
    tries      INTEGER NOT NULL DEFAULT 0,
    error      TEXT NOT NULL DEFAULT ''
) WITHOUT ROWID;
CREATE INDEX holdfast_deliveries_next ON holdfast_deliveries (webhook, next_at) WHERE next_at IS NOT NULL;
CREATE INDEX holdfast_deliveries_failed ON holdfast_deliveries (created_at) WHERE tries > 0;

-- However a run ends, and whoever ends it, the webhooks of its job's definition
-- in force are told: a statement that forgot them would lose one for ever.
CREATE TRIGGER holdfast_runs_ended AFTER UPDATE OF state ON holdfast_runs
    WHEN OLD.state IN ('waiting', 'running') AND NEW.state NOT IN ('waiting', 'running')
BEGIN
    INSERT INTO holdfast_deliveries (id, webhook, run, state, created_at, next_at)
    SELECT lower(printf('%s-%s-4%s-8%s-%s', hex(randomblob(4)), hex(randomblob(2)), substr(hex(randomblob(2)), 2), substr(hex(randomblob(2)), 2), hex(randomblob(6)))),
        s.webhook, NEW.id, NEW.state, NEW.finished_at, NEW.finished_at
    FROM holdfast_subscriptions s
    WHERE s.job = NEW.job AND s.state = NEW.state AND s.version = (SELECT abs(j.version) FROM holdfast_jobs j WHERE j.name = NEW.job);
END;
CREATE TRIGGER holdfast_runs_recorded AFTER INSERT ON holdfast_runs
    WHEN NEW.state NOT IN ('waiting', 'running')
BEGIN
    INSERT INTO holdfast_deliveries (id, webhook, run, state, created_at, next_at)
    SELECT lower(printf('%s-%s-4%s-8%s-%s', hex(randomblob(4)), hex(randomblob(2)), substr(hex(randomblob(2)), 2), substr(hex(randomblob(2)), 2), hex(randomblob(6)))),
        s.webhook, NEW.id, NEW.state, NEW.finished_at, NEW.finished_at
    FROM holdfast_subscriptions s
    WHERE s.job = NEW.job AND s.state = NEW.state AND s.version = (SELECT abs(j.version) FROM holdfast_jobs j WHERE j.name = NEW.job);
END;
-- What an action with a key told, to be told again.
ALTER TABLE holdfast_audit ADD COLUMN outcome TEXT;

-- Since when nobody carries a definition that is not in force, as far as was noticed.
ALTER TABLE holdfast_definitions ADD COLUMN idle_since INTEGER;

-- Attempts: failures by key within a window, such as sign-ins that failed.
CREATE TABLE holdfast_attempts (
    key   TEXT PRIMARY KEY,
    count INTEGER NOT NULL,
    until INTEGER NOT NULL
) WITHOUT ROWID;

-- Runs by why they did not run, and those of one job that did not end well.
CREATE INDEX holdfast_runs_reason ON holdfast_runs (reason, created_at, id) WHERE reason <> '';
CREATE INDEX holdfast_runs_job_trouble ON holdfast_runs (job, created_at, id) WHERE state NOT IN ('waiting', 'running', 'succeeded');

-- Deliveries that were to be made again: since when their tries count, and how
-- many there were before. A run is looked up as it is pruned.
ALTER TABLE holdfast_deliveries ADD COLUMN since INTEGER; -- NULL: since it was created
ALTER TABLE holdfast_deliveries ADD COLUMN former INTEGER NOT NULL DEFAULT 0;
DROP INDEX holdfast_deliveries_failed;
CREATE INDEX holdfast_deliveries_failed ON holdfast_deliveries (created_at, id) WHERE tries > 0;
CREATE INDEX holdfast_deliveries_run ON holdfast_deliveries (run);

-- By what a job's scheduled times are found, besides the zone. '' of what was registered before.
ALTER TABLE holdfast_definitions ADD COLUMN fingerprint TEXT NOT NULL DEFAULT '';

-- Since when nobody carries the job, and when somebody did again: NULL until then.
ALTER TABLE holdfast_jobs ADD COLUMN left_at INTEGER;
ALTER TABLE holdfast_jobs ADD COLUMN back_at INTEGER;
UPDATE holdfast_jobs AS j SET left_at = CAST((julianday('now') - 2440587.5) * 86400000000 AS INTEGER)
WHERE NOT EXISTS (SELECT 1 FROM holdfast_session_jobs c WHERE c.job = j.name);

-- Since when a waiting run waits for its blocker: to be read only while it has one.
ALTER TABLE holdfast_runs ADD COLUMN blocked_at INTEGER;

-- Blockages: a row each time that a run waits no more for the same run, whichever
-- statement has it so, with what became of it then. Rows are added and pruned,
-- never changed.
CREATE TABLE holdfast_blockages (
    run      TEXT NOT NULL,
    job      TEXT NOT NULL,
    holder   TEXT NOT NULL, -- the job
    resource TEXT NOT NULL,
    state    TEXT NOT NULL,
    since    INTEGER NOT NULL,
    until    INTEGER NOT NULL
);
CREATE INDEX holdfast_blockages_until ON holdfast_blockages (until);
CREATE TRIGGER holdfast_runs_unblocked AFTER UPDATE OF state, blocker ON holdfast_runs
    WHEN OLD.state = 'waiting' AND OLD.blocker IS NOT NULL AND OLD.blocked_at IS NOT NULL
        AND (NEW.state <> 'waiting' OR NEW.blocker ->> '$.holder.run_id' IS NOT OLD.blocker ->> '$.holder.run_id')
BEGIN
    INSERT INTO holdfast_blockages (run, job, holder, resource, state, since, until)
    SELECT OLD.id, OLD.job, coalesce(OLD.blocker ->> '$.holder.job', ''), coalesce(OLD.blocker ->> '$.resource', ''),
        CASE WHEN NEW.blocker IS NOT NULL AND NEW.blocker ->> '$.holder.run_id' IS NOT OLD.blocker ->> '$.holder.run_id' THEN 'waiting' ELSE NEW.state END,
        min(OLD.blocked_at, t), t FROM (SELECT CAST(unixepoch('subsec') * 1000000 AS INTEGER) AS t);
END;
CREATE TRIGGER holdfast_runs_unblocked_at_once AFTER UPDATE OF state, blocker ON holdfast_runs
    WHEN OLD.state = 'waiting' AND NEW.state <> 'waiting' AND NEW.blocker IS NOT NULL
        AND NEW.blocker ->> '$.holder.run_id' IS NOT OLD.blocker ->> '$.holder.run_id'
BEGIN
    INSERT INTO holdfast_blockages (run, job, holder, resource, state, since, until)
    SELECT NEW.id, NEW.job, coalesce(NEW.blocker ->> '$.holder.job', ''), coalesce(NEW.blocker ->> '$.resource', ''), NEW.state,
        min(coalesce(NEW.blocked_at, t), t), t FROM (SELECT CAST(unixepoch('subsec') * 1000000 AS INTEGER) AS t);
END;
CREATE TRIGGER holdfast_runs_blocked_at_once AFTER INSERT ON holdfast_runs
    WHEN NEW.state <> 'waiting' AND NEW.blocker IS NOT NULL
BEGIN
    INSERT INTO holdfast_blockages (run, job, holder, resource, state, since, until)
    SELECT NEW.id, NEW.job, coalesce(NEW.blocker ->> '$.holder.job', ''), coalesce(NEW.blocker ->> '$.resource', ''), NEW.state,
        min(coalesce(NEW.blocked_at, t), t), t FROM (SELECT CAST(unixepoch('subsec') * 1000000 AS INTEGER) AS t);
END;

-- What a run was kept waiting by before it started; NULL where nothing did.
ALTER TABLE holdfast_runs ADD COLUMN waited TEXT;

-- Watches: running runs that somebody looks at, whose output is kept as they write.
CREATE TABLE holdfast_watches (
    run   TEXT PRIMARY KEY,
    until INTEGER NOT NULL
);

-- The jobs that a definition follows, as JSON.
ALTER TABLE holdfast_definitions ADD COLUMN after TEXT NOT NULL DEFAULT '[]';
CREATE INDEX holdfast_definitions_after ON holdfast_definitions (job, version, after) WHERE after <> '[]';
