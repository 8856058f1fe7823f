package memcached_test

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"strings"
	"sync"
	"testing"
	"time"
	"unicode"

	"github.com/holdfast-dev/holdfast/internal/test/speedtest"
	"github.com/holdfast-dev/holdfast/locking/memcached"
)

const (
	plainStats = "STAT pid 7\r\nSTAT uptime 5\r\nSTAT time 1005\r\nSTAT version " +
		"1.6.18\r\nEND\r\n"
	plainSettings = "STAT evictions off\r\nEND\r\n"
)

// speaker is a server that answers every request in the same way.
func speaker(t *testing.T, send func(conn net.Conn)) string {
	t.Helper()
	var all sync.WaitGroup
	t.Cleanup(all.Wait)
	listener := listen(t) // closed first, so speakers do not wait for another client
	all.Go(func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			all.Go(func() {
				defer conn.Close()
				send(conn)
			})
		}
	})
	return listener.Addr().String()
}

// saying sends text and waits until the client closes the connection.
func saying(text string) func(net.Conn) {
	return func(conn net.Conn) {
		_, _ = io.WriteString(conn, text) // a client that has gone has its reasons
		_, _ = io.Copy(io.Discard, conn)
	}
}

// hangingUp sends text after two lines of a request and closes the connection.
func hangingUp(text string) func(net.Conn) {
	return func(conn net.Conn) {
		request := bufio.NewReader(conn)
		for range 2 {
			if _, err := request.ReadString('\n'); err != nil {
				return
			}
		}
		_, _ = io.WriteString(conn, text)
	}
}

// endlessly repeats text until the client closes the connection.
func endlessly(text string) func(net.Conn) {
	return func(conn net.Conn) {
		for {
			if _, err := io.WriteString(conn, text); err != nil {
				return
			}
		}
	}
}

// TestServersOfOtherProtocols checks that the watch reports the reply soon and reads no more than
// it needs. The timeout of a minute ends no case.
func TestServersOfOtherProtocols(t *testing.T) {
	for name, test := range map[string]struct {
		send func(net.Conn)
		want string
	}{
		"error":              {saying("ERROR\r\n"), `its reply to stats is not memcached's: found "ERROR"`},
		"HTTP":               {saying("HTTP/1.1 400 Bad Request\r\nConnection: close\r\n\r\n"), `found "HTTP/1.1 400 Bad Request"`},
		"no room":            {saying("ERROR Too many open connections\r\n"), `found "ERROR Too many open connections"`},
		"bytes":              {saying("\x00\xff\xfe\x1b[31m\r\n"), `found " ? [31m"`},
		"endless line":       {endlessly("STAT version 1.6.18"), "found a line of more than 4096 bytes"},
		"endless statistics": {endlessly("STAT pid 7\r\n"), "found more than 65536 bytes"},
		"endless settings":   {func(c net.Conn) { _, _ = io.WriteString(c, plainStats); endlessly("STAT a b\r\n")(c) }, "reply to stats settings is not memcached's: found more than 65536 bytes"},
		"nothing but an end": {saying("END\r\nEND\r\n"), `found uptime "", expected a number`},
		"no version":         {saying("STAT pid 7\r\nSTAT uptime 5\r\nSTAT time 1005\r\nEND\r\nEND\r\n"), "found no version"},
		"no number":          {saying(strings.Replace(plainStats, "pid 7", "pid seven", 1) + plainSettings), `found pid "seven", expected a number`},
		"negative":           {saying(strings.Replace(plainStats, "uptime 5", "uptime -5", 1) + plainSettings), `found uptime "-5"`},
		"too large":          {saying(strings.Replace(plainStats, "STAT time", "STAT evictions 99999999999999999999\r\nSTAT time", 1) + plainSettings), `found evictions "99999999999999999999"`},
		"close at once":      {hangingUp(""), "found a connection that it closed"},
		"close in a line":    {hangingUp("STAT pi"), "found a connection that it closed"},
		"close between":      {hangingUp(plainStats), "reply to stats settings"},
	} {
		t.Run(name, func(t *testing.T) {
			address := speaker(t, test.send)
			watch := watchOf(t, open(t,
				memcached.Options{Servers: []string{address}, Timeout: time.Minute}))
			watch.Look(t.Context())
			h := watch.Servers()[0]
			if h.State != memcached.StateUnreachable || !strings.Contains(h.Error, test.want) ||
				!strings.HasPrefix(h.Error, "memcached "+address+": ") {
				t.Errorf("%s: %s\nwant %s", h.State, h.Error, test.want)
			}
			if strings.ContainsFunc(h.Error, unicode.IsControl) {
				t.Errorf("control characters in %q", h.Error)
			}
			if err := watch.Check(); err == nil {
				t.Error("Check of unknown settings: got nil, want an error")
			}
		})
	}
}

// TestSlowServers checks that the timeout ends servers that send slowly.
func TestSlowServers(t *testing.T) {
	trickle := func(conn net.Conn) {
		for {
			if _, err := conn.Write([]byte("S")); err != nil {
				return
			}
			time.Sleep(time.Millisecond)
		}
	}
	for name, send := range map[string]func(net.Conn){
		"nothing": saying(""), "half": saying(plainStats), "a byte now and then": trickle,
	} {
		t.Run(name, func(t *testing.T) {
			watch := watchOf(t, open(t,
				memcached.Options{Servers: []string{speaker(t, send)}, Timeout: short}))
			watch.Look(t.Context())
			if h := watch.Servers()[0]; h.State != memcached.StateUnreachable ||
				!strings.Contains(h.Error, context.DeadlineExceeded.Error()) {
				t.Errorf("got %s, %s, want unreachable because of the deadline", h.State, h.Error)
			}
			if err := watch.Check(); err != nil {
				t.Errorf("check: %v", err)
			}
		})
	}
}

// TestServerTextIsEscaped checks a server that sends escape sequences.
func TestServerTextIsEscaped(t *testing.T) {
	stats := strings.Replace(plainStats, "1.6.18",
		"1.6.18\x1b[2J\xff\u202e"+strings.Repeat("x", 1000), 1)
	watch := watchOf(t,
		open(t, memcached.Options{Servers: []string{speaker(t, saying(stats+plainSettings))},
			Timeout: time.Minute}))
	watch.Look(t.Context())
	h := watch.Servers()[0]
	if !strings.HasPrefix(h.Version, "1.6.18 [2J? xxx") || len(h.Version) > 200 {
		t.Errorf("version %q (%s)", h.Version, h.Error)
	}
}

// TestAnswersToAPassword uses answers that memcached never gives.
func TestAnswersToAPassword(t *testing.T) {
	for name, test := range map[string]struct {
		send func(net.Conn)
		want string
	}{
		"endless line": {endlessly("STORED"), "its reply to authentication is not memcached's: found a line of more than 512 bytes"},
		"error":        {saying("ERROR\r\n"), "found ERROR"},
		"no end":       {saying("STORED\n"), "found STORED"},
		"close":        {hangingUp(""), "found a connection that it closed"},
	} {
		t.Run(name, func(t *testing.T) {
			b := open(t, memcached.Options{Servers: []string{speaker(t, test.send)},
				Timeout: time.Minute, User: user, Password: password})
			err := b.Ping(t.Context())
			var reply *memcached.ReplyError
			var dial *memcached.DialError
			if !errors.As(err, &reply) || !errors.As(err, &dial) ||
				!strings.Contains(err.Error(), test.want) {
				t.Errorf("ping: %v", err)
			}
			refused(t, b, test.want)
		})
	}
}

func FuzzReply(f *testing.F) {
	for _, seed := range []string{plainStats + plainSettings, "END\r\n",
		"STAT a\r\nSTAT  \r\nSTAT\r\n", "STAT pid 7", strings.Repeat("STAT x y\r\n", 10_000)} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, said []byte) {
		speedtest.Within10ms(t, "parsing", func() { _, _ = memcached.Parse(bytes.NewReader(said)) })
		h, err := memcached.Parse(bytes.NewReader(said))
		if err != nil {
			return
		}
		if h.Version == "" || h.Usage.Items < 0 || len(h.Settings) == 0 ||
			strings.ContainsFunc(h.Version, unicode.IsControl) {
			t.Errorf("%q was taken as %+v", said, h)
		}
	})
}
