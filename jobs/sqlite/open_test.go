package sqlite_test

import (
	"bufio"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/fstest"
	"testing/synctest"
	"time"

	"github.com/google/uuid"

	"github.com/holdfast-dev/holdfast/internal/test/jobstest"
	"github.com/holdfast-dev/holdfast/jobs/sqlite"
	"github.com/holdfast-dev/holdfast/jobs/storage"
)

func TestOnlyOneExclusiveOpener(t *testing.T) {
	path := filepath.Join(t.TempDir(), "holdfast.db")
	first := openAt(t, path)
	_, err := sqlite.Open(t.Context(), path, sqlite.Options{Exclusive: true})
	if !errors.Is(err, sqlite.ErrLocked) || !strings.Contains(err.Error(), path) {
		t.Fatalf("second opener: %v, want ErrLocked with the path", err)
	}
	id := first.ClusterID()
	first.Close()
	if second := openAt(t, path); second.ClusterID() != id {
		t.Errorf("cluster %s, then %s", id, second.ClusterID())
	}
}

func TestLinkToAnOpenFileIsRefused(t *testing.T) {
	dir := t.TempDir()
	if err := errors.Join(os.MkdirAll(filepath.Join(dir, "data", "deep"), 0o700),
		os.Symlink(filepath.Join(dir, "data", "deep"), filepath.Join(dir, "folder"))); err != nil {
		t.Fatal(err)
	}
	for name, target := range map[string]string{
		"absolute":      filepath.Join(dir, "absolute.db"),
		"relative":      "relative.db",
		"across a link": "folder/../across.db", // in the folder data
	} {
		t.Run(name, func(t *testing.T) {
			link := filepath.Join(dir, name)
			chain := filepath.Join(dir, name+" by two links")
			if err := errors.Join(os.Symlink(target, link), os.Symlink(link, chain)); err != nil {
				t.Fatal(err)
			}
			openAt(t, chain) // there is no file yet
			path, err := filepath.EvalSymlinks(link)
			if err != nil {
				t.Fatal(err)
			}
			for _, other := range []string{path, link, chain} {
				s, err := sqlite.Open(t.Context(), other, sqlite.Options{Exclusive: true})
				if !errors.Is(err, sqlite.ErrLocked) {
					t.Errorf("second opener of %s: %v, want ErrLocked", other, err)
				}
				if err == nil {
					s.Close()
				}
			}
		})
	}
}

func TestRefusedOpenDoesNotDisturbTheFirst(t *testing.T) {
	path := filepath.Join(t.TempDir(), "holdfast.db")
	s := openAt(t, path)
	session := openSession(t, s)
	if _, err := sqlite.Open(t.Context(), path, sqlite.Options{Exclusive: true}); err == nil {
		t.Fatal("second Open: got success, want an error")
	}
	if _, err := s.Heartbeat(t.Context(), session, storage.ReplicaStatus{}); err != nil {
		t.Error(err)
	}
	startFinish(t, s, session, 1)
}

func TestPathsThatCannotBeOpened(t *testing.T) {
	dir := t.TempDir()
	garbage := filepath.Join(dir, "garbage.db")
	if err := os.WriteFile(garbage, []byte(strings.Repeat("not a database ", 100)),
		0o600); err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		path      string
		exclusive bool
		is        error
		message   string
	}{
		"empty":              {"", true, nil, "expected the path of a file"},
		"memory":             {":memory:", true, nil, "expected the path of a file"},
		"folder":             {dir, true, nil, "is a folder"},
		"missing folder":     {filepath.Join(dir, "none", "a.db"), true, fs.ErrNotExist, "its folder"},
		"missing file":       {filepath.Join(dir, "none.db"), false, fs.ErrNotExist, "none.db"},
		"not a database":     {garbage, true, nil, "garbage.db"},
		"tool on garbage":    {garbage, false, nil, "garbage.db"},
		"tool, empty folder": {dir, false, nil, "is a folder"},
	} {
		t.Run(name, func(t *testing.T) {
			s, err := sqlite.Open(t.Context(), c.path, sqlite.Options{Exclusive: c.exclusive})
			if err == nil {
				s.Close()
				t.Fatal("Open: got success, want an error")
			}
			if c.is != nil && !errors.Is(err, c.is) || !strings.Contains(err.Error(), c.message) {
				t.Errorf("%v, want it to wrap %v and say %q", err, c.is, c.message)
			}
		})
	}
	if _, err := os.Stat(filepath.Join(dir, "none.db")); !errors.Is(err, fs.ErrNotExist) {
		t.Error("missing file: got it created by the tool, want an error")
	}
}

func TestSpecialCharactersInTheFileName(t *testing.T) {
	path := filepath.Join(t.TempDir(), "a b%20?mode=memory#ü&.db")
	s := openAt(t, path)
	session := openSession(t, s)
	startFinish(t, s, session, 1)
	if _, err := os.Stat(path); err != nil {
		t.Error(err)
	}
}

func TestNewerFileIsRefused(t *testing.T) {
	path := filepath.Join(t.TempDir(), "holdfast.db")
	s := openAt(t, path)
	if _, err := s.Writer().Exec(
		"UPDATE holdfast_meta SET version = 9, min_binary = 7"); err != nil {
		t.Fatal(err)
	}
	s.Close()
	for _, exclusive := range []bool{true, false} {
		_, err := sqlite.Open(t.Context(), path, sqlite.Options{Exclusive: exclusive})
		var refusal *sqlite.SchemaError
		if !errors.As(err, &refusal) || refusal.MinBinary != 7 || refusal.Binary >= 7 ||
			refusal.Path != path {
			t.Errorf("exclusive %v: %v (%+v), want a SchemaError", exclusive, err, refusal)
		}
	}
}

func TestCompatibleNewerFileIsOpened(t *testing.T) {
	path := filepath.Join(t.TempDir(), "holdfast.db")
	s := openAt(t, path)
	if _, err := s.Writer().Exec(
		"UPDATE holdfast_meta SET version = 9, min_binary = 1"); err != nil {
		t.Fatal(err)
	}
	s.Close()
	openAt(t, path)
}

// A second migration changes a file that the first one created. A migration that fails leaves the
// schema as it was.
func TestSecondMigration(t *testing.T) {
	path := filepath.Join(t.TempDir(), "holdfast.db")
	s := openAt(t, path)
	session := openSession(t, s)
	startFinish(t, s, session, 1)
	files := fstest.MapFS{}
	names, err := fs.Glob(sqlite.Migrations(), "migrations/*.sql")
	if err != nil || len(names) == 0 {
		t.Fatalf("got migrations %q (%v), want some", names, err)
	}
	for _, name := range names {
		files[name] = &fstest.MapFile{}
	}
	next := len(names) + 1
	name := fmt.Sprintf("migrations/%04d_made_up.sql", next)
	files[name] = &fstest.MapFile{Data: []byte(`
ALTER TABLE holdfast_runs ADD COLUMN made_up TEXT NOT NULL DEFAULT 'x';
INSERT INTO no_such_table VALUES (1);`)}
	if err := s.Migrate(t.Context(), files, next); err == nil {
		t.Fatal("migration that fails: got success, want an error")
	}
	files[name].Data = []byte("ALTER TABLE holdfast_runs ADD COLUMN made_up TEXT DEFAULT 'y'")
	for range 2 { // the second call has nothing to do
		if err := s.Migrate(t.Context(), files, next); err != nil {
			t.Fatal(err)
		}
	}
	var version, changed int
	if err := s.Writer().QueryRow(`SELECT version,
		(SELECT count(*) FROM holdfast_runs WHERE made_up = 'y') FROM holdfast_meta`).
		Scan(&version, &changed); err != nil || version != next || changed != 1 {
		t.Errorf("version %d with %d runs changed, want %d with 1: %v", version, changed,
			next, err)
	}
}

func TestToolDoesNotMigrate(t *testing.T) {
	path := filepath.Join(t.TempDir(), "users.db")
	if err := os.WriteFile(path, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := sqlite.Open(t.Context(), path, sqlite.Options{}); !errors.Is(err,
		storage.ErrNotFound) {
		t.Errorf("%v, want ErrNotFound", err)
	}
}

func TestCloseIsIdempotentAndFinal(t *testing.T) {
	s := open(t)
	session := openSession(t, s)
	s.Close()
	s.Close()
	_, started := s.Start(t.Context(), session, batch(t, 1))
	_, heartbeat := s.Heartbeat(t.Context(), session, storage.ReplicaStatus{})
	_, read := s.Runs(t.Context(), storage.RunFilter{})
	for what, err := range map[string]error{"start": started, "heartbeat": heartbeat,
		"runs": read} {
		if !errors.Is(err, storage.ErrUnavailable) {
			t.Errorf("%s after close: %v, want ErrUnavailable", what, err)
		}
	}
}

// Close returns although an abandoned handler stays in its transaction. When that ends, the file is
// free.
func TestCloseBesideAnAbandonedHandler(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		path := filepath.Join(t.TempDir(), "holdfast.db")
		s := openAt(t, path)
		request := batch(t, 1)[0]
		results, err := s.Start(t.Context(), openSession(t, s), []storage.StartRequest{request})
		if err != nil {
			t.Fatal(err)
		}
		run := jobstest.StoredRun(s, request, results[0].Token)
		ctx, abandon := context.WithCancel(t.Context())
		leave, left := make(chan struct{}), make(chan error, 1)
		go func() {
			left <- sqlite.InTx(ctx, run, func(*sql.Tx) error {
				<-leave
				return nil
			})
		}()
		synctest.Wait()
		abandon()
		start := time.Now()
		s.Close()
		if took := time.Since(start); took != 5*time.Second {
			t.Errorf("close took %s, want 5s", took)
		}
		if _, err := s.Runs(t.Context(), storage.RunFilter{}); !errors.Is(err,
			storage.ErrUnavailable) {
			t.Errorf("runs after close: %v, want ErrUnavailable", err)
		}
		_, err = sqlite.Open(t.Context(), path, sqlite.Options{Exclusive: true})
		if !errors.Is(err, sqlite.ErrLocked) {
			t.Errorf("open during the transaction: %v, want ErrLocked", err)
		}
		close(leave)
		if err := <-left; err == nil {
			t.Error("the transaction of the abandoned handler committed")
		}
		synctest.Wait()
		openAt(t, path)
	})
}

func TestOpenExpiresSessionsOfAnEarlierProcess(t *testing.T) {
	path := filepath.Join(t.TempDir(), "holdfast.db")
	s := openAt(t, path)
	session := openSession(t, s)
	requests := batch(t, 3)
	requests[2].Requests = requests[0].Requests // it waits
	granted, err := s.Start(t.Context(), session, requests)
	if err != nil {
		t.Fatal(err)
	}
	s.Close() // without ending the session
	afterDeath(t, openAt(t, path), session, requests, granted)
}

// afterDeath checks a file whose process has died: of the requests, two ran and the third waited.
func afterDeath(t *testing.T, s *sqlite.Store, session uuid.UUID, requests []storage.StartRequest,
	granted []storage.StartResult) {
	t.Helper()
	if _, err := s.Heartbeat(t.Context(), session, storage.ReplicaStatus{}); !errors.Is(err,
		storage.ErrSessionLost) {
		t.Errorf("heartbeat: %v, want ErrSessionLost", err)
	}
	if replicas, err := s.Replicas(t.Context()); err != nil || len(replicas) != 1 ||
		replicas[0].ExpiresAt.After(time.Now()) {
		t.Errorf("replicas %+v (%v), want one that has expired", replicas, err)
	}
	next := openSession(t, s)
	adopted, err := s.Adopt(t.Context(), next, jobstest.Adoption(nil, 10, requests[2].Firing.Job))
	if err != nil || len(adopted) != 1 || adopted[0].ID != requests[2].Run {
		t.Errorf("adopted %+v (%v), want the waiting run", adopted, err)
	}
	if _, err := s.Register(t.Context(), next,
		[]storage.Definition{{Name: requests[1].Firing.Job, Hash: "h",
			Recover: true}}); err != nil {
		t.Fatal(err)
	}
	swept, err := s.Sweep(t.Context())
	if err != nil || len(swept.Sessions) != 1 || len(swept.Lost) != 2 {
		t.Fatalf("swept %+v (%v), want a session and its two runs", swept, err)
	}
	adopted, err = s.Adopt(t.Context(), next, jobstest.Adoption(nil, 10, requests[1].Firing.Job))
	if err != nil || len(adopted) != 1 || adopted[0].Recovery != 1 {
		t.Errorf("adopted %+v (%v), want the successor", adopted, err)
	}
	again, err := s.Start(t.Context(), next, requests[2:])
	if err != nil || again[0].Outcome != storage.StartGranted ||
		again[0].Token <= granted[1].Token {
		t.Errorf("start %+v (%v), want a grant with a token above %d", again, err,
			granted[1].Token)
	}
}

// The definitions of a former process must not stay active over those of the next process, even
// before a sweep.
func TestOpenRemovesDefinitionsOfAnEarlierProcess(t *testing.T) {
	path := filepath.Join(t.TempDir(), "holdfast.db")
	s := openAt(t, path)
	for _, hash := range []string{"older", "newer"} {
		if _, err := s.Register(t.Context(), openSession(t, s),
			[]storage.Definition{{Name: "a", Hash: hash}}); err != nil {
			t.Fatal(err)
		}
	}
	s.Close() // without ending the sessions
	s = openAt(t, path)
	versions, err := s.Register(t.Context(), openSession(t, s),
		[]storage.Definition{{Name: "a", Hash: "older"}})
	if err != nil {
		t.Fatal(err)
	}
	activeDefinitions, err := s.Versions(t.Context())
	if err != nil || versions["a"] != 1 || activeDefinitions["a"].Version != 1 {
		t.Errorf("registered %v, in force %v (%v), want version 1", versions, activeDefinitions,
			err)
	}
}

// childFile names the file on which this program, started again, is a scheduler that is killed.
const childFile = "HOLDFAST_TEST_CHILD_FILE"

func TestFileOfAKilledProcessIsOpened(t *testing.T) {
	if path := os.Getenv(childFile); path != "" {
		beKilled(t, path)
	}
	path := filepath.Join(t.TempDir(), "holdfast.db")
	child := exec.Command(os.Args[0], "-test.run=^"+t.Name()+"$")
	child.Env = append(os.Environ(), childFile+"="+path)
	output, err := child.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := child.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { child.Wait() }) //nolint:errcheck // it was killed
	defer child.Process.Kill()         //nolint:errcheck // it may be dead by then
	run, ok := strings.CutPrefix(readLine(t, output), "running ")
	if !ok {
		t.Fatalf("the child says %q", run)
	}
	if _, err := sqlite.Open(t.Context(), path, sqlite.Options{Exclusive: true}); !errors.Is(err,
		sqlite.ErrLocked) {
		t.Errorf("open beside the child: %v, want ErrLocked", err)
	}
	if err := child.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	child.Wait() //nolint:errcheck // it was killed
	s := openAt(t, path)
	swept, err := s.Sweep(t.Context())
	if err != nil || len(swept.Lost) != 1 || swept.Lost[0].ID.String() != run {
		t.Errorf("swept %+v (%v), want run %s", swept, err, run)
	}
}

func beKilled(t *testing.T, path string) {
	s := openAt(t, path)
	session := openSession(t, s)
	requests := batch(t, 1)
	if _, err := s.Start(t.Context(), session, requests); err != nil {
		t.Fatal(err)
	}
	os.Stdout.WriteString("running " + requests[0].Run.String() + "\n")
	time.Sleep(time.Minute) // until it is killed
	os.Exit(1)
}

func readLine(t *testing.T, from interface{ Read([]byte) (int, error) }) string {
	t.Helper()
	line, err := bufio.NewReader(from).ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimSuffix(line, "\n")
}

// openBesideTool opens a file with a session that has the job "a", and opens the file again for
// another process.
func openBesideTool(t *testing.T) (s *sqlite.Store, session uuid.UUID, tool *sqlite.Store) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "holdfast.db")
	s = openAt(t, path)
	session = openSession(t, s)
	if _, err := s.Register(t.Context(), session,
		[]storage.Definition{{Name: "a", Hash: "h"}}); err != nil {
		t.Fatal(err)
	}
	tool, err := sqlite.Open(t.Context(), path, sqlite.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { tool.Close() })
	return s, session, tool
}

func TestToolReadsAndTriggersBesideAScheduler(t *testing.T) {
	s, session, tool := openBesideTool(t)
	requests := batch(t, 1)
	if _, err := s.Start(t.Context(), session, requests); err != nil {
		t.Fatal(err)
	}
	locks, err := tool.Locks(t.Context())
	if err != nil || len(locks) != 2 || locks[0].Holder.Run != requests[0].Run.String() ||
		!locks[0].Expires.After(time.Now()) {
		t.Errorf("locks %+v (%v)", locks, err)
	}
	triggered, err := tool.Trigger(t.Context(), storage.Action{Actor: "test", Via: "cli"},
		storage.TriggerRequest{Job: "a", Key: "k"})
	if err != nil {
		t.Fatal(err)
	}
	if adopted, err := s.Adopt(t.Context(), session, jobstest.Adoption(nil, 1, "a")); err != nil ||
		len(adopted) != 1 || adopted[0].ID != triggered.ID {
		t.Errorf("adopted %+v (%v), want run %s", adopted, err, triggered.ID)
	}
	refuseSessions(t, tool, session)
	before := beatOf(t, tool, session)
	if _, err := s.Heartbeat(t.Context(), session, storage.ReplicaStatus{}); err != nil {
		t.Fatal(err)
	}
	if after := beatOf(t, tool, session); !after.After(before) {
		t.Errorf("last heartbeat %s, then %s: the tool doesn't see it", before, after)
	}
}

// TestToolSeesTheHeartbeatsOfABusyReplica checks that short transactions do not keep heartbeats
// from the file.
func TestToolSeesTheHeartbeatsOfABusyReplica(t *testing.T) {
	s, session, tool := openBesideTool(t)
	var stop atomic.Bool
	var writing sync.WaitGroup
	for range 2 { // so that the writer is in use nearly always
		writing.Go(func() {
			for !stop.Load() {
				if _, err := s.Trigger(t.Context(), storage.Action{Actor: "test", Via: "cli"},
					storage.TriggerRequest{Job: "a"}); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	before := beatOf(t, tool, session)
	for i := range 10 {
		if _, err := s.Heartbeat(t.Context(), session, storage.ReplicaStatus{}); err != nil {
			t.Error(err)
		}
		after := beatOf(t, tool, session)
		if !after.After(before) {
			t.Errorf("heartbeat %d: the tool still sees that of %s", i, before)
		}
		before = after
	}
	stop.Store(true)
	writing.Wait()
}

func refuseSessions(t *testing.T, tool *sqlite.Store, session uuid.UUID) {
	t.Helper()
	ctx := t.Context()
	_, heartbeat := tool.Heartbeat(ctx, session, storage.ReplicaStatus{})
	_, start := tool.Start(ctx, session, batch(t, 1))
	_, note := tool.Note(ctx, session, nil)
	_, sweep := tool.Sweep(ctx)
	_, adopt := tool.Adopt(ctx, session, jobstest.Adoption(nil, 1, "a"))
	_, misfires := tool.CheckMisfires(ctx, nil, nil)
	_, register := tool.Register(ctx, session, nil)
	for what, err := range map[string]error{
		"open": tool.Open(ctx, storage.Session{ID: uuid.New()}), "end": tool.End(ctx, session),
		"heartbeat": heartbeat, "start": start, "note": note, "sweep": sweep, "adopt": adopt, "misfires": misfires, "register": register,
	} {
		if !errors.Is(err, sqlite.ErrNotExclusive) {
			t.Errorf("%s by a tool: %v, want ErrNotExclusive", what, err)
		}
	}
}

func beatOf(t *testing.T, s *sqlite.Store, session uuid.UUID) time.Time {
	t.Helper()
	replicas, err := s.Replicas(t.Context())
	if err != nil || len(replicas) != 1 || replicas[0].Session != session {
		t.Fatalf("replicas %+v (%v)", replicas, err)
	}
	return replicas[0].LastHeartbeat
}

func TestFileIsDurable(t *testing.T) {
	s := open(t)
	for pragma, want := range map[string]string{"journal_mode": "wal", "synchronous": "2",
		"foreign_keys": "1"} {
		var got string
		if err := s.Writer().QueryRow("PRAGMA " + pragma).Scan(&got); err != nil || got != want {
			t.Errorf("%s is %s (%v), want %s", pragma, got, err, want)
		}
	}
}
