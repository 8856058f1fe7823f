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
