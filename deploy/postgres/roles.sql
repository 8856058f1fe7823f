-- Roles for replicas that may not change the schema, for the transactions of their jobs, and for
-- checks of the audit log:
--
--   holdfast        database.url: reads and writes the rows of the schema holdfast
--   holdfast_jobs   database.jobs_url: what a fenced transaction needs, and the tables of your jobs
--   holdfast_audit  database.url of `scheduler audit verify` and `audit export` on another machine:
--                   reads the audit log
--
-- A third role owns the schema and runs `scheduler migrate`. It is any role with CREATE on the
-- database.
--
--   1. Run `scheduler migrate -c holdfast.yaml` with the URL of the owner.
--   2. Run this file as a superuser: psql -1 -v ON_ERROR_STOP=1 -f roles.sql DATABASE
--      Repeat steps 1 and 2 with each release that migrates the schema.
--   3. Give the roles passwords: \password holdfast
--   4. Give holdfast_jobs the tables that your jobs read and write.
--   5. Configure the replicas:
--
--        database:
--          url: postgres://holdfast:PASSWORD@HOST/DATABASE
--          jobs_url: postgres://holdfast_jobs:PASSWORD@HOST/DATABASE
--          migrate: false

DO $$ BEGIN
    IF NOT EXISTS (SELECT FROM pg_roles WHERE rolname = 'holdfast') THEN
        CREATE ROLE holdfast LOGIN;
    END IF;
    IF NOT EXISTS (SELECT FROM pg_roles WHERE rolname = 'holdfast_jobs') THEN
        CREATE ROLE holdfast_jobs LOGIN;
    END IF;
    IF NOT EXISTS (SELECT FROM pg_roles WHERE rolname = 'holdfast_audit') THEN
        CREATE ROLE holdfast_audit LOGIN;
    END IF;
END $$;

-- The replicas. Rows of the audit log, of its links and of the history of waits never change: a
-- replica only adds them and deletes them after history.keep.
GRANT USAGE ON SCHEMA holdfast TO holdfast;
GRANT USAGE ON ALL SEQUENCES IN SCHEMA holdfast TO holdfast;
GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA holdfast TO holdfast;
REVOKE UPDATE ON holdfast.audit, holdfast.audit_links, holdfast.audit_unsealed,
    holdfast.wait_history FROM holdfast;
REVOKE INSERT, UPDATE, DELETE ON holdfast.meta FROM holdfast;
GRANT UPDATE (definitions, control_version, home) ON holdfast.meta TO holdfast;
GRANT UPDATE ON SEQUENCE holdfast.tokens TO holdfast; -- raises tokens after a restore

-- The transactions of jobs. Such a transaction ends its own run, so the role may still change the
-- state of all runs, their output and the saved state of all jobs, delete claims, add deliveries,
-- and prevent deliveries and counts of other runs. It may not read params of runs, and may not
-- change the audit log, pauses, definitions, added jobs or sessions. docs/deployment.md lists its
-- rights.
GRANT holdfast_jobs TO holdfast; -- so that a sweep can end transactions of dead replicas
REVOKE ALL ON ALL TABLES IN SCHEMA holdfast FROM holdfast_jobs; -- rights of older releases
GRANT USAGE ON SCHEMA holdfast TO holdfast_jobs;
GRANT SELECT ON holdfast.meta, holdfast.jobs, holdfast.subscriptions, holdfast.claims,
    holdfast.grants, holdfast.outputs, holdfast.saved TO holdfast_jobs;
GRANT SELECT (id, job, state, token, created_at, scheduled_at, started_at, backfill)
    ON holdfast.runs TO holdfast_jobs;
GRANT UPDATE (token), DELETE ON holdfast.claims TO holdfast_jobs;
GRANT DELETE ON holdfast.grants TO holdfast_jobs;
GRANT UPDATE (state, reason, detail, error, batched, finished_at)
    ON holdfast.runs TO holdfast_jobs;
GRANT INSERT, UPDATE ON holdfast.outputs, holdfast.saved TO holdfast_jobs;
GRANT INSERT ON holdfast.deliveries, holdfast.tally_changes TO holdfast_jobs;

-- Checks of the audit log. The role changes nothing.
REVOKE ALL ON ALL TABLES IN SCHEMA holdfast FROM holdfast_audit;
GRANT USAGE ON SCHEMA holdfast TO holdfast_audit;
GRANT SELECT ON holdfast.meta, holdfast.audit, holdfast.audit_unsealed, holdfast.audit_links,
    holdfast.audit_chain TO holdfast_audit;
