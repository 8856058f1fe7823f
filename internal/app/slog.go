package app

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"time"

	"github.com/rs/zerolog"
)

// SlogWriter passes the lines of zerolog on to a slog.Logger. It may be used concurrently.
type SlogWriter struct{ handler slog.Handler }

// NewSlogWriter returns a writer that passes lines on to log.
func NewSlogWriter(log *slog.Logger) *SlogWriter { return &SlogWriter{log.Handler()} }

// Logger returns a logger that writes to w the levels that its handler has enabled.
func (w *SlogWriter) Logger() zerolog.Logger {
	levels := enabledLevels{w.handler}
	return zerolog.New(w).Level(zerolog.TraceLevel).Sample(levels).Hook(levels)
}

// enabledLevels leaves out events of levels that a handler would discard. It is a sampler and a
// hook, as logLevel is.
type enabledLevels struct{ handler slog.Handler }

// Sample implements zerolog.Sampler.
func (l enabledLevels) Sample(level zerolog.Level) bool {
	return l.handler.Enabled(context.Background(), slogLevel(level))
}

// Run implements zerolog.Hook.
func (l enabledLevels) Run(e *zerolog.Event, level zerolog.Level, _ string) {
	if !l.Sample(level) {
		e.Discard()
	}
}

func slogLevel(level zerolog.Level) slog.Level {
	switch level {
	case zerolog.TraceLevel:
		return slog.LevelDebug - 4
	case zerolog.DebugLevel:
		return slog.LevelDebug
	case zerolog.WarnLevel:
		return slog.LevelWarn
	case zerolog.ErrorLevel, zerolog.FatalLevel, zerolog.PanicLevel:
		return slog.LevelError
	default:
		return slog.LevelInfo
	}
}

// Write implements io.Writer.
func (w *SlogWriter) Write(line []byte) (int, error) {
	return w.WriteLevel(zerolog.InfoLevel, line)
}

// WriteLevel implements zerolog.LevelWriter. The record has the keys of the line in their order,
// and the time and the message of the line.
func (w *SlogWriter) WriteLevel(level zerolog.Level, line []byte) (int, error) {
	record := slog.NewRecord(time.Now(), slogLevel(level), "", 0)
	decoder := json.NewDecoder(bytes.NewReader(line))
	decoder.UseNumber()
	if _, err := decoder.Token(); err != nil {
		return 0, fmt.Errorf("read a line of the log: %w", err)
	}
	for decoder.More() {
		key, err := decoder.Token()
		if err != nil {
			return 0, fmt.Errorf("read a line of the log: %w", err)
		}
		var value any
		if err := decoder.Decode(&value); err != nil {
			return 0, fmt.Errorf("read a line of the log: %w", err)
		}
		switch text, isText := value.(string); {
		case key == zerolog.LevelFieldName && isText:
			if level, err := zerolog.ParseLevel(text); err == nil {
				record.Level = slogLevel(level)
			}
		case key == zerolog.MessageFieldName && isText:
			record.Message = text
		case key == zerolog.TimestampFieldName && isText:
			if at, err := time.Parse(time.RFC3339Nano, text); err == nil {
				record.Time = at
			}
		default:
			record.AddAttrs(attr(fmt.Sprint(key), value))
		}
	}
	if err := w.handler.Handle(context.Background(), record); err != nil {
		return 0, fmt.Errorf("log: %w", err)
	}
	return len(line), nil
}

// durations are the keys of lines whose numbers are durations, in the unit of zerolog.
// TestDurations compares them with the code.
const durations = "again_in grace late offset takes took"

// attr returns the attribute of a value in a line. A duration has a unit.
func attr(key string, value any) slog.Attr {
	number, ok := value.(json.Number)
	if ok && slices.Contains(strings.Fields(durations), key) {
		if units, err := number.Float64(); err == nil {
			took := units * float64(zerolog.DurationFieldUnit)
			return slog.Duration(key, time.Duration(took))
		}
	}
	return slog.Any(key, plain(value))
}

// plain returns a number as int64 or float64, other values as they are.
func plain(value any) any {
	number, ok := value.(json.Number)
	if !ok {
		return value
	}
	if whole, err := number.Int64(); err == nil {
		return whole
	}
	if fraction, err := number.Float64(); err == nil {
		return fraction
	}
	return number.String()
}
