package fence

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"

	"github.com/google/uuid"

	"github.com/holdfast-dev/holdfast/internal/test/servertest"
	"github.com/holdfast-dev/holdfast/jobs"
	"github.com/holdfast-dev/holdfast/jobs/storage"
)

// childVariable has the order of a child as JSON.
const childVariable = "HOLDFAST_FENCE_CHILD"

// order is what a child does: it begins a fenced transaction, writes, and commits when its standard
// input ends.
type order struct {
	Driver, Source, Dialect string
	Cluster                 uuid.UUID
	Token                   jobs.Token
}

// child is a process that stands for a replica inside a fenced transaction.
type child struct {
	cmd    *exec.Cmd
	input  io.WriteCloser
	output *bufio.Reader
}

// startChild returns a child that has written and has not committed.
func startChild(t *testing.T, o order) *child {
	t.Helper()
	text, err := json.Marshal(o)
	if err != nil {
		t.Fatal(err)
	}
	program, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	c := &child{cmd: exec.Command(program)}
	c.cmd.Env = append(os.Environ(), childVariable+"="+string(text))
	c.cmd.Stderr = os.Stderr
	c.cmd.SysProcAttr = &syscall.SysProcAttr{}
	servertest.DieWithParent(c.cmd.SysProcAttr, syscall.SIGKILL)
	if c.input, err = c.cmd.StdinPipe(); err != nil {
		t.Fatal(err)
	}
	stdout, err := c.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	c.output = bufio.NewReader(stdout)
	if err := c.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = c.cmd.Process.Kill()
		_ = c.cmd.Wait()
	})
	if line := c.line(t); line != "inside" {
		t.Fatalf("got %q from the child, want inside", line)
	}
	return c
}

func (c *child) line(t *testing.T) string {
	t.Helper()
	line, err := c.output.ReadString('\n')
	if err != nil {
		t.Fatalf("read from the child: %v", err)
	}
	return strings.TrimSpace(line)
}

// runChild is main of a child.
func runChild(ctx context.Context, text string) error {
	var o order
	if err := json.Unmarshal([]byte(text), &o); err != nil {
		return err
	}
	d, err := DialectNamed(o.Dialect)
	if err != nil {
		return err
	}
	on, err := connect(o.Driver, o.Source, d)
	if err != nil {
		return err
	}
	conn, err := on.db.Conn(ctx)
	if err != nil {
		return err
	}
	tx, err := conn.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	if err := InTx(ctx, newRun(o.Cluster, o.Token, "public/orders"), SQL(tx, d)); err != nil {
		return err
	}
	if err := on.write(ctx, tx, "orders", o.Token); err != nil {
		return err
	}
	// IdleLimit would take a minute. No statement follows, because a busy machine may pause for
	// longer than this limit.
	limit := "SET LOCAL idle_in_transaction_session_timeout = '1s'"
	if o.Driver == "mysql" {
		limit = "SET SESSION idle_transaction_timeout = 1"
	}
	if _, err := tx.ExecContext(ctx, limit); err != nil {
		return err
	}
	fmt.Println("inside")
	if _, err := io.ReadAll(os.Stdin); err != nil {
		return err
	}
	if err := tx.Commit(); err != nil {
		return err
	}
	fmt.Println("committed")
	return nil
}

// TestFrozenReplica freezes a replica inside its transaction. A conflicting run gets the rows when
// the server ends that transaction, and the frozen replica commits nothing when it continues.
func TestFrozenReplica(t *testing.T) {
	onFenced(t, func(t *testing.T, on *target, old *child) {
		if err := servertest.Freeze(old.cmd.Process.Pid); err != nil {
			t.Fatal(err)
		}
		on.takeOver(t)
		if err := servertest.Thaw(old.cmd.Process.Pid); err != nil {
			t.Fatal(err)
		}
		if err := old.input.Close(); err != nil {
			t.Fatal(err)
		}
		if line := old.line(t); !strings.HasPrefix(line, "failed:") {
			t.Errorf("got %q from the replica that was frozen, want a failure", line)
		}
	})
}

// TestKilledReplica kills a replica inside its transaction.
func TestKilledReplica(t *testing.T) {
	onFenced(t, func(t *testing.T, on *target, old *child) {
		if err := old.cmd.Process.Kill(); err != nil {
			t.Fatal(err)
		}
		on.takeOver(t)
	})
}

// onFenced runs a test with a replica inside a fenced transaction of a run with token 5. In the end
// only the run with token 7 may have written, and a run with token 5 is superseded.
func onFenced(t *testing.T, test func(t *testing.T, on *target, old *child)) {
	onEach(t, func(t *testing.T, on *target) {
		old := startChild(t, order{on.driver, on.source, on.dialect.Name(), clusterOf(t), 5})
		test(t, on, old)
		if got := on.tokens(t, "orders"); len(got) != 1 || got[0] != 7 {
			t.Errorf("got writes by the tokens %d, want only 7", got)
		}
		err := DoSQL(t.Context(), newRun(clusterOf(t), 5, "public/orders"), on.db, on.dialect,
			on.writer(t, "orders", 5))
		if !errors.Is(err, storage.ErrSuperseded) {
			t.Errorf("got %v from the older run, want ErrSuperseded", err)
		}
	})
}

// takeOver executes a run with token 7.
func (on *target) takeOver(t *testing.T) {
	t.Helper()
	run := newRun(clusterOf(t), 7, "public/orders")
	if err := DoSQL(t.Context(), run, on.db, on.dialect, on.writer(t, "orders", 7)); err != nil {
		t.Fatal(err)
	}
}
