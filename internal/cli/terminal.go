package cli

import (
	"io"
	"os"

	"golang.org/x/term"
)

// isTerminal reports whether people read out, on a terminal that can move its cursor.
func (c *commandLine) isTerminal(out io.Writer) bool {
	file, isFile := out.(*os.File)
	return isFile && term.IsTerminal(int(file.Fd())) && c.getenv("TERM") != "dumb"
}

// terminalWidth returns the number of columns of a terminal; 0 if out is none, or if its size is
// not known.
func terminalWidth(out io.Writer) int {
	file, isFile := out.(*os.File)
	if !isFile || !term.IsTerminal(int(file.Fd())) {
		return 0
	}
	width, _, err := term.GetSize(int(file.Fd()))
	if err != nil {
		return 0
	}
	return width
}
