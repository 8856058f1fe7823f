package servertest

import (
	"fmt"
	"math/rand/v2"
	"net"
	"strconv"
)

const loopback = "127.0.0.1"

// freePort returns a port that nobody listens on. It keeps below the range
// from which the kernel draws the ports of outgoing connections, so that a
// server that restarts finds its own port still free.
func freePort() (int, error) {
	var last error
	for range 100 {
		port := 15000 + rand.IntN(17000)
		listener, err := net.Listen("tcp", address(port))
		if err != nil {
			last = err
			continue
		}
		return port, listener.Close()
	}
	return 0, fmt.Errorf("looking for a free port: %w", last)
}

// FreeAddress returns a loopback address, host:port, that nobody listens on and
// that no outgoing connection is given: another program may still be faster.
func FreeAddress() (string, error) {
	port, err := freePort()
	return address(port), err
}

func address(port int) string { return net.JoinHostPort(loopback, strconv.Itoa(port)) }
