package crontab

import (
	"bufio"
	"cmp"
	"fmt"
	"io"
	"regexp"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/holdfast-dev/holdfast/internal/zone"
	"github.com/holdfast-dev/holdfast/jobs/schedule"
)

const (
	// maxLine is the size of the longest line in bytes. Cron has a limit of 1,000 for the command.
	maxLine = 64 << 10
	// maxFile is the size of the largest crontab in bytes.
	maxFile = 1 << 20
	// maxVariables bounds the variables of an entry.
	maxVariables = 32
)

var errLarge = fmt.Errorf("the crontab has more than %d bytes", maxFile)

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
	Env      map[string]string // variables that the crontab sets; several entries may share it
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
	shared  map[string]string // those that entries get; nil after a change of env
	zone    string
	comment []string
	names   map[string]int  // by name: 0, or the last number that was tried after it
	warned  map[string]bool // warnings that are given once
}

var (
	setting = regexp.MustCompile(`^("[^"]*"|'[^']*'|[A-Za-z_]\w*)\s*=\s*(.*)$`)
	entry   = regexp.MustCompile(`^(@\S+|(?:\S+\s+){4}\S+)\s+(.*)$`)
	owned   = regexp.MustCompile(`^(\S+)\s+(.*)$`)
)

// Read reads a crontab of at most 1 MiB. It returns an error only if the crontab is larger, has a
// line of more than 64 KiB, or can't be read.
func Read(in io.Reader, options Options) (Table, error) {
	r := &reader{options: options, env: map[string]string{}, zone: options.Timezone,
		names: map[string]int{}, warned: map[string]bool{}}
	all := &io.LimitedReader{R: in, N: maxFile + 1}
	lines := bufio.NewScanner(all)
	lines.Buffer(nil, maxLine)
	n := 0
	for lines.Scan() {
		if n++; all.N == 0 {
			return r.table, errLarge
		}
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
		if _, err := zone.Load(value); err != nil {
			r.warn(n, fmt.Sprintf("the time zone %q is unknown, so the lines below have none",
				value))
			value = ""
		}
		r.zone = value
	case "RANDOM_DELAY":
		r.warn(n, "RANDOM_DELAY is ignored: set jitter for the jobs")
	default:
		if _, known := r.env[name]; !known && len(r.env) == maxVariables {
			r.once(n, "variables", fmt.Sprintf("there are more than %d variables: this one and "+
				"further ones are left out", maxVariables))
			return
		}
		r.env[name], r.shared = value, nil
	}
}

// add adds the entry of a line.
func (r *reader) add(n int, text, comment string) error {
	m := entry.FindStringSubmatch(text)
	if m == nil {
		return fmt.Errorf("found %.80q, expected a schedule and a command", text)
	}
	e := Entry{Line: n, Timezone: r.zone, Comment: comment}
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
		r.once(n, "user", "Holdfast runs commands as the user of the scheduler, not as "+
			strconv.Quote(e.User))
	}
	if e.Timezone == "" {
		r.once(n, "zone", "cron uses the time zone of its machine, and Holdfast that of the "+
			"configuration, by default UTC: name the zone with --timezone")
	}
	shell := r.applyVariables(&e)
	script, first := scriptOf(command)
	e.Command = []string{shell, "-c", script}
	if script != first {
		r.once(n, "percent", "% ends a command in cron, and begins its input: the job gives that "+
			"input to the command")
	}
	if _, set := r.env["PATH"]; !set {
		r.once(n, "path", "cron searches commands in /usr/bin and /bin, and Holdfast in the PATH "+
			"of the replica: set params.env.PATH if they differ")
	}
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

// applyVariables sets what the variables above an entry say, and returns its shell. Entries share
// the map of variables.
func (r *reader) applyVariables(e *Entry) (shell string) {
	if r.shared == nil {
		r.shared = make(map[string]string)
		for name, value := range r.env {
			switch name {
			case "SHELL", "LOGNAME", "USER":
			default:
				r.shared[name] = value
			}
		}
	}
	e.Env, e.Dir = r.shared, r.env["HOME"]
	return cmp.Or(r.env["SHELL"], "/bin/sh")
}

// scheduleOf returns the schedule if Holdfast knows it. Fields are separated by one blank.
func scheduleOf(text string) (string, error) {
	text = strings.Join(strings.Fields(text), " ")
	if text == "@reboot" {
		return "", fmt.Errorf("@reboot has no scheduled times: use your service manager")
	}
	if _, err := schedule.ParseText(text, time.UTC); err != nil {
		return "", err
	}
	return text, nil
}

// scriptOf returns the script that a shell runs for a command, and the command without its input.
// In a crontab, an unescaped % ends the command. What follows is its input, in which each further
// unescaped % is a line break.
func scriptOf(command string) (script, first string) {
	var parts []string
	var part strings.Builder
	for i := 0; i < len(command); i++ {
		switch {
		case command[i] == '\\' && i+1 < len(command) && command[i+1] == '%':
			i++
			part.WriteByte('%')
		case command[i] == '%':
			parts = append(parts, part.String())
			part.Reset()
		default:
			part.WriteByte(command[i])
		}
	}
	parts = append(parts, part.String())
	first = strings.TrimSpace(parts[0])
	if len(parts) == 1 {
		return first, first
	}
	end := endOf(parts[1:])
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

// endOf returns a line that ends the input of a command: END with as many underscores as no line of
// the input has.
func endOf(input []string) string {
	used := make(map[int]bool)
	for _, line := range input {
		if more, found := strings.CutPrefix(line, "END"); found && strings.Trim(more, "_") == "" {
			used[len(more)] = true
		}
	}
	n := 0
	for used[n] {
		n++
	}
	return "END" + strings.Repeat("_", n)
}
