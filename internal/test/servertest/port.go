package servertest

import (
	"fmt"
	"math/rand/v2"
	"net"
	"strconv"
)

const loopback = "127.0.0.1"

// freePort returns a port without a listener. It is below the range of ports for outgoing
// connections, so that a restarted server still finds its port free.
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

// FreeAddress returns a loopback address, host:port, without a listener and outside the range of
// ports for outgoing connections. Another program may still take it first.
func FreeAddress() (string, error) {
	port, err := freePort()
	return address(port), err
}

func address(port int) string { return net.JoinHostPort(loopback, strconv.Itoa(port)) }
