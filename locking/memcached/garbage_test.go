package memcached_test

import (
	"bufio"
	"errors"
	"io"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/rs/zerolog"

	"github.com/holdfast-dev/holdfast/locking"
	"github.com/holdfast-dev/holdfast/locking/memcached"
	"github.com/holdfast-dev/holdfast/locking/memory"
)

// babbler is a server that answers every command with the same bytes. It can close the connection
// after them.
func babbler(t *testing.T, reply string, hangUp bool) (address string) {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var all sync.WaitGroup
	all.Go(func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			all.Go(func() { babble(conn, reply, hangUp) })
		}
	})
	t.Cleanup(func() {
		if err := listener.Close(); err != nil {
			t.Error(err)
		}
		all.Wait()
	})
	return listener.Addr().String()
}

// babble ends when the client closes the connection.
func babble(conn net.Conn, reply string, hangUp bool) {
	defer func() { _ = conn.Close() }() // the client may have gone first
	lines := bufio.NewReader(conn)
	for {
		line, err := lines.ReadString('\n')
		if err != nil {
			return
		}
		if strings.HasPrefix(line, "add ") || strings.HasPrefix(line, "cas ") {
			if _, err := lines.ReadString('\n'); err != nil { // the value
				return
			}
		}
		if _, err := io.WriteString(conn, reply); err != nil || hangUp {
			return
		}
	}
}

// replies are texts that memcached never sends, and its error texts. After an error text it is
// certain that the command did nothing.
var replies = map[string]struct {
	text    string
	hangUp  bool
	refused bool
}{
	"nothing":              {"", true, false},
	"an empty line":        {"\r\n", false, false},
	"garbage":              {"lorem ipsum\r\n", false, false},
	"HTTP":                 {"HTTP/1.1 400 Bad Request\r\nConnection: close\r\n\r\n", true, false},
	"bytes":                {"\x00\xff\x15\x03\x01\x00\x02\x02\x16\n", false, false},
	"half a line":          {"STOR", true, false},
	"a line without end":   {strings.Repeat("STORED", 100_000), false, false},
	"two answers":          {"STOREDSTORED\r\n", false, false},
	"an answer to another": {"TOUCHED\r\n", false, false},
	"a huge value":         {"VALUE k 0 4000000000 1\r\nx", true, false},
	"an impossible value":  {"VALUE k 0 99999999999999999999 1\r\n", false, false},
	"a negative value":     {"VALUE k 0 -1 1\r\n\r\nEND\r\n", false, false},
	"a cut value":          {"VALUE k 0 100 1\r\nabc", true, false},
	"a value too long":     {"VALUE k 0 1 1\r\nabcdef\r\nEND\r\n", false, false},
	"ERROR":                {"ERROR\r\n", false, true},
	"CLIENT_ERROR":         {"CLIENT_ERROR bad command line format\r\n", false, true},
	"SERVER_ERROR":         {"SERVER_ERROR internal\r\n", false, true},
}

func TestServersWithInvalidReplies(t *testing.T) {
	for name, reply := range replies {
		t.Run(name, func(t *testing.T) {
			want, timeout := locking.ErrUnclear, short
			if reply.refused {
				want, timeout = locking.ErrUnavailable, long
			}
			b := open(t, memcached.Options{Servers: []string{babbler(t, reply.text, reply.hangUp)},
				Timeout: timeout})
			err := b.Add(t.Context(), "k", []byte("1"), lease)
			if !errors.Is(err, want) || errors.Is(err, locking.ErrUnclear) == reply.refused ||
				errors.Is(err, locking.ErrNotStored) {
				t.Errorf("add: got %v, want %v", err, want)
			}
			_, getErr := b.Get(t.Context(), "k")
			for what, err := range map[string]error{
				"get": getErr, "renewal": b.Renew(t.Context(), "k", []byte("1"), lease), "delete": b.Delete(t.Context(), "k", []byte("1")),
			} { // which look first
				if !errors.Is(err, locking.ErrUnavailable) {
					t.Errorf("%s: got %v, want %v", what, err, locking.ErrUnavailable)
				}
			}
		})
	}
}

// TestLocksOnServersWithInvalidReplies checks that invalid replies grant no lock. With grants, the
// grants decide.
func TestLocksOnServersWithInvalidReplies(t *testing.T) {
	for name, reply := range replies {
		t.Run(name, func(t *testing.T) {
			b := open(t, memcached.Options{Servers: []string{babbler(t, reply.text, reply.hangUp)},
				Timeout: short})
			alone := newLocker(t, b)
			_, err := alone.TryAcquire(t.Context(), locking.Owner{Job: "job"}, tables(t, "a", "b"))
			if !errors.Is(err, locking.ErrUnclear) && !errors.Is(err, locking.ErrUnavailable) ||
				errors.Is(err, locking.ErrHeld) {
				t.Errorf("alone: %v", err)
			}
			granted, err := locking.New(b, locking.Options{
				Namespace: "n", Lease: lease, Grants: memory.NewGrants(),
				Session: locking.Session{Replica: "a"}, Log: zerolog.Nop(),
			})
			if err != nil {
				t.Fatal(err)
			}
			run(t, granted)
			if err := granted.Ready(t.Context()); err != nil {
				t.Fatal(err)
			}
			start := time.Now()
			lock, err := granted.TryAcquire(t.Context(), locking.Owner{Job: "job"},
				tables(t, "a", "b"))
			if err != nil {
				t.Fatalf("with grants, after %s: %v", time.Since(start), err)
			}
			if _, err := granted.TryAcquire(t.Context(), locking.Owner{Job: "other"},
				tables(t, "b")); !errors.Is(err, locking.ErrHeld) {
				t.Errorf("a second lock: %v", err)
			}
			if err := lock.Release(t.Context()); err != nil {
				t.Errorf("release: %v", err)
			}
		})
	}
}
