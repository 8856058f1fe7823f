package crontab

import (
	"bufio"
	"fmt"
	"io"
	"regexp"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/holdfast-dev/holdfast/jobs/schedule"
)

// maxLine is the size of the longest line in bytes. Cron has a limit of 1,000 for the command.
const maxLine = 64 << 10

// Options say how to read a crontab.
type Options struct {
	// System reads the format of /etc/crontab, which has a user before each command.
	System bool
	// Timezone is the zone of lines before the first CRON_TZ. "": that of Holdfast's configuration.
	Timezone string
}

// Entry is one line that fires a command.
type Entry struct {
	Line     int // counts from 1
	Name     string
	Schedule string
	Timezone string            // "" if neither the crontab nor the options name one
	Command  []string          // a shell with the command as cron would run it
	Env      map[string]string // variables that the crontab sets
	Dir      string            // HOME, if the crontab sets it
	User     string            // in the system format
	Comment  string            // of the lines directly above
}

// Warning says what is different with Holdfast, or why a line has no job.
type Warning struct {
	Line int // 0: about the whole crontab
	Text string
}

// String returns the warning with its line.
func (w Warning) String() string {
	if w.Line == 0 {
		return w.Text
	}
	return fmt.Sprintf("line %d: %s", w.Line, w.Text)
}

// Skipped is a line without a job.
type Skipped struct {
	Line int
	Text string
}

// Table is a crontab that was read.
type Table struct {
	Entries  []Entry
	Skipped  []Skipped
	Warnings []Warning
}

// reader has the state between lines.
type reader struct {
	options Options
	table   Table
	env     map[string]string
	zone    string
	comment []string
	names   map[string]bool
	warned  map[string]bool // warnings that are given once
}

var (
	setting = regexp.MustCompile(`^("[^"]*"|'[^']*'|[A-Za-z_]\w*)\s*=\s*(.*)$`)
	entry   = regexp.MustCompile(`^(@\S+|(?:\S+\s+){4}\S+)\s+(.*)$`)
	owned   = regexp.MustCompile(`^(\S+)\s+(.*)$`)
)

// Read reads a crontab. It returns an error only if it can't read from in.
func Read(in io.Reader, options Options) (Table, error) {
	r := &reader{options: options, env: map[string]string{}, zone: options.Timezone,
		names: map[string]bool{}, warned: map[string]bool{}}
	lines := bufio.NewScanner(in)
	lines.Buffer(nil, maxLine)
	n := 0
	for lines.Scan() {
		n++
		r.line(n, strings.TrimRight(strings.TrimLeft(lines.Text(), " \t"), "\r"))
	}
	if err := lines.Err(); err != nil {
		return r.table, fmt.Errorf("line %d: %w", n+1, err)
	}
	return r.table, nil
}

func (r *reader) line(n int, text string) {
	switch {
	case !utf8.ValidString(text) || strings.Contains(text, "\x00"):
		r.comment = nil
		r.skip(n, strconv.QuoteToASCII(text), "the line is not UTF-8 text, or has a NUL character")
	case text == "":
		r.comment = nil
	case text[0] == '#':
		r.comment = append(r.comment, strings.TrimSpace(strings.TrimLeft(text, "#")))
	default:
		comment := strings.Join(r.comment, " ")
		r.comment = nil
		if m := setting.FindStringSubmatch(text); m != nil {
			r.set(n, unquote(m[1]), unquote(strings.TrimRight(m[2], " \t")))
			return
		}
		if err := r.add(n, text, comment); err != nil {
			r.skip(n, text, err.Error())
		}
	}
}

func (r *reader) skip(n int, text, why string) {
	r.table.Skipped = append(r.table.Skipped, Skipped{n, text})
	r.warn(n, why+"; the line is a comment in the output")
}

func unquote(text string) string {
	if len(text) >= 2 && (text[0] == '"' || text[0] == '\'') && text[len(text)-1] == text[0] {
		return text[1 : len(text)-1]
	}
	return text
}

// set applies a line NAME=VALUE to the lines below it.
func (r *reader) set(n int, name, value string) {
	switch name {
	case "MAILTO", "MAILFROM", "CONTENT_TYPE", "CONTENT_TRANSFER_ENCODING":
		r.once(n, "mail", "Holdfast sends no mails: output is stored with the run, and webhooks "+
			"report failures")
	case "CRON_TZ":
		if _, err := time.LoadLocation(value); err != nil {
			r.warn(n, fmt.Sprintf("the time zone %q is unknown, so the lines below have none",
				value))
			value = ""
		}
		r.zone = value
	case "RANDOM_DELAY":
		r.warn(n, "RANDOM_DELAY is ignored: set jitter for the jobs")
	default:
		r.env[name] = value
	}
}

// add adds the entry of a line.
func (r *reader) add(n int, text, comment string) error {
	m := entry.FindStringSubmatch(text)
	if m == nil {
		return fmt.Errorf("found %.80q, expected a schedule and a command", text)
	}
	e := Entry{Line: n, Timezone: r.zone, Comment: comment, Env: map[string]string{}}
	var err error
	if e.Schedule, err = scheduleOf(m[1]); err != nil {
		return err
	}
	command := m[2]
	if r.options.System {
		user := owned.FindStringSubmatch(command)
		if user == nil {
			return fmt.Errorf("found %.80q, expected a user and a command", command)
		}
		e.User, command = user[1], user[2]
		r.once(n, "user", "Holdfast runs commands as the user of the scheduler, not as "+e.User)
	}
	shell := "/bin/sh"
	for name, value := range r.env {
		switch name {
		case "SHELL":
			shell = value
		case "HOME":
			e.Dir, e.Env[name] = value, value
		case "LOGNAME", "USER":
		default:
			e.Env[name] = value
		}
	}
	script, first := scriptOf(command)
	e.Command = []string{shell, "-c", script}
	if e.Dir == "" {
		r.once(n, "home", "cron starts commands in the home directory: set params.dir, if they "+
			"depend on it")
	}
	if strings.Contains(first, "flock ") {
		r.warn(n, "flock excludes runs on one machine: consider tables or resources instead")
	}
	e.Name = r.name(first, n)
	r.table.Entries = append(r.table.Entries, e)
	return nil
}

// scheduleOf returns the schedule if Holdfast knows it. Fields are separated by one blank.
func scheduleOf(text string) (string, error) {
	text = strings.Join(strings.Fields(text), " ")
	if text == "@reboot" {
		return "", fmt.Errorf("@reboot has no scheduled times: use your service manager")
	}
	if _, err := schedule.ParseText(text, time.UTC); err != nil {
		return "", fmt.Errorf("schedule %q: %w", text, err)
	}
	return text, nil
}

// scriptOf returns the script that a shell runs for a command, and the command without its input.
// In a crontab, an unescaped % ends the command. What follows is its input, in which each further
// unescaped % is a line break.
func scriptOf(command string) (script, first string) {
	parts := []string{""}
	for i := 0; i < len(command); i++ {
		switch {
		case command[i] == '\\' && i+1 < len(command) && command[i+1] == '%':
			i++
			parts[len(parts)-1] += "%"
		case command[i] == '%':
			parts = append(parts, "")
		default:
			parts[len(parts)-1] += command[i : i+1]
		}
	}
	first = strings.TrimSpace(parts[0])
	if len(parts) == 1 {
		return first, first
	}
	end := "END"
	for strings.Contains("\n"+strings.Join(parts[1:], "\n")+"\n", "\n"+end+"\n") {
		end += "_"
	}
	return "{ " + first + "\n} <<'" + end + "'\n" + strings.Join(parts[1:], "\n") + "\n" + end +
		"\n", first
}

func (r *reader) warn(line int, text string) {
	r.table.Warnings = append(r.table.Warnings, Warning{line, text})
}

// once gives a warning for the first of several lines.
func (r *reader) once(line int, key, text string) {
	if !r.warned[key] {
		r.warned[key] = true
		r.warn(line, text)
	}
}
