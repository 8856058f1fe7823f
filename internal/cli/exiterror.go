package cli

// ExitError is an error with an exit code of its own.
type ExitError struct {
	Code int
	Err  error // nil: the output says it all
	// Formatted is the error in the format of the output, such as JSON; "": it is text. The caller
	// prints it as it is, without the name of the program.
	Formatted string
}

// Error returns the text of the cause, or "".
func (e *ExitError) Error() string {
	if e.Err == nil {
		return ""
	}
	return e.Err.Error()
}

// Unwrap returns the cause.
func (e *ExitError) Unwrap() error { return e.Err }
