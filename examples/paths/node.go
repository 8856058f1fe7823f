package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/holdfast-dev/holdfast/internal/test/fleet"
	"github.com/holdfast-dev/holdfast/locking"
)

const (
	sessionTTL     = 5 * time.Second
	requestTimeout = 2 * time.Second
	changeTime     = 2 * time.Millisecond // what a move takes on the disk
	atWork         = 256                  // requests at a time on a node; more are turned away
)

// serve is a node's process: either
//
//	load CUSTOMERS RATE SECONDS  or  hold CUSTOMER PATH…
func serve(ctx context.Context, args []string) (err error) {
	m, err := fleet.Join(ctx, fleet.Settings{Lease: 10 * time.Second, SessionTTL: sessionTTL,
		Connections: 8})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, m.Leave()) }()
	n := &node{locker: locker{Member: m, timeout: requestTimeout},
		places: make(chan struct{}, atWork)}
	switch {
	case len(args) >= 3 && args[0] == "hold":
		return n.hold(ctx, args[1], args[2:])
	case len(args) == 4 && args[0] == "load":
		return n.load(ctx, args[1:])
	}
	return fmt.Errorf("expected load or hold with what they need, found %q", args)
}

// node is one node of the file server.
type node struct {
	locker
	places chan struct{}
	counts struct{ served, timedOut, shed atomic.Int64 }

	mu      sync.Mutex
	times   []time.Duration // of locking and releasing
	changes []change
	err     error // the first that was not a lock held by another
}

// hold locks the paths, says so, and holds them until it is told to end.
func (n *node) hold(ctx context.Context, customer string, paths []string) error {
	lock, err := n.lockPaths(ctx, customer, paths...)
	if err != nil {
		return err
	}
	fmt.Println("holding")
	select {
	case <-ctx.Done():
	case <-lock.Context().Done():
		return context.Cause(lock.Context())
	}
	return lock.Release(context.WithoutCancel(ctx))
}

// load serves the requests that this node's share of the customers makes: they
// come at their rate, however long those before them take.
func (n *node) load(ctx context.Context, args []string) error {
	customers, err := strconv.Atoi(args[0])
	if err != nil {
		return err
	}
	rate, err := strconv.ParseFloat(args[1], 64)
	if err != nil {
		return err
	}
	duration, err := time.ParseDuration(args[2])
	if err != nil {
		return err
	}
	fmt.Println("ready")
	interval := time.Duration(float64(time.Second) / (rate * float64(customers)))
	var under sync.WaitGroup
	start := time.Now()
	for i := 0; ; i++ {
		at := start.Add(time.Duration(i) * interval)
		if at.Sub(start) >= duration {
			break
		}
		if err := pause(ctx, time.Until(at)); err != nil {
			return err
		}
		select {
		case n.places <- struct{}{}:
			under.Go(func() {
				n.request(ctx, fmt.Sprint(rand.IntN(customers)))
				<-n.places
			})
		default:
			n.counts.shed.Add(1)
		}
	}
	under.Wait()
	return n.report(time.Since(start))
}

// request is one of a customer's: a change of one path, or a move from one to
// another.
func (n *node) request(ctx context.Context, customer string) {
	paths := []string{randomPath()}
	if rand.IntN(4) == 0 {
		paths = append(paths, randomPath())
	}
	start := time.Now()
	lock, err := n.lockPaths(ctx, customer, paths...)
	if errors.Is(err, locking.ErrHeld) {
		n.counts.timedOut.Add(1)
		return
	}
	if err != nil {
		n.fail(err)
		return
	}
	locked := time.Since(start)
	change := change{customer: customer, paths: paths, from: time.Now().UnixNano()}
	err = pause(lock.Context(), changeTime)
	change.until = time.Now().UnixNano()
	releasing := time.Now()
	if err := errors.Join(err, lock.Release(ctx)); err != nil {
		n.fail(err)
		return
	}
	n.counts.served.Add(1)
	took := locked + time.Since(releasing)
	n.mu.Lock()
	defer n.mu.Unlock()
	n.times, n.changes = append(n.times, took), append(n.changes, change)
}

// report prints what the node did, the changes one by one.
func (n *node) report(took time.Duration) error {
	if n.err != nil {
		return n.err
	}
	for _, c := range n.changes {
		fmt.Println(c)
	}
	slices.Sort(n.times)
	fmt.Println("report", n.counts.served.Load(), n.counts.timedOut.Load(), n.counts.shed.Load(),
		int64(took), int64(percentile(n.times, 50)), int64(percentile(n.times, 99)))
	return nil
}

func percentile(sorted []time.Duration, p int) time.Duration {
	if len(sorted) == 0 {
		return 0
	}
	return sorted[(len(sorted)-1)*p/100]
}

func (n *node) fail(err error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.err == nil {
		n.err = err
	}
}

// randomPath is a path of a tree that is three folders wide and up to three
// deep; most requests are for its leaves.
func randomPath() string {
	path := "/shared"
	for depth := range 3 {
		if depth > 0 && rand.IntN(8) == 0 {
			break
		}
		path += "/" + []string{"Dallas", "austin", "Houston"}[rand.IntN(3)]
	}
	return path
}

func pause(ctx context.Context, d time.Duration) error {
	if d <= 0 {
		return nil
	}
	select {
	case <-time.After(d):
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
