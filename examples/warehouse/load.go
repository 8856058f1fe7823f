package main

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"strconv"
	"time"

	"github.com/holdfast-dev/holdfast/internal/test/servertest"
)

// transactionRate is pgbench's, a second: much less than it could do, so that
// the machine has room for three replicas and the totals stay comparable.
const transactionRate = 400

// pgbench is PostgreSQL's own load tool.
type pgbench struct{ path string }

func findPgbench() (pgbench, error) {
	path, err := servertest.FindBinary("pgbench", "postgresql")
	return pgbench{path}, err
}

// initialise makes pgbench's tables in the database.
func (p pgbench) initialise(ctx context.Context, url string, scale int) error {
	_, err := p.run(ctx, "-i", "-q", "-s", strconv.Itoa(scale), url)
	return err
}

var processed = regexp.MustCompile(`number of transactions actually processed: (\d+)`)

// load runs the tpcb-like transactions for whole seconds and returns how many
// were committed. It does not vacuum first (-n), which would empty the history.
func (p pgbench) load(ctx context.Context, url string, clients int,
	lasts time.Duration) (int64, error) {
	output, err := p.run(ctx, "-n", "-b", "tpcb-like", "-c", strconv.Itoa(clients), "-j", "1",
		"-T", strconv.Itoa(int(lasts.Seconds())), "-R", strconv.Itoa(transactionRate), url)
	if err != nil {
		return 0, err
	}
	match := processed.FindSubmatch(output)
	if match == nil {
		return 0, fmt.Errorf("pgbench said nothing about its transactions: %s",
			bytes.TrimSpace(output))
	}
	return strconv.ParseInt(string(match[1]), 10, 64)
}

func (p pgbench) run(ctx context.Context, args ...string) ([]byte, error) {
	cmd := exec.CommandContext(ctx, p.path, args...)
	cmd.Env = append(os.Environ(), "LC_ALL=C")
	output, err := cmd.CombinedOutput()
	if ctx.Err() != nil {
		return nil, fmt.Errorf("pgbench: %w", context.Cause(ctx))
	}
	if err != nil {
		return nil, fmt.Errorf("pgbench: %w: %s", err, bytes.TrimSpace(output))
	}
	return output, nil
}
