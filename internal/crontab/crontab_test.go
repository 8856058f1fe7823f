package crontab

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
	_ "time/tzdata" // the crontabs name zones

	"github.com/google/go-cmp/cmp"
	"github.com/rs/zerolog"

	"github.com/holdfast-dev/holdfast/configs"
	"github.com/holdfast-dev/holdfast/internal/runes"
	"github.com/holdfast-dev/holdfast/internal/test/soak"
	"github.com/holdfast-dev/holdfast/internal/test/speedtest"
	"github.com/holdfast-dev/holdfast/jobs"
	"github.com/holdfast-dev/holdfast/jobs/handlers"
)

func read(t *testing.T, text string, options Options) Table {
	t.Helper()
	table, err := Read(strings.NewReader(text), options)
	if err != nil {
		t.Fatal(err)
	}
	return table
}

func written(t *testing.T, table Table) string {
	t.Helper()
	var b strings.Builder
	if err := table.Write(&b); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

// config parses the output as a configuration.
func config(t *testing.T, text string) *configs.Config {
	t.Helper()
	c, err := configs.Parse("jobs.yaml", []byte("database: {url: 'sqlite://x.db'}\n"+text))
	if err != nil {
		t.Fatalf("%v in\n%s", err, text)
	}
	return c
}

const example = `# m h dom mon dow command
SHELL=/bin/bash
PATH = "/usr/local/bin:/usr/bin"
MAILTO=ops@example.com
CRON_TZ=Europe/Berlin

# Sums of the last minutes
*/5 * * * *  flock -n /run/rollup.lock psql -f /srv/rollup.sql
30	2 * * 7   cd /srv && ./backup.sh --full > "/var/log/backup ${HOST}.log" 2>&1
@daily nice -n 10 /usr/bin/backup.sh --key=50\%
@reboot /srv/start
61 * * * * date
`

func TestCrontabBecomesJobs(t *testing.T) {
	table := read(t, example, Options{})
	got := written(t, table)
	want := `jobs:
  - name: psql # line 8
    description: "Sums of the last minutes"
    schedule: "*/5 * * * *"
    timezone: "Europe/Berlin"
    handler: command
    # tables: []  # the tables that it writes
    params:
      command: ["/bin/bash", "-c", "flock -n /run/rollup.lock psql -f /srv/rollup.sql"]
      env:
        "PATH": "/usr/local/bin:/usr/bin"
  - name: backup # line 9
    schedule: "30 2 * * 7"
    timezone: "Europe/Berlin"
    handler: command
    # tables: []  # the tables that it writes
    params:
      command: ["/bin/bash", "-c", "cd /srv && ./backup.sh --full > \"/var/log/backup $${HOST}.log\" 2>&1"]
      env:
        "PATH": "/usr/local/bin:/usr/bin"
  - name: backup-2 # line 10
    schedule: "@daily"
    timezone: "Europe/Berlin"
    handler: command
    # tables: []  # the tables that it writes
    params:
      command: ["/bin/bash", "-c", "nice -n 10 /usr/bin/backup.sh --key=50%"]
      env:
        "PATH": "/usr/local/bin:/usr/bin"
  # line 11 has no job: @reboot /srv/start
  # line 12 has no job: 61 * * * * date
`
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("output (-want +got):\n%s", diff)
	}
	c := config(t, got)
	if len(c.Jobs) != 3 {
		t.Fatalf("got %d jobs, want 3", len(c.Jobs))
	}
	warned := ""
	for _, w := range table.Warnings {
		warned += w.String() + "\n"
	}
	for _, part := range []string{"line 4: Holdfast sends no mails", "line 8: flock excludes",
		"line 8: cron starts commands in the home directory", "line 11: @reboot",
		`line 12: schedule "61 * * * *": minute: found "61"`} {
		if strings.Count(warned, part) != 1 {
			t.Errorf("warnings have %q %d times, want once:\n%s", part,
				strings.Count(warned, part), warned)
		}
	}
}

// TestZonesOfCrontabs checks that a crontab without a zone gets a warning, because its jobs would
// fire at other times than cron.
func TestZonesOfCrontabs(t *testing.T) {
	const without = "0 3 * * * a\n0 4 * * * b\n"
	for text, test := range map[string]struct {
		zone string
		want int // warnings
	}{
		without:                               {want: 1},
		without + "#":                         {zone: "Europe/Berlin"},
		"CRON_TZ=Asia/Tokyo\n" + without:      {},
		"CRON_TZ=Nowhere/Nowhere\n" + without: {want: 1},
		"CRON_TZ=Local\n" + without:           {want: 1},
		"MAILTO=ops\n":                        {},
	} {
		got := 0
		for _, w := range read(t, text, Options{Timezone: test.zone}).Warnings {
			if strings.Contains(w.Text, "cron uses the time zone of its machine") {
				got++
			}
		}
		if got != test.want {
			t.Errorf("%q in %q: got %d warnings, want %d", text, test.zone, got, test.want)
		}
	}
}

// The scripts are run: a shell must give the command the same input as cron.
func TestPercentSignsAreInput(t *testing.T) {
	for line, want := range map[string]string{
		`* * * * * cat%one%two\%%`:              "one\ntwo%\n\n",
		`* * * * * cat; echo after%in`:          "in\nafter\n",
		`* * * * * cat%END%$HOME`:               "END\n$HOME\n",
		`* * * * * echo 100\% | tr 0 1`:         "111%\n",
		`* * * * * read a; read b; echo $b%x%y`: "y\n",
	} {
		table := read(t, line, Options{})
		if len(table.Entries) != 1 {
			t.Fatalf("%s: got %+v, want one entry", line, table)
		}
		words := table.Entries[0].Command
		out, err := exec.CommandContext(t.Context(), words[0], words[1:]...).Output()
		if err != nil || string(out) != want {
			t.Errorf("%s: got %q, %v, want %q", line, out, err, want)
		}
	}
}

func TestSystemCrontab(t *testing.T) {
	table := read(t, "HOME=/var/lib\n17 * * * * root run-parts /etc/cron.hourly\n5 4 * * * root\n",
		Options{System: true, Timezone: "UTC"})
	if len(table.Entries) != 1 || len(table.Skipped) != 1 {
		t.Fatalf("got %+v", table)
	}
	e := table.Entries[0]
	if e.User != "root" || e.Name != "run-parts" || e.Dir != "/var/lib" || e.Timezone != "UTC" ||
		e.Command[2] != "run-parts /etc/cron.hourly" {
		t.Errorf("got %+v", e)
	}
	config(t, written(t, table))
}

// TestUsersAreQuoted has a user and a skipped line with escape sequences for the terminal.
func TestUsersAreQuoted(t *testing.T) {
	table := read(t, "* * * * * ro\x1b]0;x\x07ot x\n* * * * * \u009b31m\n", Options{System: true})
	text := written(t, table)
	for _, warning := range table.Warnings {
		text += warning.String()
	}
	if strings.ContainsFunc(text, func(r rune) bool { return r != '\n' && runes.IsControl(r) }) {
		t.Errorf("got control characters in %q", text)
	}
}

// hostileCrontabs returns crontabs of about this size, in bytes, by their names.
func hostileCrontabs(size int) map[string]string {
	text := func(before, part string) string {
		return before + strings.Repeat(part, (size-len(before))/len(part))
	}
	numbered := func(part string) string {
		var b strings.Builder
		for i := 0; b.Len() < size/2; i++ {
			fmt.Fprintf(&b, part, i)
		}
		return b.String()
	}
	return map[string]string{
		"percent signs":         text("* * * * * cat", "%"),
		"a long part":           text("* * * * * cat%", "x"),
		"ends of the input":     text("* * * * * cat", "%END_"),
		"entries of one name":   text("", "* * * * * a\n"),
		"many variables":        text(numbered("A%d=\n"), "* * * * * a\n"),
		"variables and entries": text("", "A=\n* * * * * a\n"),
		"comments":              text("", "#\n") + "* * * * * a\n",
		"wrappers":              text("* * * * * ", "nice "),
		"options":               text("* * * * * nice ", "-n "),
		"parts of a command":    text("* * * * * ", "cd;"),
		"fields":                text("", "* "),
		"quotes":                text("'", "'"),
		"a list":                text("", "1,") + " * * * * a\n",
	}
}

// TestHostileCrontabsAreFast has crontabs of 64 KB that once took quadratic time. On a slow machine
// they may take longer, but not three times as long as half of them.
func TestHostileCrontabsAreFast(t *testing.T) {
	part := soak.Pick(4, 1) // outside the soak a quarter of the text has a quarter of the time
	size := (64 << 10) / part
	halves := hostileCrontabs(size / 2)
	for name, text := range hostileCrontabs(size) {
		converts := func(text string) func() {
			return func() {
				table, err := Read(strings.NewReader(text), Options{})
				if err == nil {
					err = table.Write(io.Discard)
				}
				if err != nil && !errors.Is(err, bufio.ErrTooLong) {
					t.Errorf("%s: %v", name, err)
				}
			}
		}
		speedtest.WithinOrLike(t, name, 100*time.Millisecond/time.Duration(part),
			converts(halves[name]), converts(text))
	}
}

func TestSizeOfCrontabs(t *testing.T) {
	const line = "# a comment\n"
	for lines, want := range map[int]error{maxFile / len(line): nil,
		maxFile/len(line) + 1: errLarge} {
		if _, err := Read(strings.NewReader(strings.Repeat(line, lines)),
			Options{}); !errors.Is(err, want) {
			t.Errorf("%d lines: %v, want %v", lines, err, want)
		}
	}
}

func TestNamesOfJobs(t *testing.T) {
	for command, want := range map[string]string{
		"/usr/local/bin/rollup.sh --all":             "rollup",
		"cd /srv/app && bundle exec rake x":          "bundle",
		"A=1 B=2 nice -n 5 ionice -c 3 python3 a.py": "python3",
		"flock -n /run/l -c 'psql -f a.sql'":         "psql",
		"flock -w 5 /run/l timeout 30 curl x":        "curl",
		"test -x /x && /x/y.z":                       "y",
		"[ -d /x ] || mkdir /x":                      "mkdir",
		"( sleep 1; date )":                          "sleep",
		"'/opt/Größe 1/x'":                           "gr-e",
		"$RUN":                                       "run",
		">x":                                         "x",
		":":                                          "line-1",
		strings.Repeat("a", 100):                     strings.Repeat("a", maxName),
	} {
		table := read(t, "* * * * * "+command+"\n", Options{})
		if len(table.Entries) != 1 || table.Entries[0].Name != want {
			t.Errorf("%s: got %+v, want the name %s", command, table.Entries, want)
		}
	}
}

// TestBracesAreNoTemplates runs jobs with the handler "command", which replaces templates.
func TestBracesAreNoTemplates(t *testing.T) {
	registry, err := jobs.NewRegistry(handlers.Command())
	if err != nil {
		t.Fatal(err)
	}
	const text = `{{.Names}} {{job}} ${{job}} {{{ }}} {{{{"{{"}}`
	path := filepath.Join(t.TempDir(), "out")
	c := config(t, written(t, read(t, "OF_ENV="+text+
		"\n* * * * * printf '\\%s' '"+text+"' \"$OF_ENV\" > "+path, Options{})))
	run, err := registry.Bind(c.Jobs[0].Handler, c.Jobs[0].Params.JSON())
	if err != nil {
		t.Fatal(err)
	}
	if err := run(t.Context(), jobs.NewRun("j", time.Now(), zerolog.Nop())); err != nil {
		t.Fatal(err)
	}
	if got, err := os.ReadFile(path); err != nil || string(got) != text+text {
		t.Errorf("the command got %q and %v, want %q twice", got, err, text)
	}
}

// FuzzCrontab checks that each line is a job, a setting or a skipped line, and that the output is
// a valid configuration.
func FuzzCrontab(f *testing.F) {
	for _, text := range []string{example, "* * * * * a%b%c", "A='b\"\n* * * * * \"${x:-\x00}\"",
		"@hourly x\r\n\t# y\n", "PATH=\n*/7 * * jan mon \\%"} {
		f.Add(text, false)
		f.Add(text, true)
	}
	f.Fuzz(func(t *testing.T, text string, system bool) {
		table, err := Read(strings.NewReader(text), Options{System: system})
		if err != nil {
			return
		}
		c := config(t, written(t, table))
		if len(c.Jobs) != len(table.Entries) {
			t.Errorf("got %d jobs for %d entries", len(c.Jobs), len(table.Entries))
		}
	})
}
