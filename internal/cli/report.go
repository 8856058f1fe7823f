package cli

import (
	"errors"
	"fmt"
	"io"

	"github.com/holdfast-dev/holdfast/internal/ansi"
)

// Report writes an error of Execute to out and returns the exit code. A text cannot send escape
// sequences to the terminal, because errors quote servers, files and arguments.
func Report(err error, out io.Writer) (code int) {
	if err == nil {
		return 0
	}
	code = 1
	var own *ExitError
	if errors.As(err, &own) {
		code = own.Code
	}
	switch text := err.Error(); {
	case own != nil && own.Formatted != "":
		fmt.Fprintln(out, own.Formatted)
	case text != "":
		fmt.Fprintln(out, "scheduler:", ansi.Plain(text))
	}
	return code
}
