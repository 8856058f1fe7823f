-- Which servers of stage 1 a replica locks on, for replicas to compare; '' where
-- an older binary did not say.
ALTER TABLE holdfast.sessions ADD COLUMN lock_servers text NOT NULL DEFAULT '';
