package clustertest

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// commandResult is the output of a command and its exit code.
type commandResult struct {
	out, err string
	code     int
}

// line returns standard error, which must be one line.
func (s commandResult) line(t *testing.T) string {
	t.Helper()
	line, rest, _ := strings.Cut(s.err, "\n")
	if line == "" || rest != "" {
		t.Errorf("standard error: want one line, got %q", s.err)
	}
	return line
}

// call runs the stock binary in dir and waits for its end.
func call(ctx context.Context, t *testing.T, dir string, args ...string) commandResult {
	t.Helper()
	return callProgram(ctx, t, dir, stockProgram(t), nil, args...)
}

func callProgram(ctx context.Context, t *testing.T, dir, program string, env []string,
	args ...string) commandResult {
	t.Helper()
	var out, errOut bytes.Buffer
	cmd := exec.CommandContext(ctx, program, args...)
	cmd.Dir, cmd.Stdout, cmd.Stderr = dir, &out, &errOut
	cmd.Env = append(os.Environ(), env...)
	err := cmd.Run()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		t.Fatal(err)
	}
	if ctx.Err() != nil {
		t.Fatalf("%s %q: %v; it said %q", program, args, context.Cause(ctx), errOut.String())
	}
	return commandResult{out: out.String(), err: errOut.String(), code: cmd.ProcessState.ExitCode()}
}

// command runs a command of the stock binary with the configuration of the cluster's replicas.
func (c *cluster) command(args ...string) commandResult {
	c.t.Helper()
	program, env := stockProgram(c.t), []string{"REPLICA=command", "LISTEN=127.0.0.1:0"}
	if !c.settings.stock {
		program, env = ownProgram(c.t), append(env, asProgram+"=1")
	}
	path := filepath.Join(c.dir, "command.yaml")
	if err := os.WriteFile(path, []byte(c.config()), 0o600); err != nil {
		c.t.Fatal(err)
	}
	return callProgram(c.ctx, c.t, c.dir, program, env, append(args, "-c", path)...)
}

// commandJSON runs a command with -o json and decodes its output into value. The command must
// succeed and write nothing to standard error.
func (c *cluster) commandJSON(value any, args ...string) {
	c.t.Helper()
	s := c.command(append(args, "-o", "json")...)
	if s.code != 0 || s.err != "" {
		c.t.Fatalf("%q: exit code %d, standard error %q", args, s.code, s.err)
	}
	if err := json.Unmarshal([]byte(s.out), value); err != nil {
		c.t.Fatalf("%q: %v in %q", args, err, s.out)
	}
}
