package cli

import (
	"io"
	"os"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// screen is a pseudoterminal, and what was written to it.
type screen struct {
	terminal *os.File
	written  chan string // gets all of it when terminal is closed
}

// openScreen returns a terminal with so many columns.
func openScreen(t *testing.T, columns uint16) *screen {
	t.Helper()
	master, err := os.OpenFile("/dev/ptmx", os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = master.Close() })
	fd := int(master.Fd())
	number, err := unix.IoctlGetInt(fd, unix.TIOCGPTN)
	if err != nil {
		t.Fatal(err)
	}
	if err := unix.IoctlSetPointerInt(fd, unix.TIOCSPTLCK, 0); err != nil {
		t.Fatal(err)
	}
	if err := unix.IoctlSetWinsize(fd, unix.TIOCSWINSZ,
		&unix.Winsize{Row: 24, Col: columns}); err != nil {
		t.Fatal(err)
	}
	terminal, err := os.OpenFile("/dev/pts/"+strconv.Itoa(number), os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = terminal.Close() })
	s := &screen{terminal, make(chan string, 1)}
	go func() {
		text, _ := io.ReadAll(master) // ends with an error when terminal is closed
		s.written <- strings.ReplaceAll(string(text), "\r\n", "\n")
	}()
	return s
}

// text closes the terminal and returns what was written to it.
func (s *screen) text(t *testing.T) string {
	t.Helper()
	if err := s.terminal.Close(); err != nil {
		t.Fatal(err)
	}
	return <-s.written
}

// performOn runs a command line whose output or notes go to a terminal.
func performOn(t *testing.T, out, errOut io.Writer, args ...string) error {
	t.Helper()
	c := &commandLine{out: out, getenv: func(string) string { return "" }}
	return c.execute(t.Context(), args, errOut)
}
