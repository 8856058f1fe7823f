package handlers

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/holdfast-dev/holdfast/jobs"
)

const (
	defaultGrace = 5 * time.Second
	// maxGrace leaves a margin before the ten seconds after which a run that ignores the end of its
	// context is abandoned and its resources are free.
	maxGrace = 8 * time.Second
)

// reservedEnv is the prefix of the variables that the handler sets itself: HOLDFAST_JOB,
// HOLDFAST_RUN (the run's id), HOLDFAST_SCHEDULED_AT (RFC 3339, UTC) and HOLDFAST_TOKEN.
const reservedEnv = "HOLDFAST_"

// CommandParams are the params of a command job.
type CommandParams struct {
	// Command is a program and its arguments; they are not passed to a shell. A program without a
	// slash is looked up in the scheduler's PATH. The arguments and the values of Env may have
	// templates such as {{scheduled_at}} or {{scheduled_at:%Y-%m-%d}}, with the names of [Values].
	// The values of templates are not quoted for a shell. So a script, such as the argument after
	// sh -c, must not have templates.
	Command []string `json:"command"`
	Dir     string   `json:"dir"` // working directory; default the scheduler's own
	// Env is added to the inherited variables. Only PATH, HOME, USER, LOGNAME, LANG, LC_ALL,
	// LC_CTYPE, TZ and TMPDIR are inherited, so that the scheduler's secrets are not.
	Env map[string]string `json:"env"`
	// Grace is how long the process group of the command may take to end after SIGTERM before it is
	// killed: 0s to 8s, default 5s.
	Grace *jobs.Duration `json:"grace"`
	// Values are for the templates.
	Values Values `json:"values"`
}

// commandResult is the result of a run whose program was started.
type commandResult struct {
	ExitCode int `json:"exit_code"` // -1 if a signal ended it
}

// Command returns the handler "command", which runs a program and expects exit status 0. The end of
// its output is stored with the run, whose result is {"exit_code": …}.
//
// The program leads a process group of its own. When the run is ended, the group gets SIGTERM and,
// after the grace, SIGKILL. When the program exits by itself, the remaining processes of its group
// have one second to end. Then they are ended in the same way. A process that leaves the group
// (setsid) is not ended. If it holds the output, the run ends two seconds after the program. On
// Linux, the program is also killed when the scheduler dies.
func Command() jobs.Registration { return jobs.Handle("command", runCommand) }

// Validate returns the mistakes, at most 20 of them.
func (p CommandParams) Validate() error {
	var problems problemList
	switch {
	case len(p.Command) == 0 || p.Command[0] == "":
		problems.add("command", "expected a list: the program and its arguments")
	case slices.ContainsFunc(p.Command, hasNUL):
		problems.add("command", "holds a NUL character")
	}
	p.Values.check(&problems)
	sample := sampleExpander(p.Values)
	p.checkArguments(sample, &problems)
	if hasNUL(p.Dir) {
		problems.add("dir", "holds a NUL character")
	}
	for _, name := range sortedNames(p.Env) {
		switch {
		case name == "" || strings.ContainsAny(name, "=\x00"):
			problems.add("env", "%q is no variable's name", name)
		case strings.HasPrefix(name, reservedEnv):
			problems.add("env", "%s is set by the scheduler", name)
		default:
			value, err := sample.expand(p.Env[name], asItIs)
			if err != nil {
				problems.add("env", "%s: %s", name, err)
			} else if hasNUL(value) {
				problems.add("env", "the value of %s holds a NUL character", name)
			}
		}
	}
	if grace := p.grace(); grace < 0 || grace > maxGrace {
		problems.add("grace", "found %s, expected 0s to %s", grace, maxGrace)
	}
	return problems.err()
}

// checkArguments adds the mistakes in the templates of the command.
func (p CommandParams) checkArguments(sample *expander, problems *problemList) {
	var scripts scriptFinder
	for i, argument := range p.Command {
		script := scripts.next(argument)
		expanded, err := sample.expand(argument, asItIs)
		switch {
		case err != nil:
			problems.add("command", "number %d: %s", i+1, err)
		case !hasTemplate(argument):
		case i == 0:
			problems.add("command", "found a template in the program, expected one in an argument")
		case script:
			problems.add("command", "found a template in the script of a shell, or in the text "+
				"of env -S, where it could become a command; expected it in a further argument, "+
				`which a script reads as "$1" after a name for "$0", or in env`)
		case hasNUL(expanded):
			problems.add("command", "number %d holds a NUL character", i+1)
		}
	}
}

// scriptFinder finds the scripts of shells among the arguments of a command.
type scriptFinder struct {
	// program is the name of a shell, or of a program that passes a script to a shell, whose
	// options can follow.
	program string
	file    bool   // the next operand is a file or a program, and ends the options of program
	open    bool   // an option said that a script follows, and the script was not found yet
	env     bool   // the options of env can follow
	before  string // the argument before
}

// next takes the arguments one after the other. It reports whether the argument is the script of a
// shell, or stands between the script and the option that announces it. The value of a template
// there could become an option or the script. The same holds for the text of env -S.
func (f *scriptFinder) next(argument string) bool {
	if text, split := f.splitByEnv(argument); split {
		f.env = false
		for word := range strings.FieldsSeq(text) {
			f.next(word)
		}
		return true
	}
	long := hasLongOptions(f.program)
	within := f.open || long && (hasScript(argument) || isScriptOption(argument))
	value := f.before != "--" && hasOperand(f.program, f.before)
	operand := f.before == "--" || !isOption(argument) && !value
	switch {
	case f.open && operand:
		f.open = false // the argument is the script
	case f.program == "runuser" && isUserOption(argument):
		f.program = "" // the operands are a program and its arguments
	case f.program != "" && (isScriptOption(argument) || long && isLongScriptOption(argument)):
		f.open, f.file = !hasScript(argument), false
	case f.file && operand:
		f.program, f.file = "", false
	case f.program == "flock" && operand:
		f.file = true // the argument is the lock; a program or -c can follow
	}
	f.begin(argument)
	f.before = argument
	return within
}

// begin notes a program whose options can follow.
func (f *scriptFinder) begin(argument string) {
	// A shell after an option can be the option's value, as in su -s /bin/sh nobody -c.
	afterOption := isOption(f.before) && f.before != "--"
	switch name := path.Base(argument); {
	case isShell(argument) && !(afterOption && hasLongOptions(f.program)):
		// The options of fish have values of many kinds. In SHELL=/bin/sh, the shell is no program.
		f.program = name
		f.file = !isOption(argument) && name != "fish" && !strings.Contains(argument, "=") &&
			!afterOption
	case isOfSystem(argument, "su", "runuser", "flock"),
		isOfSystem(argument, "script") && f.mayBegin(): // in npm run script, it is a task
		f.program, f.file = name, false
	case isOfSystem(argument, "env"):
		f.env = true
	case !isOption(argument) && !strings.Contains(argument, "=") && !hasOperand("env", f.before):
		f.env = false // the argument is the program that env starts
	}
}

// splitByEnv returns the text of env -S, if the argument has it.
func (f *scriptFinder) splitByEnv(argument string) (text string, split bool) {
	if !f.env {
		return "", false
	}
	before, short := shortSplit(f.before)
	if f.before == "--split-string" || short && before == "" {
		return argument, true
	}
	if text, short := shortSplit(argument); short {
		return text, text != ""
	}
	return strings.CutPrefix(argument, "--split-string=")
}

// shortSplit returns the text after -S, if the short options of env have it. The text after other
// options is their value, as in -uPS1.
func shortSplit(options string) (text string, found bool) {
	i := strings.IndexAny(options, "aCSu")
	if !isShort(options) || i < 0 || options[i] != 'S' {
		return "", false
	}
	return options[i+1:], true
}

// mayBegin reports whether the argument after the one before can be a program.
func (f *scriptFinder) mayBegin() bool {
	return f.before == "" || slices.Contains([]string{"env", "nice", "nohup", "setsid", "sudo"},
		path.Base(f.before))
}

// isShell reports whether an argument is a shell.
func isShell(argument string) bool {
	return slices.Contains([]string{"sh", "ash", "bash", "csh", "dash", "fish", "ksh", "lksh",
		"mksh", "posh", "rbash", "rksh", "tcsh", "yash", "zsh"}, path.Base(argument))
}

// isOfSystem reports whether an argument is one of these programs, and not a file with its name,
// such as ./script.
func isOfSystem(argument string, names ...string) bool {
	dir, name := path.Split(argument)
	return slices.Contains(names, name) && (dir == "" || path.IsAbs(dir))
}

// hasLongOptions reports whether a script can also follow a long option of the program, or be part
// of an option.
func hasLongOptions(program string) bool {
	return slices.Contains([]string{"fish", "su", "runuser", "script", "flock"}, program)
}

func isShort(argument string) bool {
	return strings.HasPrefix(argument, "-") && !strings.HasPrefix(argument, "--")
}

// isUserOption reports whether this option of runuser names the user. It excludes -c.
func isUserOption(argument string) bool {
	return strings.HasPrefix(argument, "-u") || strings.HasPrefix(argument, "--user")
}

func isOption(argument string) bool {
	return strings.HasPrefix(argument, "-") || strings.HasPrefix(argument, "+")
}

// hasOperand reports whether the value of this option of a program is the next argument, as in
// sh -eo pipefail.
func hasOperand(program, argument string) bool {
	switch program {
	case "env":
		return slices.Contains([]string{"--argv0", "--chdir", "--unset"}, argument) ||
			isShort(argument) && strings.ContainsAny(argument[len(argument)-1:], "aCu")
	case "flock":
		return slices.Contains([]string{"--conflict-exit-code", "--timeout", "--wait"}, argument) ||
			isShort(argument) && strings.ContainsAny(argument[len(argument)-1:], "Ew")
	}
	if name, long := strings.CutPrefix(argument, "--"); long {
		return slices.Contains([]string{"emulate", "init-file", "rcfile"}, name)
	}
	return isOption(argument) && strings.ContainsAny(argument, "oO")
}

// isScriptOption reports whether a script follows this option of a shell, as in sh -ec.
func isScriptOption(argument string) bool {
	return isShort(argument) && strings.Contains(argument, "c")
}

// isLongScriptOption reports whether a script follows this option of fish, su and others, or is
// part of it.
func isLongScriptOption(argument string) bool {
	if strings.HasPrefix(argument, "--") {
		return slices.Contains([]string{"--command", "--init-command", "--session-command"},
			argument) || hasScript(argument)
	}
	return strings.HasPrefix(argument, "-") && strings.Contains(argument, "C")
}

// hasScript reports whether an option has the script in it, as in fish --command=ls.
func hasScript(argument string) bool {
	return strings.HasPrefix(argument, "--command=") ||
		strings.HasPrefix(argument, "--init-command=") ||
		strings.HasPrefix(argument, "--session-command=")
}

// expanded returns the params with the facts of a run in place of templates.
func (p CommandParams) expanded(ctx context.Context, run *jobs.Run) (CommandParams, error) {
	texts := slices.Clone(p.Command)
	for _, value := range p.Env {
		texts = append(texts, value)
	}
	e, err := newExpander(ctx, run, p.Values, texts)
	if err != nil {
		return p, err
	}
	arguments := slices.Clone(p.Command)
	for i, argument := range p.Command {
		if arguments[i], err = e.expand(argument, asItIs); err != nil {
			return p, err
		}
	}
	env := make(map[string]string, len(p.Env))
	for name, value := range p.Env {
		if env[name], err = e.expand(value, asItIs); err != nil {
			return p, fmt.Errorf("env: %s: %w", name, err)
		}
	}
	p.Command, p.Env = arguments, env
	return p, nil
}

func hasNUL(s string) bool { return strings.Contains(s, "\x00") }

func (p CommandParams) grace() time.Duration {
	if p.Grace == nil {
		return defaultGrace
	}
	return time.Duration(*p.Grace)
}

// environment returns the command's variables; of two with one name the last counts.
func (p CommandParams) environment(run *jobs.Run) []string {
	var env []string
	for _, name := range []string{"PATH", "HOME", "USER", "LOGNAME", "LANG", "LC_ALL", "LC_CTYPE",
		"TZ", "TMPDIR"} {
		if value, ok := os.LookupEnv(name); ok {
			env = append(env, name+"="+value)
		}
	}
	for _, name := range sortedNames(p.Env) {
		env = append(env, name+"="+p.Env[name])
	}
	return append(env,
		reservedEnv+"JOB="+strings.ReplaceAll(run.Job, "\x00", ""),
		reservedEnv+"RUN="+run.ID.String(),
		reservedEnv+"SCHEDULED_AT="+run.ScheduledAt.UTC().Format(time.RFC3339Nano),
		reservedEnv+"TOKEN="+strconv.FormatInt(int64(run.Token), 10))
}

func runCommand(ctx context.Context, run *jobs.Run, p CommandParams) error {
	name := p.Command[0]
	if ctx.Err() != nil {
		return fmt.Errorf("command %s: not started: %w", name, context.Cause(ctx))
	}
	p, err := p.expanded(ctx, run)
	if err != nil {
		return fmt.Errorf("command %s: %w", name, withCause(ctx, err))
	}
	cmd, err := p.prepare(run)
	if err != nil {
		return fmt.Errorf("command %s: %w", name, err)
	}
	tail := newTail(run)
	stopped, err := runGroup(ctx, cmd, p.grace(), run.Output(), tail)
	if ended := cmd.ProcessState; ended != nil {
		if err := run.SetResult(commandResult{ExitCode: ended.ExitCode()}); err != nil {
			return fmt.Errorf("command %s: %w", name, err)
		}
	}
	switch {
	case stopped && err == nil:
		return fmt.Errorf("command %s: stopped: %w", name, context.Cause(ctx))
	case stopped:
		return fmt.Errorf("command %s: stopped: %w (%w)%s", name, context.Cause(ctx), err,
			quote(tail))
	case err != nil:
		return fmt.Errorf("command %s: %w%s", name, err, quote(tail))
	}
	return nil
}

func (p CommandParams) prepare(run *jobs.Run) (*exec.Cmd, error) {
	// With process attributes set, the operating system reports a missing directory as a missing
	// program.
	if p.Dir != "" {
		if info, err := os.Stat(p.Dir); err != nil {
			return nil, fmt.Errorf("dir: %w", err)
		} else if !info.IsDir() {
			return nil, fmt.Errorf("dir: %s is not a directory", p.Dir)
		}
	}
	cmd := exec.Command(p.Command[0], p.Command[1:]...)
	if errors.Is(cmd.Err, exec.ErrNotFound) {
		return nil, fmt.Errorf("program not found in PATH: %w", exec.ErrNotFound)
	}
	if cmd.Err != nil {
		return nil, cmd.Err
	}
	cmd.Dir = p.Dir
	cmd.Env = p.environment(run)
	return cmd, nil
}
