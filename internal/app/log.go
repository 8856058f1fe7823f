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

// NewLog returns a logger by the configuration, where it writes, and its level:
// JSON lines, or text for people where out is a terminal.
func NewLog(config configs.Log, out *os.File) (zerolog.Logger, io.Writer, *logLevel) {
	var writer io.Writer = zerolog.SyncWriter(out)
	if config.Format == "console" || config.Format == "auto" && term.IsTerminal(int(out.Fd())) {
		writer = zerolog.SyncWriter(zerolog.ConsoleWriter{Out: out, TimeFormat: "15:04:05.000",
			NoColor: !term.IsTerminal(int(out.Fd()))})
	}
	level := &logLevel{}
	level.set(config.Level)
	return zerolog.New(writer).Level(zerolog.TraceLevel).Hook(level, timestamp{}), writer, level
}

// logLevel drops events below a level that can change: that of a Logger is
// copied to all that come of it.
type logLevel struct{ least atomic.Int32 }

// set takes a level by its name in the configuration.
func (l *logLevel) set(name string) {
	level, err := zerolog.ParseLevel(name)
	if err != nil {
		level = zerolog.InfoLevel // a checked configuration has a known level
	}
	l.least.Store(int32(level))
}

// Run implements zerolog.Hook.
func (l *logLevel) Run(e *zerolog.Event, level zerolog.Level, _ string) {
	if int32(level) < l.least.Load() {
		e.Discard()
	}
}

// timestamp puts the time, in UTC and to the millisecond, on each line.
type timestamp struct{}

// Run adds the time.
func (timestamp) Run(e *zerolog.Event, _ zerolog.Level, _ string) {
	e.Str(zerolog.TimestampFieldName, time.Now().UTC().Format("2006-01-02T15:04:05.000Z07:00"))
}
