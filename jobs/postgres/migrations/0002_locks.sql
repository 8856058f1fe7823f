-- Locks of programs beside the runs of jobs: a claim and a place among the
-- waiting that belong to no run say whose they are. Their run is the lock's id.
ALTER TABLE holdfast.claims ADD COLUMN owner jsonb;
ALTER TABLE holdfast.waits ADD COLUMN owner jsonb;
CREATE INDEX waits_session ON holdfast.waits (session);

-- A session either has runs or locks, and is swept by those who know what to
-- do with them.
ALTER TABLE holdfast.sessions ADD COLUMN locks boolean NOT NULL DEFAULT false;

-- A token below which nobody has the name any more.
ALTER TABLE holdfast.fences ADD COLUMN floor bigint NOT NULL DEFAULT 0;
