package main

import (
	"cmp"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// options say how much, how long, and on which settings.
type options struct {
	jobs       loads
	seconds    int           // of measuring, for each load
	warmUp     time.Duration // between the replicas' start and the first measured second
	grace      time.Duration // after the last measured second, for firings that are late
	replicas   int
	processes  int // that the replicas share; 0: each replica has its own
	workers    int // of each replica
	pool       int // connections of each replica to PostgreSQL
	fsync      bool
	noOp       bool          // the jobs' handler does nothing
	share      bool          // the inserts may share transactions
	tables     int           // that the jobs share; 0: each job has its own
	hold       time.Duration // for which a job that shares its table holds it
	spread     time.Duration // over which the firings of a second are spread
	profile    string        // the folder for profiles; "" for none
	statements bool
	postgres   []string // further settings of PostgreSQL
	river      string   // the program river, which is measured too; "" for none
	bare       bool     // measure bare processes and no load
}

// loads is the flag -jobs: numbers separated by commas.
type loads []int

// String returns the numbers as the flag takes them.
func (l *loads) String() string {
	texts := make([]string, len(*l))
	for i, n := range *l {
		texts[i] = strconv.Itoa(n)
	}
	return strings.Join(texts, ",")
}

// Set replaces the numbers.
func (l *loads) Set(text string) error {
	*l = nil
	for field := range strings.SplitSeq(text, ",") {
		n, err := strconv.Atoi(strings.TrimSpace(field))
		if err != nil || n < 1 || n > 10_000 {
			return fmt.Errorf("expected numbers from 1 to 10000 separated by commas, found %q",
				field)
		}
		*l = append(*l, n)
	}
	return nil
}

func parseOptions(args []string, errOut io.Writer) (options, error) {
	o := options{jobs: loads{200, 1000}}
	flags := flag.NewFlagSet("bench", flag.ContinueOnError)
	flags.SetOutput(errOut)
	flags.Var(&o.jobs, "jobs", "jobs every second, one `number` a load")
	flags.IntVar(&o.seconds, "seconds", 20, "how many seconds to measure at each load")
	flags.DurationVar(&o.warmUp, "warm-up", 5*time.Second, "how long the replicas run before that")
	flags.DurationVar(&o.grace, "grace", 10*time.Second,
		"how long to wait for late firings after that")
	flags.IntVar(&o.replicas, "replicas", 3, "how many replicas")
	flags.IntVar(&o.processes, "processes", 0,
		"divide the replicas among so many processes; 0 for one process for each replica")
	flags.IntVar(&o.workers, "workers", 100, "runs at the same time on each replica")
	flags.IntVar(&o.pool, "connections", 20, "connections of each replica to PostgreSQL")
	flags.BoolVar(&o.noOp, "no-op", false,
		"run a Go handler that does nothing, as the peers' figures do, in place of the insert")
	flags.BoolVar(&o.share, "share", false,
		"permit the inserts of concurrent runs to share transactions")
	flags.IntVar(&o.tables, "tables", 0, "have the jobs contend for so many tables; needs -no-op")
	flags.DurationVar(&o.hold, "hold", 200*time.Millisecond,
		"how long a run holds its table, with -tables")
	flags.DurationVar(&o.spread, "spread", 0,
		"jitter of the jobs: spread the firings of each second over this time, below 1s")
	flags.BoolVar(&o.fsync, "fsync", false, "have PostgreSQL wait for the disk at each commit")
	flags.Func("postgres", "a further `setting` of PostgreSQL, name=value; may be given again",
		func(text string) error {
			o.postgres = append(o.postgres, text)
			return nil
		})
	flags.StringVar(&o.profile, "profile", "",
		"write a processor profile of each replica to this `folder`")
	flags.BoolVar(&o.statements, "statements", false,
		"print PostgreSQL's most expensive statements")
	flags.StringVar(&o.river, "river", "",
		"also measure the `program` examples/bench/river at each load; needs -no-op")
	flags.BoolVar(&o.bare, "bare", false,
		"measure only what -replicas processes take that do the least of a replica")
	if err := flags.Parse(args); err != nil {
		return options{}, err
	}
	if err := o.check(flags.Args()); err != nil {
		return options{}, err
	}
	return o, o.prepareProfile()
}

func (o options) check(rest []string) error {
	var problems []error
	if len(rest) > 0 {
		problems = append(problems, fmt.Errorf("expected only flags, found %q", rest))
	}
	for name, value := range map[string][3]int{
		"-seconds": {o.seconds, 1, 3600}, "-replicas": {o.replicas, 1, 48},
		"-workers": {o.workers, 1, 10_000}, "-connections": {o.pool, 5, 200},
	} {
		if value[0] < value[1] || value[0] > value[2] {
			problems = append(problems,
				fmt.Errorf("%s: expected %d to %d, found %d", name, value[1], value[2], value[0]))
		}
	}
	if o.processes < 0 || o.processes > o.replicas {
		problems = append(problems, fmt.Errorf("-processes: expected 0 to %d, the number of "+
			"replicas, found %d", o.replicas, o.processes))
	}
	if o.processes > 0 && (o.river != "" || o.bare) {
		problems = append(problems, errors.New("-processes: expected without -river and -bare"))
	}
	if o.river != "" && !o.noOp {
		problems = append(problems, errors.New("-river: expected with -no-op"))
	}
	if o.share && o.noOp {
		problems = append(problems, errors.New("-share: expected without -no-op"))
	}
	if o.tables < 0 || o.tables > 0 && !o.noOp {
		problems = append(problems, errors.New("-tables: expected a positive number with -no-op"))
	}
	if o.hold < 0 {
		problems = append(problems, errors.New("-hold: expected no negative time"))
	}
	if o.warmUp < 0 || o.grace < 0 {
		problems = append(problems, errors.New("-warm-up, -grace: expected no negative time"))
	}
	return errors.Join(problems...)
}

func (o *options) prepareProfile() (err error) {
	if o.profile == "" {
		return nil
	}
	if o.profile, err = filepath.Abs(o.profile); err != nil {
		return fmt.Errorf("folder for profiles: %w", err)
	}
	if err := os.MkdirAll(o.profile, 0o755); err != nil {
		return fmt.Errorf("folder for profiles: %w", err)
	}
	return nil
}

// fixed is how many connections a replica has beside those of -connections (docs/scaling.md).
const fixed = 5

// settings are PostgreSQL's, after those of servertest: what an administrator
// would choose for a small server, but for the disk.
func (o options) settings() []string {
	settings := []string{
		"max_connections=" + strconv.Itoa(o.replicas*(o.pool+fixed)+20), "shared_buffers=256MB",
		"max_wal_size=4GB",
		"full_page_writes=on", "synchronous_commit=on", "fsync=off",
	}
	if o.fsync {
		settings = append(settings, "fsync=on")
	}
	if o.statements {
		settings = append(settings, "shared_preload_libraries=pg_stat_statements",
			"pg_stat_statements.track_planning=on")
	}
	return append(settings, o.postgres...)
}

// divide returns the names of the replicas of each process.
func (o options) divide() [][]string {
	processes := make([][]string, cmp.Or(o.processes, o.replicas))
	for i := range o.replicas {
		process := &processes[i%len(processes)]
		*process = append(*process, "replica-"+strconv.Itoa(i+1))
	}
	return processes
}

// work is what the jobs do.
func (o options) work() string {
	if o.noOp {
		return "handlers that do nothing"
	}
	return "one-row inserts"
}

func (o options) describe() string {
	return fmt.Sprintf(
		`%d replicas in %d processes, with %d workers and %d connections each; their jobs: %s.
PostgreSQL: %s; all else as it comes.
memcached: as it comes. Each load: %s of warm-up, %d s of measuring, late firings get %s more.`,
		o.replicas, cmp.Or(o.processes, o.replicas), o.workers, o.pool, o.work(),
		strings.Join(o.settings(), " "), o.warmUp, o.seconds, o.grace)
}
