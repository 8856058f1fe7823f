package holdfast

import (
	"io"
	"os"
	"time"

	"github.com/rs/zerolog"
	"golang.org/x/term"

	"github.com/holdfast-dev/holdfast/configs"
)

// newLog returns a logger by the configuration, and where it writes: JSON
// lines, or text for people where out is a terminal.
func newLog(config configs.Log, out *os.File) (zerolog.Logger, io.Writer) {
	var writer io.Writer = zerolog.SyncWriter(out)
	if config.Format == "console" || config.Format == "auto" && term.IsTerminal(int(out.Fd())) {
		writer = zerolog.SyncWriter(zerolog.ConsoleWriter{Out: out, TimeFormat: "15:04:05.000", NoColor: !term.IsTerminal(int(out.Fd()))})
	}
	level, err := zerolog.ParseLevel(config.Level)
	if err != nil {
		level = zerolog.InfoLevel // a checked configuration has a known level
	}
	return zerolog.New(writer).Level(level).Hook(timestamp{}), writer
}

// timestamp puts the time, in UTC and to the millisecond, on each line.
type timestamp struct{}

// Run adds the time.
func (timestamp) Run(e *zerolog.Event, _ zerolog.Level, _ string) {
	e.Str(zerolog.TimestampFieldName, time.Now().UTC().Format("2006-01-02T15:04:05.000Z07:00"))
}
