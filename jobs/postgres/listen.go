package postgres

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
)

const (
	// answerTimeout bounds the wait for an answer and for a notification.
	answerTimeout = 5 * time.Second

	// listenSilence is how long the connection may be silent before a query checks it.
	listenSilence = 30 * time.Second

	isReadOnly = `SELECT current_setting('transaction_read_only') = 'on'`

	probing = "probe "
)

// errNotNotified reports that notifications do not arrive.
var errNotNotified = errors.New("notifications do not arrive: a pooler that gives each " +
	"transaction another session may be in between")

// channel returns the name of the notification channel. It contains the cluster's id, because
// several clusters may share a database.
func (s *Store) channel() string { return "holdfast " + s.cluster.String() }

// Listen implements storage.Control. It uses a connection of its own, and returns when this
// connection or ctx ends.
func (s *Store) Listen(ctx context.Context, notify func()) error {
	return wrap("notifications", s.listen(ctx, notify))
}

func (s *Store) listen(ctx context.Context, notify func()) error {
	conn, err := s.connector.connect(ctx)
	if err != nil {
		return err
	}
	defer func() {
		closing, cancel := context.WithTimeout(context.WithoutCancel(ctx), answerTimeout)
		defer cancel()
		_ = conn.Close(closing)
	}()
	if err := s.subscribe(ctx, conn); err != nil {
		return err
	}
	notify()
	for {
		switch notification, err := within(ctx, s.listenSilence, conn.WaitForNotification); {
		case err == nil && !strings.HasPrefix(notification.Payload, probing):
			notify()
		case err == nil:
		case conn.IsClosed() || ctx.Err() != nil:
			return err
		default: // silent, or gone without a word
			if _, err := within(ctx, answerTimeout, func(ctx context.Context) (any, error) {
				return nil, requireWritable(ctx, conn)
			}); err != nil {
				return err
			}
		}
	}
}

// errNotPrimary reports that no notification will arrive: others notify the new primary.
var errNotPrimary = errors.New("the server is read-only")

// requireWritable returns errNotPrimary if the server is no longer the primary.
func requireWritable(ctx context.Context, conn *pgx.Conn) error {
	var readOnly bool
	err := conn.QueryRow(ctx, isReadOnly).Scan(&readOnly)
	if err == nil && readOnly {
		return errNotPrimary
	}
	return err
}

// within calls wait with a timeout.
func within[T any](ctx context.Context, d time.Duration,
	wait func(context.Context) (T, error)) (T, error) {
	ctx, cancel := context.WithTimeout(ctx, d)
	defer cancel()
	return wait(ctx)
}

// subscribe listens, and checks that notifications of other connections arrive: a pooler may accept
// the command and assign the listening session to another client.
func (s *Store) subscribe(ctx context.Context, conn *pgx.Conn) error {
	probe := probing + uuid.NewString()
	if _, err := within(ctx, answerTimeout, func(ctx context.Context) (any, error) {
		if err := conn.PgConn().Exec(ctx, "LISTEN "+pgx.Identifier{s.channel()}.Sanitize()).
			Close(); err != nil {
			return nil, err
		}
		return s.pool.Exec(ctx, notify, s.channel(), probe)
	}); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeoutCause(ctx, s.listenTimeout, errNotNotified)
	defer cancel()
	for {
		notification, err := conn.WaitForNotification(ctx)
		switch {
		case err != nil && errors.Is(context.Cause(ctx), errNotNotified):
			return fmt.Errorf("%w (%w)", errNotNotified, err)
		case err != nil:
			return err
		case notification.Payload == probe:
			return nil
		}
	}
}
