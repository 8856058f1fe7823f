package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"syscall"
	"time"
)

// riverLeader is the time in which River's nodes elect the one that inserts periodic jobs.
const riverLeader = 10 * time.Second

// riverBy returns the scheduler River. Its nodes are processes of the program
// examples/bench/river.
func riverBy(program string) scheduler {
	return scheduler{name: "river",
		start: func(ctx context.Context, l load, dir string) (nodes, error) {
			return startRiver(ctx, l, dir, program)
		},
		pairs: `
SELECT args ->> 'job', scheduled_at,
    CASE state WHEN 'completed' THEN 'succeeded' ELSE state::text END, attempted_at,
    finalized_at, NULL::timestamptz FROM public.river_job`,
		ended: "SELECT count(*) FROM public.river_job WHERE scheduled_at >= $1 AND " +
			"scheduled_at < $2 AND finalized_at IS NOT NULL"}
}

// riverNodes are the processes of one load.
type riverNodes []*riverNode

type riverNode struct {
	command *exec.Cmd
	log     *os.File
	waited  bool
}

// startRiver creates River's tables and starts its nodes. It returns when they have a leader.
func startRiver(ctx context.Context, l load, dir, program string) (_ riverNodes, err error) {
	url := l.servers.postgres.URL(l.database())
	//nolint:gosec // the program is an argument of the user
	if out, err := exec.CommandContext(ctx, program, "-url", url, "-migrate").
		CombinedOutput(); err != nil {
		return nil, fmt.Errorf("tables of river: %w\n%s", err, out)
	}
	var all riverNodes
	for i := range l.options.replicas {
		log, err := os.Create(filepath.Join(dir, "river-"+strconv.Itoa(i+1)+".log"))
		if err != nil {
			return nil, errors.Join(fmt.Errorf("log of river: %w", err), all.kill())
		}
		//nolint:gosec // the program is an argument of the user
		c := exec.Command(program, "-url", url, "-jobs", strconv.Itoa(l.jobs),
			"-workers", strconv.Itoa(l.options.workers),
			"-connections", strconv.Itoa(l.options.pool))
		c.Stderr = log
		node := &riverNode{command: c, log: log}
		if err := c.Start(); err != nil {
			return nil, errors.Join(fmt.Errorf("start river: %w", err), log.Close(), all.kill())
		}
		all = append(all, node)
	}
	if err := sleepUntil(ctx, time.Now().Add(riverLeader)); err != nil {
		return nil, errors.Join(err, all.kill())
	}
	return all, nil
}

func (n riverNodes) pids() []int {
	pids := make([]int, len(n))
	for i, node := range n {
		pids[i] = node.command.Process.Pid
	}
	return pids
}

// stop implements nodes.
func (n riverNodes) stop(ctx context.Context) error {
	var problems []error
	for _, node := range n {
		problems = append(problems, node.command.Process.Signal(syscall.SIGTERM))
	}
	bounded, cancel := context.WithTimeout(ctx, stopLimit)
	defer cancel()
	killLate := context.AfterFunc(bounded, func() {
		for _, node := range n {
			_ = node.command.Process.Kill() // it may have ended meanwhile
		}
	})
	defer killLate()
	for _, node := range n {
		problems = append(problems, node.wait())
	}
	return errors.Join(problems...)
}

// wait waits for the end of the process. Its error has the log.
func (n *riverNode) wait() error {
	n.waited = true
	err := n.command.Wait()
	if err != nil {
		text, readErr := os.ReadFile(n.log.Name())
		err = errors.Join(fmt.Errorf("river ended badly: %w\n%.2000s", err, text), readErr)
	}
	return errors.Join(err, n.log.Close())
}

// kill implements nodes.
func (n riverNodes) kill() error {
	var problems []error
	for _, node := range n {
		if !node.waited {
			problems = append(problems, node.command.Process.Kill())
			_ = node.wait() // it was killed
		}
	}
	return errors.Join(problems...)
}
