package cli

import (
	"errors"
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
	parts    chan string // of what was written; closed after terminal
	read     strings.Builder
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
	s := &screen{terminal: terminal, parts: make(chan string, 1000)}
	go func() {
		defer close(s.parts)
		for buffer := make([]byte, 4096); ; {
			n, err := master.Read(buffer)
			s.parts <- strings.ReplaceAll(string(buffer[:n]), "\r\n", "\n")
			if err != nil {
				return // terminal is closed
			}
		}
	}()
	return s
}

// await waits until the text was written.
func (s *screen) await(t *testing.T, text string) {
	t.Helper()
	for !strings.Contains(s.read.String(), text) {
		part, more := <-s.parts
		if !more {
			t.Fatalf("got %q, want %q", s.read.String(), text)
		}
		s.read.WriteString(part)
	}
}

// text closes the terminal and returns what was written to it.
func (s *screen) text(t *testing.T) string {
	t.Helper()
	if err := s.terminal.Close(); err != nil && !errors.Is(err, os.ErrClosed) {
		t.Fatal(err)
	}
	for part := range s.parts {
		s.read.WriteString(part)
	}
	return s.read.String()
}

// performOn runs a command line whose output or notes go to a terminal.
func performOn(t *testing.T, out, errOut io.Writer, args ...string) error {
	t.Helper()
	c := &commandLine{out: out, getenv: func(string) string { return "" }}
	return c.execute(t.Context(), args, errOut)
}
