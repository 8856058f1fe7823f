package main

import (
	"context"
	"errors"

	"github.com/jackc/pgx/v5"
)

const (
	schema = `
CREATE TABLE messages (
    id bigint PRIMARY KEY, train text NOT NULL, number int NOT NULL, kind text NOT NULL,
    from_location text NOT NULL,
    to_location text NOT NULL, tries int NOT NULL DEFAULT 0, 
    hidden_until timestamptz NOT NULL DEFAULT '-infinity', done_at timestamptz);
CREATE INDEX messages_open ON messages (id) WHERE done_at IS NULL;
CREATE TABLE trains (name text PRIMARY KEY, done int NOT NULL DEFAULT 0,
    place text NOT NULL DEFAULT '', version int NOT NULL DEFAULT 0);
CREATE TABLE locations (
    name text PRIMARY KEY, created int NOT NULL DEFAULT 0, arrived int NOT NULL DEFAULT 0,
    departed int NOT NULL DEFAULT 0,
    deleted int NOT NULL DEFAULT 0, version int NOT NULL DEFAULT 0)`

	// A message that was taken is hidden from others for a while: those of a
	// process that died come back.
	takeMessage = `
UPDATE messages SET hidden_until = clock_timestamp() + interval '5 s', tries = tries + 1
WHERE id = (SELECT id FROM messages WHERE done_at IS NULL AND hidden_until < clock_timestamp()
    ORDER BY id LIMIT 1 FOR UPDATE SKIP LOCKED)
RETURNING id, train, number, kind, from_location, to_location, tries`

	messagesLeft = `SELECT EXISTS (SELECT FROM messages WHERE done_at IS NULL)`

	// Who comes back keeps its place: behind later messages of its train it
	// would only make them wait.
	showAgain = `UPDATE messages SET hidden_until = clock_timestamp() + interval '5 ms'
		WHERE id = $1 AND done_at IS NULL`
	showLater = `UPDATE messages SET hidden_until = clock_timestamp() + interval '100 ms', tries = 0
		WHERE id = $1 AND done_at IS NULL`
)

// queueState is what take found.
type queueState int

const (
	queueGave queueState = iota
	queueBusy            // others work on all that is left
	queueDone
)

// take takes the first message that no worker has taken.
func (c *crew) take(ctx context.Context) (message, queueState, error) {
	var m message
	err := c.Store.Pool().QueryRow(ctx, takeMessage).
		Scan(&m.id, &m.train, &m.number, &m.kind, &m.from, &m.to, &m.tries)
	if !errors.Is(err, pgx.ErrNoRows) {
		return m, queueGave, err
	}
	var left bool
	if err := c.Store.Pool().QueryRow(ctx, messagesLeft).Scan(&left); err != nil || left {
		return m, queueBusy, err
	}
	return m, queueDone, nil
}

// giveBack lets the message be tried again soon, or a good deal later when it
// has been tried often enough.
func (c *crew) giveBack(ctx context.Context, m message) error {
	statement := showAgain
	if m.tries > maxTries {
		c.postponed.Add(1)
		statement = showLater
	}
	_, err := c.Store.Pool().Exec(ctx, statement, m.id)
	return err
}
