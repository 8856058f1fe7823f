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

// If limits retries to failures of which worth says that another try may
// succeed; Do returns any other error as it is.
func If(worth func(error) bool) Option { return func(s *settings) { s.worth = worth } }

// OnFailure makes Do call hook after each failure that another try may follow
// or that exhausts the policy. If hook returns an error, there is no further try.
func OnFailure(hook func(Failure) error) Option { return func(s *settings) { s.onFailure = hook } }

// WithSource draws the jitter from source, which nothing else may use
// meanwhile: tests repeat with it. By default it is the process's own.
func WithSource(source rand.Source) Option { return func(s *settings) { s.source = source } }

func gather(options []Option) settings {
	var s settings
	for _, option := range options {
		option(&s)
	}
	return s
}
