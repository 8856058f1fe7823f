package retry

import "math/rand/v2"

// settings is what options set.
type settings struct {
	worth     func(error) bool
	onFailure func(Failure) error
	source    rand.Source
}

// Option adjusts Do or Start.
type Option func(*settings)

// If is an option of Do: it retries only after errors for which worth returns true, and returns any
// other error unchanged.
func If(worth func(error) bool) Option { return func(s *settings) { s.worth = worth } }

// OnFailure makes Do call hook after each failure, except one for which If says not to retry. If
// hook returns an error, there is no further try.
func OnFailure(hook func(Failure) error) Option { return func(s *settings) { s.onFailure = hook } }

// WithSource draws the jitter from source, so that a test can repeat it. Nothing
// else may use source at the same time. The default is the source of the process.
func WithSource(source rand.Source) Option { return func(s *settings) { s.source = source } }

func gather(options []Option) settings {
	var s settings
	for _, option := range options {
		option(&s)
	}
	return s
}
