package param

import "fmt"

// Error is an invalid parameter or body. Its text names it and the valid values.
type Error struct{ Text string }

// Errorf returns an Error with a formatted text.
func Errorf(format string, args ...any) *Error {
	return &Error{fmt.Sprintf(format, args...)}
}

// Error returns the text.
func (e *Error) Error() string { return e.Text }
