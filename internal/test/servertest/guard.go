package servertest

import (
	"bufio"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"strconv"
	"strings"
	"time"
)

// Guard is what a memcached requires from its clients.
type Guard struct {
	TLS            *tls.Config // of a client; nil means no TLS
	User, Password string      // "" means none
}

// askPID returns the process id that the memcached at addr reports.
func (g Guard) askPID(ctx context.Context, addr string) (int, error) {
	conn, err := g.dial(ctx, addr)
	if err != nil {
		return 0, err
	}
	defer conn.Close()
	if err := conn.SetDeadline(time.Now().Add(time.Second)); err != nil {
		return 0, err
	}
	request := "stats\r\nquit\r\n"
	if g.User != "" {
		request = fmt.Sprintf("set auth 0 -1 %d\r\n%s %s\r\n", len(g.User)+1+len(g.Password),
			g.User, g.Password) + request
	}
	if _, err := fmt.Fprint(conn, request); err != nil {
		return 0, err
	}
	lines := bufio.NewScanner(conn)
	for lines.Scan() {
		if text, ok := strings.CutPrefix(lines.Text(), "STAT pid "); ok {
			return strconv.Atoi(text)
		}
	}
	return 0, errors.Join(errors.New("no process id in the answer"), lines.Err())
}

func (g Guard) dial(ctx context.Context, addr string) (net.Conn, error) {
	if g.TLS != nil {
		return (&tls.Dialer{Config: g.TLS}).DialContext(ctx, "tcp", addr)
	}
	var dialer net.Dialer
	return dialer.DialContext(ctx, "tcp", addr)
}
