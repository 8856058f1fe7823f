package lockhistory

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"math"
	"os"
	"os/exec"
	"os/signal"
	"slices"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/holdfast-dev/holdfast/internal/test/servertest"
	"github.com/holdfast-dev/holdfast/jobs/postgres"
	"github.com/holdfast-dev/holdfast/locking"
	"github.com/holdfast-dev/holdfast/locking/memcached"
)

// asWorker makes the test binary run as a worker if it is set to a workerSpec.
const asWorker = "HOLDFAST_LOCKHISTORY_WORKER"

// workerSpec is one process of a workload.
type workerSpec struct {
	Name      string // in the history
	Replica   string // the worker succeeds earlier sessions of this name
	URL       string
	Memcached string // empty for grants alone
	File      string // of its history
	Seed      uint64
	TTL       time.Duration
	Workers   int
	Wanted    []Request     // the requests of locks are drawn from these
	Longest   time.Duration // longest time that a lock is held
	Rest      time.Duration // longest pause between two locks
	Hasty     bool          // no call waits
	Writes    bool          // through the fence, while the lock is held and afterwards
}

const (
	// A row in the ledger, inserted after the fence check in the same transaction.
	ledgerTable = `CREATE TABLE ledger (lock text, number int, token bigint, fenced timestamptz)`
	writeLedger = `INSERT INTO ledger VALUES ($1, $2, $3, clock_timestamp())`
	readLedger  = `
SELECT lock, number, token, (extract(epoch FROM fenced) * 1000000)::bigint, (extract(epoch FROM pg_xact_commit_timestamp(xmin)) * 1000000)::bigint
FROM ledger`
)

// runWorker is the main function of a worker. It works until it gets a signal.
func runWorker(text string) (err error) {
	var spec workerSpec
	if err := json.Unmarshal([]byte(text), &spec); err != nil {
		return err
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	file, err := os.OpenFile(spec.File, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	r := NewRecorder(file, spec.Name)
	store, err := postgres.Open(ctx, postgres.Options{URL: spec.URL})
	if err != nil {
		return err
	}
	defer store.Close()
	var backend locking.Backend
	if spec.Memcached != "" {
		if backend, err = memcached.New(memcached.Options{
			Servers: []string{spec.Memcached}}); err != nil {
			return err
		}
	}
	locker, err := locking.New(backend, locking.Options{
		Namespace: store.ClusterID().String(), Lease: 10 * time.Second,
		Grants:  r.Grants(store.Grants()),
		Session: locking.Session{Replica: spec.Replica, TTL: spec.TTL, ReplaceEarlier: true},
	})
	if err != nil {
		return err
	}
	w := &workload{
		locker: r.Locker(locker), replica: spec.Replica, workers: spec.Workers, wanted: spec.Wanted,
		longest: spec.Longest,
		rest:    spec.Rest, hasty: spec.Hasty, seed: spec.Seed,
	}
	if spec.Writes {
		w.write = writeTo(store)
	}
	return errors.Join(w.beside(ctx, locker), r.Err())
}

// beside runs the workload while the Locker runs, until ctx ends.
func (w *workload) beside(ctx context.Context, locker *locking.Locker) error {
	running, end := context.WithCancel(context.WithoutCancel(ctx))
	ended := make(chan error, 1)
	go func() { ended <- locker.Run(running) }()
	w.run(ctx)
	end()
	return <-ended
}

func writeTo(store *postgres.Store) func(context.Context, *Held, int) error {
	return func(ctx context.Context, k *Held, number int) error {
		return store.InLock(ctx, k.Lock, func(tx pgx.Tx) error {
			_, err := tx.Exec(ctx, writeLedger, k.ID, number, k.Token())
			// so that a fault can happen in the transaction
			pause(ctx, time.Duration(number)*time.Millisecond)
			return err
		})
	}
}

// worker is a worker's process.
type worker struct {
	workerSpec
	cmd    *exec.Cmd
	exited chan struct{}
	err    error // of Wait, once exited is closed

	read  int64   // how many bytes of the file
	known []Event // the events read so far
}

func startWorker(t *testing.T, spec workerSpec) *worker {
	t.Helper()
	program, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	text, err := json.Marshal(spec)
	if err != nil {
		t.Fatal(err)
	}
	w := &worker{workerSpec: spec, cmd: exec.Command(program), exited: make(chan struct{})}
	w.cmd.Env = append(os.Environ(), asWorker+"="+string(text))
	w.cmd.Stdout, w.cmd.Stderr = os.Stdout, os.Stderr
	w.cmd.SysProcAttr = &syscall.SysProcAttr{}
	servertest.DieWithParent(w.cmd.SysProcAttr, syscall.SIGKILL)
	if err := w.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() {
		w.err = w.cmd.Wait()
		close(w.exited)
	}()
	t.Cleanup(func() {
		_ = w.cmd.Process.Kill() // also a stopped one; it may have ended
		<-w.exited
	})
	return w
}

func (w *worker) signal(t *testing.T, s syscall.Signal) {
	t.Helper()
	if err := w.cmd.Process.Signal(s); err != nil {
		t.Fatalf("signal %v to %s: %v", s, w.Name, err)
	}
}

// events returns the events that the worker has recorded so far. It reads only new lines.
func (w *worker) events(t *testing.T) []Event {
	t.Helper()
	file, err := os.Open(w.File)
	if errors.Is(err, os.ErrNotExist) {
		return nil // the worker has just started
	}
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	text, err := io.ReadAll(io.NewSectionReader(file, w.read, math.MaxInt64-w.read))
	if err != nil {
		t.Fatalf("%s: %v", w.Name, err)
	}
	text = text[:bytes.LastIndexByte(text, '\n')+1] // the last line may be incomplete
	events, err := Read(bytes.NewReader(text))
	if err != nil {
		t.Fatalf("%s: %v", w.Name, err)
	}
	w.read += int64(len(text))
	w.known = append(w.known, events...)
	return slices.Clip(w.known)
}

// end ends the worker with a signal and waits for it.
func (w *worker) end(t *testing.T) {
	t.Helper()
	w.signal(t, syscall.SIGTERM)
	<-w.exited
	if w.err != nil {
		t.Errorf("%s ended with %v", w.Name, w.err)
	}
}

// kill ends the worker as kill -9 does.
func (w *worker) kill(t *testing.T) {
	t.Helper()
	w.signal(t, syscall.SIGKILL)
	<-w.exited
	if state := w.cmd.ProcessState.Sys().(syscall.WaitStatus); !state.Signaled() {
		t.Fatalf("%s ended before it was killed: %v", w.Name, w.err)
	}
}

// freeze stops the worker at a suitable time.
func (w *worker) freeze(ctx context.Context, t *testing.T, suits func() bool) {
	t.Helper()
	for ctx.Err() == nil {
		if err := servertest.Freeze(w.cmd.Process.Pid); err != nil {
			t.Fatal(err)
		}
		if suits() {
			return
		}
		w.thaw(t)
		pause(ctx, 3*time.Millisecond)
	}
	t.Fatalf("%s was never found as it is to be paused: %v", w.Name, context.Cause(ctx))
}

func (w *worker) thaw(t *testing.T) {
	t.Helper()
	if err := servertest.Thaw(w.cmd.Process.Pid); err != nil {
		t.Fatal(err)
	}
}

// holds reports whether the worker holds a lock that it is not releasing.
func holds(events []Event) bool {
	held := map[string]bool{}
	for _, e := range events {
		switch e.Kind {
		case Granted:
			held[e.Lock] = true
		case Release:
			delete(held, e.Lock)
		}
	}
	return len(held) > 0
}
