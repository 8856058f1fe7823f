package servertest

import (
	"fmt"
	"math/rand/v2"
	"net"
	"strconv"
	"sync/atomic"
)

const loopback = "127.0.0.1"

const (
	lowestPort = 15_000
	portCount  = 17_000
)

// Before a chosen port has its listener, another caller could choose it too. So the callers of a
// process get consecutive ports, and each process begins at a random one.
var (
	firstPort = rand.IntN(portCount)
	chosen    atomic.Int64
)

// freePort returns a port without a listener, and a different one in each call. It is below the
// range of ports for outgoing connections, so that a restarted server still finds its port free.
func freePort() (int, error) {
	var last error
	for range 100 {
		port := lowestPort + (firstPort+int(chosen.Add(1)))%portCount
		listener, err := net.Listen("tcp", address(port))
		if err != nil {
			last = err
			continue
		}
		return port, listener.Close()
	}
	return 0, fmt.Errorf("looking for a free port: %w", last)
}

// FreeAddress returns a loopback address, host:port, without a listener and outside the range of
// ports for outgoing connections. Another program may still take it first.
func FreeAddress() (string, error) {
	port, err := freePort()
	return address(port), err
}

func address(port int) string { return net.JoinHostPort(loopback, strconv.Itoa(port)) }
