package app

import (
	"io"
	"os"
	"sync/atomic"
	"time"

	"github.com/rs/zerolog"
	"golang.org/x/term"

	"github.com/holdfast-dev/holdfast/configs"
)

// NewLog returns the configured logger, its writer, and its level, which can change. It writes JSON
// lines, or colored text if the format is "console" or out is a terminal.
func NewLog(config configs.Log, out *os.File) (zerolog.Logger, io.Writer, *logLevel) {
	var writer io.Writer = zerolog.SyncWriter(out)
	if config.Format == "console" || config.Format == "auto" && term.IsTerminal(int(out.Fd())) {
		writer = zerolog.SyncWriter(newConsole(out))
	}
	level := &logLevel{}
	level.set(config.Level)
	log := zerolog.New(writer).Level(zerolog.TraceLevel).Sample(level).Hook(level, timestamp{})
	return log, writer, level
}

// logLevel leaves out events below a level. As a sampler it does so before their fields are
// encoded. It is also a hook, because a handler may set another sampler. The level can change at
// run time. That of a zerolog.Logger cannot: each derived logger has a copy.
type logLevel struct{ least atomic.Int32 }

// set changes the level. Name is a name from the configuration.
func (l *logLevel) set(name string) {
	level, err := zerolog.ParseLevel(name)
	if err != nil {
		level = zerolog.InfoLevel // a checked configuration has a known level
	}
	l.least.Store(int32(level))
}

// Sample implements zerolog.Sampler.
func (l *logLevel) Sample(level zerolog.Level) bool { return int32(level) >= l.least.Load() }

// Run implements zerolog.Hook.
func (l *logLevel) Run(e *zerolog.Event, level zerolog.Level, _ string) {
	if !l.Sample(level) {
		e.Discard()
	}
}

// timestamp is a hook that adds the time to each line, in UTC and with milliseconds.
type timestamp struct{}

// Run implements zerolog.Hook.
func (timestamp) Run(e *zerolog.Event, _ zerolog.Level, _ string) {
	e.Str(zerolog.TimestampFieldName, time.Now().UTC().Format("2006-01-02T15:04:05.000Z07:00"))
}
