// Package replicas runs replicas as separate processes, for tests, benchmarks and examples with
// more than one process. It starts them, waits until they are ready, and stops, pauses or kills
// each by its own process id.
package replicas

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/holdfast-dev/holdfast/internal/test/servertest"
)

// Process is one replica process. Its methods may be called concurrently.
type Process struct {
	Name string
	URL  string // of its admin page, http://host:port

	cmd    *exec.Cmd
	log    *os.File
	exited chan struct{}
	err    error // the result of Wait; read it after exited is closed
}

// Spec describes the program to start and its configuration.
type Spec struct {
	Program string // the binary; its arguments are run -c CONFIG
	// the arguments instead of run -c CONFIG, if set; ${LISTEN} and ${REPLICA} are replaced in them
	// too
	Args   []string
	Name   string   // the replica's name, ${REPLICA} in the configuration
	Config string   // YAML; admin.listen must be ${LISTEN}; if empty, there is no -c CONFIG
	Dir    string   // folder of the configuration and the log
	Env    []string // added to the parent's environment
}

// Start starts a replica on a free loopback port and does not wait until it is ready. The process
// is killed when ctx ends and, on Linux, when the caller's process dies.
func Start(ctx context.Context, spec Spec) (*Process, error) {
	listen, err := servertest.FreeAddress()
	if err != nil {
		return nil, err
	}
	args, err := spec.arguments(listen)
	if err != nil {
		return nil, fmt.Errorf("replica %s: %w", spec.Name, err)
	}
	log, err := os.OpenFile(filepath.Join(spec.Dir, spec.Name+".log"),
		os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, fmt.Errorf("replica %s: %w", spec.Name, err)
	}
	p := &Process{Name: spec.Name, URL: "http://" + listen, log: log, exited: make(chan struct{})}
	p.cmd = exec.CommandContext(ctx, spec.Program, args...)
	p.cmd.Stdout, p.cmd.Stderr = log, log
	p.cmd.SysProcAttr = &syscall.SysProcAttr{}
	servertest.DieWithParent(p.cmd.SysProcAttr, syscall.SIGKILL)
	p.cmd.Env = append(append(os.Environ(), "REPLICA="+spec.Name, "LISTEN="+listen), spec.Env...)
	if err := p.cmd.Start(); err != nil {
		return nil, errors.Join(fmt.Errorf("replica %s: %w", spec.Name, err), log.Close())
	}
	go func() {
		p.err = p.cmd.Wait()
		log.Close()
		close(p.exited)
	}()
	return p, nil
}

// arguments returns the program's arguments and writes its configuration.
func (s Spec) arguments(listen string) ([]string, error) {
	args := []string{"run"}
	if len(s.Args) > 0 {
		args = nil
	}
	fill := strings.NewReplacer("${LISTEN}", listen, "${REPLICA}", s.Name)
	for _, arg := range s.Args {
		args = append(args, fill.Replace(arg))
	}
	if s.Config == "" {
		return args, nil
	}
	config := filepath.Join(s.Dir, s.Name+".yaml")
	return append(args, "-c", config), os.WriteFile(config, []byte(s.Config), 0o600)
}

// Ready waits until the replica can start runs.
func (p *Process) Ready(ctx context.Context) error {
	for {
		request, err := http.NewRequestWithContext(ctx, http.MethodGet, p.URL+"/readyz", nil)
		if err != nil {
			return err
		}
		if response, err := http.DefaultClient.Do(request); err == nil {
			response.Body.Close()
			if response.StatusCode == http.StatusOK {
				return nil
			}
		}
		select {
		case <-p.exited:
			return fmt.Errorf("replica %s ended before it was ready: %w\n%s", p.Name, p.err,
				p.Tail(2000))
		case <-ctx.Done():
			return fmt.Errorf("replica %s: %w\n%s", p.Name, context.Cause(ctx), p.Tail(2000))
		case <-time.After(20 * time.Millisecond):
		}
	}
}

// Get decodes into value the JSON that the replica serves at path, such as "/api/v1/locks".
func (p *Process) Get(ctx context.Context, path string, value any) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, p.URL+path, nil)
	if err != nil {
		return err
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return fmt.Errorf("replica %s: %w", p.Name, err)
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err != nil {
		return fmt.Errorf("replica %s: %w", p.Name, err)
	}
	if response.StatusCode != http.StatusOK {
		return fmt.Errorf("replica %s: %s: %s: %s", p.Name, path, response.Status,
			bytes.TrimSpace(body))
	}
	return json.Unmarshal(body, value)
}

// PID returns the id of the process.
func (p *Process) PID() int { return p.cmd.Process.Pid }

// Signal sends a signal to the process.
func (p *Process) Signal(s syscall.Signal) error { return p.cmd.Process.Signal(s) }

// Kill ends the process as kill -9 does, and waits for its end.
func (p *Process) Kill() error {
	err := p.cmd.Process.Kill()
	<-p.exited
	if errors.Is(err, os.ErrProcessDone) {
		return nil
	}
	return err
}

// Stop asks the process to stop, waits for its end, and returns its error.
func (p *Process) Stop(ctx context.Context) error {
	if err := p.Signal(syscall.SIGTERM); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return err
	}
	return p.Wait(ctx)
}

// Wait waits for the end of the process and returns its error.
func (p *Process) Wait(ctx context.Context) error {
	select {
	case <-p.exited:
		return p.err
	case <-ctx.Done():
		return errors.Join(fmt.Errorf("replica %s: %w", p.Name, context.Cause(ctx)), p.Kill())
	}
}

// CPU returns the processor time that the process used. The process must have ended.
func (p *Process) CPU() time.Duration {
	<-p.exited
	return p.cmd.ProcessState.UserTime() + p.cmd.ProcessState.SystemTime()
}

// Log returns the log up to now.
func (p *Process) Log() string {
	text, err := os.ReadFile(p.log.Name())
	if err != nil {
		return err.Error()
	}
	return string(text)
}

// Tail returns the end of the log.
func (p *Process) Tail(n int) string {
	text := p.Log()
	return text[max(0, len(text)-n):]
}
