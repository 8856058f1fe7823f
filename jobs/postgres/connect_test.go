package postgres

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"strings"
	"sync"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/rs/zerolog"
)

// A backend whose client has vanished must end by itself, together with its locks.
func TestConnectionsHaveKeepalives(t *testing.T) {
	t.Parallel()
	s := newHarness(t)
	const settings = `SELECT concat_ws(' ', current_setting('tcp_keepalives_idle'),
		current_setting('tcp_keepalives_interval'),
    current_setting('tcp_keepalives_count'), current_setting('tcp_user_timeout'))`
	const want = "10 5 3 20000"
	var got string
	if err := s.a.pool.QueryRow(t.Context(), settings).Scan(&got); err != nil || got != want {
		t.Errorf("of the store: %s, %v", got, err)
	}
	conn, err := s.a.work.Acquire(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Release()
	for _, when := range []string{"at first", "once it was reset"} {
		if err := conn.QueryRow(t.Context(), settings).Scan(&got); err != nil || got != want {
			t.Errorf("of jobs' transactions, %s: %s, %v", when, got, err)
		}
		if !resetSessions(zerolog.Nop())(conn.Conn()) {
			t.Fatal("connection: got an open one, want a closed one")
		}
	}
}

// A pooler may drop connection parameters. Transactions then have the default level of the
// database, on which the protocol fails silently.
func TestStoreRefusesAnotherIsolationLevel(t *testing.T) {
	t.Parallel()
	s := newHarness(t)
	s.exec(
		`DO $$ BEGIN EXECUTE format('ALTER DATABASE %I SET default_transaction_isolation = %L',
			current_database(), 'repeatable read'); END $$`)
	pooler := startPooler(t)
	o := Options{URL: strings.Replace(s.url, server.Addr(), pooler, 1), Log: zerolog.Nop()}
	if opened, err := Open(t.Context(), o); !errors.Is(err, ErrIsolation) {
		t.Errorf("open through a pooler: %v", err)
		if err == nil {
			opened.Close()
		}
	}
	opened, err := Open(t.Context(), Options{URL: s.url, Log: zerolog.Nop()}) // asks, and is heard
	if err != nil {
		t.Fatal(err)
	}
	opened.Close()
}

// Behind a pooler a later transaction may have another level than the checked one. Each call must
// then fail instead of deciding on an old snapshot.
func TestCallsRefuseAnotherIsolationLevel(t *testing.T) {
	t.Parallel()
	s := newHarness(t)
	session := s.session(s.a, "a")
	conn, err := s.a.pool.Acquire(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Release()
	b := &pgx.Batch{}
	b.BeginTx(pgx.TxOptions{IsoLevel: pgx.RepeatableRead})
	b.Queue(beginPipeline, "1s")
	b.Queue(holdSession, session)
	results := conn.SendBatch(t.Context(), b)
	if err := results.Close(); codeOf(err) != "25001" { // active_sql_transaction
		t.Errorf("batch at another isolation level: %v", err)
	}
	if err := results.Tx().Rollback(t.Context()); err != nil {
		t.Error(err)
	}
}

// startPooler forwards connections to the server without the isolation level that the client
// requests, as pgbouncer does with ignore_startup_parameters. Like pgbouncer, it sends a number of
// the backend that it has made up.
func startPooler(t *testing.T) (address string) {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	var links sync.WaitGroup
	links.Go(func() {
		for {
			client, err := listener.Accept()
			if err != nil {
				return
			}
			links.Go(func() { pool(ctx, t, client) })
		}
	})
	t.Cleanup(func() {
		cancel()
		listener.Close() //nolint:errcheck // it accepts no further connection
		links.Wait()
	})
	return listener.Addr().String()
}

// pool forwards one connection until either end closes it or ctx ends.
func pool(ctx context.Context, t *testing.T, client net.Conn) {
	backend, err := net.Dial("tcp", server.Addr())
	if err != nil {
		t.Error(err)
		client.Close() //nolint:errcheck // nothing was sent
		return
	}
	// by the first copy that ends
	hangUp := func() { client.Close(); backend.Close() } //nolint:errcheck
	defer context.AfterFunc(ctx, hangUp)()
	defer hangUp()
	var size [4]byte
	if _, err := io.ReadFull(client, size[:]); err != nil {
		return
	}
	startup := make([]byte, binary.BigEndian.Uint32(size[:])-4)
	if _, err := io.ReadFull(client, startup); err != nil {
		return
	}
	startup = bytes.Replace(startup, []byte("default_transaction_isolation\x00read committed\x00"),
		nil, 1)
	if _, err := backend.Write(append(binary.BigEndian.AppendUint32(nil, uint32(len(startup)+4)),
		startup...)); err != nil {
		return
	}
	var answers sync.WaitGroup
	answers.Go(func() {
		defer hangUp()
		if hideBackend(client, backend) == nil {
			io.Copy(client, backend) //nolint:errcheck // until one end closes
		}
	})
	io.Copy(backend, client) //nolint:errcheck // until one end closes
	hangUp()
	answers.Wait()
}

// hideBackend forwards the answers up to BackendKeyData, whose process number it changes.
func hideBackend(client io.Writer, backend io.Reader) error {
	for {
		header := make([]byte, 5)
		if _, err := io.ReadFull(backend, header); err != nil {
			return err
		}
		body := make([]byte, binary.BigEndian.Uint32(header[1:])-4)
		if _, err := io.ReadFull(backend, body); err != nil {
			return err
		}
		if header[0] == 'K' {
			body[0] ^= 0x40
		}
		if _, err := client.Write(append(header, body...)); err != nil || header[0] == 'K' {
			return err
		}
	}
}
