package simulation

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"
	"time"

	"github.com/holdfast-dev/holdfast/jobs"
	"github.com/holdfast-dev/holdfast/jobs/schedule"
	"github.com/holdfast-dev/holdfast/locking"
	"github.com/holdfast-dev/holdfast/retry"
)

// Tables are the cron tables of successive deploys. A job's description is the number of its
// deploy.
type Tables [][]jobs.Job

// Job returns the job of the definition with that description.
func (t Tables) Job(name, description string) (jobs.Job, error) {
	deploy, err := strconv.Atoi(description)
	if err != nil || deploy >= len(t) {
		return jobs.Job{}, fmt.Errorf("job %s is described as %q, which is no deploy", name,
			description)
	}
	for _, job := range t[deploy] {
		if job.Name == name {
			return job, nil
		}
	}
	return jobs.Job{}, fmt.Errorf("job %s is not in deploy %d", name, deploy)
}

// Groups are the groups of the jobs.
var Groups = []string{"night", "reports"}

// limits are the limits of the groups: of dense jobs, and of others.
var limits = map[bool]map[string]jobs.GroupLimits{
	true:  {"night": {PerCluster: 2, PerReplica: 2}, "reports": {PerReplica: 2}},
	false: {"night": {PerCluster: 8, PerReplica: 3}, "reports": {PerReplica: 2}},
}

// zones have many kinds of rules: shifts of half an hour, of two hours, none in Ramadan, and winter
// time as the exception.
var zones = []string{"UTC", "Europe/Berlin", "America/New_York", "Australia/Lord_Howe",
	"Antarctica/Troll", "Africa/Casablanca", "Europe/Dublin", "Asia/Kolkata", "Pacific/Apia"}

// jitters are the jitters of dense jobs, and of others.
var jitters = map[bool][]time.Duration{true: {time.Second, 8 * time.Second},
	false: {time.Minute, 30 * time.Minute}}

// drawer draws jobs.
type drawer struct {
	*rand.Rand
	dense       bool
	from, until time.Time
	calendars   []*schedule.Calendar
	added       string // the description of the added job that is drawn
}

// NewTables draws n jobs of all kinds for the interval, and their changes by deploys. Each deploy
// changes one job in ten, and adds or removes one in fifty. Dense jobs fire every few seconds or
// minutes, others mostly once a day or less.
func NewTables(seed uint64, n, deploys int, from, until time.Time, dense bool) (Tables, error) {
	d := &drawer{Rand: rand.New(rand.NewPCG(seed, 1)), dense: dense, from: from, until: until}
	if err := d.drawCalendars(); err != nil {
		return nil, err
	}
	table := make([]jobs.Job, n)
	for i := range table {
		job, err := d.job(fmt.Sprintf("job-%03d", i), i)
		if err != nil {
			return nil, err
		}
		if i%dependents == dependents-1 {
			job.Name = fmt.Sprintf("after-%03d", i)
			job.Schedule, err = d.after(table[i-2].Name, table[i-1].Name)
		}
		if err != nil {
			return nil, err
		}
		table[i] = job
	}
	tables := Tables{d.describe(table, 0)}
	for deploy := 1; deploy < deploys; deploy++ {
		changed, err := d.change(tables[deploy-1], deploy)
		if err != nil {
			return nil, err
		}
		tables = append(tables, d.describe(changed, deploy))
	}
	return tables, nil
}

func (d *drawer) describe(table []jobs.Job, deploy int) []jobs.Job {
	described := make([]jobs.Job, len(table))
	for i, job := range table {
		job.Description = strconv.Itoa(deploy)
		described[i] = job
	}
	return described
}

// change returns the table after a deploy.
func (d *drawer) change(before []jobs.Job, deploy int) ([]jobs.Job, error) {
	dependencies := map[string]bool{}
	for _, job := range before {
		for _, name := range job.Schedule.After() {
			dependencies[name] = true
		}
	}
	var after []jobs.Job
	for i, job := range before {
		follows := len(job.Schedule.After()) > 0
		switch chance := d.IntN(100); {
		case chance < 2 && !follows && !dependencies[job.Name]: // is removed
			continue
		case chance < 6 && !follows: // gets another schedule
			s, err := d.schedule(i)
			if err != nil {
				return nil, err
			}
			job.Schedule = s
		case chance < 12: // gets other locks and another wait policy
			fresh, err := d.job(job.Name, i)
			if err != nil {
				return nil, err
			}
			fresh.Schedule = job.Schedule
			job = fresh
		}
		after = append(after, job)
	}
	for i := range 1 + len(before)/50 {
		job, err := d.job(fmt.Sprintf("job-of-deploy-%d-%d", deploy, i), d.IntN(200))
		if err != nil {
			return nil, err
		}
		after = append(after, job)
	}
	return after, nil
}

// dependents is how many jobs there are per dependent.
const dependents = 15

// after draws the schedule of a dependent of one of the two jobs, or of both.
func (d *drawer) after(first, second string) (schedule.Schedule, error) {
	names := [][]string{{first}, {second}, {first, second}}[d.IntN(3)]
	s, err := schedule.Parse(schedule.Spec{After: names}, time.UTC)
	if err == nil && d.IntN(3) == 0 {
		s = s.WithCalendars(pick(d, d.calendars...))
	}
	return s, err
}

// job draws the i-th job. The kind of its schedule follows from i, so that every kind occurs.
func (d *drawer) job(name string, i int) (jobs.Job, error) {
	s, err := d.schedule(i)
	if err != nil {
		return jobs.Job{}, err
	}
	resources, exclusive, err := d.resources()
	if err != nil {
		return jobs.Job{}, err
	}
	takes := pick(d, time.Second, 10*time.Second, time.Minute, 5*time.Minute, 20*time.Minute)
	if d.dense {
		takes = pick(d, 10*time.Millisecond, 300*time.Millisecond, time.Second, 5*time.Second,
			30*time.Second)
	}
	params, err := json.Marshal(Work{Takes: jobs.Duration(takes), Fails: pick(d, 0, 0, 0.05, 0.5),
		Stubborn: pick(d, 0, 0, 0.2), Added: d.added})
	job := jobs.Job{
		Name: name, Schedule: s, Handler: "work", Params: params, Resources: resources,
		Overlap:          pick(d, jobs.OverlapSkip, jobs.OverlapSkip, jobs.OverlapQueue),
		Misfire:          pick(d, jobs.MisfireRunOnce, jobs.MisfireSkip, jobs.MisfireRunAll),
		MisfireThreshold: pick(d, 30*time.Second, time.Minute, 10*time.Minute),
		Timeout:          pick(d, 0, 0, 3*time.Minute), Recover: pick(d, false, true),
		Group: pick(d, "", Groups[0], Groups[1]), Priority: d.IntN(10),
		Wait: pick(d, retry.Policy{},
			retry.Policy{Attempts: 5, Delay: time.Second, Backoff: retry.Exponential,
				MaxDelay: time.Minute, Jitter: 0.2},
			retry.Policy{Elapsed: 20 * time.Minute, Delay: 30 * time.Second}),
		Retry: pick(d, retry.Policy{}, retry.Policy{},
			retry.Policy{Attempts: 3, Delay: 10 * time.Second, Backoff: retry.Exponential}),
	}
	if d.dense {
		job.MisfireThreshold, job.Timeout = pick(d, 2*time.Second, 10*time.Second, time.Minute),
			pick(d, 0, 0, 4*time.Second)
	}
	if !exclusive && d.IntN(2) == 0 {
		job.Overlap = jobs.OverlapAllow
	}
	job.GroupLimits, job.MisfireBy = limits[d.dense][job.Group], d.misfireRules()
	if longest := jitters[d.dense][1]; d.IntN(4) == 0 { // leaves room for the delay
		job.Deadline = longest + pick(d, job.MisfireThreshold/2, 2*job.MisfireThreshold,
			5*job.MisfireThreshold)
	}
	return job, err
}

// misfireRules draws the policies for causes other than an outage.
func (d *drawer) misfireRules() jobs.MisfireRules {
	policies := []jobs.Misfire{"", jobs.MisfireSkip, jobs.MisfireRunOnce, jobs.MisfireRunAll}
	rules := jobs.MisfireRules{NoWorker: pick(d, policies...), Paused: pick(d, policies...),
		LockHeld: pick(d, policies...), Limit: pick(d, 0, 1, 3, 20)}
	if d.dense {
		rules.MaxAge = pick(d, 0, 0, 30*time.Second, 3*time.Minute)
	} else {
		rules.MaxAge = pick(d, 0, 0, 6*time.Hour, 3*24*time.Hour)
	}
	return rules
}

func pick[T any](d *drawer, of ...T) T { return of[d.IntN(len(of))] }

// resources are few and related, so that jobs with the same scheduled time conflict.
func (d *drawer) resources() (requests []locking.Request, exclusive bool, err error) {
	for range d.IntN(3) {
		table := locking.Request{Mode: pick(d, locking.Exclusive, locking.Exclusive,
			locking.Shared)}
		name := fmt.Sprintf("%s.t%d", pick(d, "sales", "stock", "people"), d.IntN(12))
		if d.IntN(25) == 0 {
			name, table.Mode = "people.*", locking.Shared
		}
		if table.Resource, err = locking.Table(name, "public"); err != nil {
			return nil, false, err
		}
		requests, exclusive = append(requests, table), exclusive || table.Mode == locking.Exclusive
	}
	if d.IntN(6) == 0 {
		slot := locking.Request{Mode: locking.Slotted, Slots: 2}
		if slot.Resource, err = locking.Slot(pick(d, "vendor", "mail")); err != nil {
			return nil, false, err
		}
		requests = append(requests, slot)
	}
	return withoutRepetitions(requests), exclusive, nil
}

func withoutRepetitions(requests []locking.Request) []locking.Request {
	seen := map[locking.Resource]bool{}
	var kept []locking.Request
	for _, r := range requests {
		if !seen[r.Resource] {
			seen[r.Resource] = true
			kept = append(kept, r)
		}
	}
	return kept
}

func (d *drawer) drawCalendars() error {
	for _, spec := range []schedule.CalendarSpec{
		{Name: "holidays", Exclude: schedule.TimesSpec{
			Dates: []string{"01-01", "05-01", "12-24..12-26"}}},
		{Name: "weekends", Exclude: schedule.TimesSpec{Weekdays: []string{"sat-sun"}}},
		{Name: "nights", Exclude: schedule.TimesSpec{Windows: []string{"22:00-06:00"}}},
		{Name: "office", Only: schedule.TimesSpec{Weekdays: []string{"mon-fri"},
			Windows: []string{"08:00-18:00"}}},
		{Name: "closing", Exclude: schedule.TimesSpec{Cron: []string{"quartz:0 0-30 * L * ?"}}},
	} {
		c, err := schedule.NewCalendar(spec)
		if err != nil {
			return err
		}
		d.calendars = append(d.calendars, c)
	}
	return nil
}

// schedule draws a schedule of the i-th kind. Some fire often, most seldom.
func (d *drawer) schedule(i int) (schedule.Schedule, error) {
	minute, hour := pick(d, 0, 0, 0, 15, 30, d.IntN(60)), d.IntN(24)
	at := d.from.Add(time.Duration(d.Float64() * float64(d.until.Sub(d.from)))).
		Truncate(time.Second)
	text := ""
	switch {
	case d.dense:
		text = pick(d,
			"* * * * *", "*/20 * * * * *", "5-40/7 * * * * *",
			fmt.Sprintf("every:%ds", 3+d.IntN(60)), fmt.Sprintf("every:%ds", 3+d.IntN(60)),
			"quartz:0/11 * * * * ?", "quartz:30 0/2 * ? * *", "*/15 * * * *",
			"at:"+at.Format(time.RFC3339),
			fmt.Sprintf("every 90s between %02d:00 and %02d:00", hour%12, 12+hour/2),
		)
	case i%200 == 0:
		text = "*/15 * * * *"
	case i%100 == 1:
		text = fmt.Sprintf("%d * * * *", minute)
	default:
		text = pick(d,
			fmt.Sprintf("%d */%d * * *", minute, 3+d.IntN(8)),
			fmt.Sprintf("%d %d * * *", minute, hour),
			fmt.Sprintf("%d %d * * *", minute, hour),
			"30 2 * * *", "15 1 * * *", "0 0 * * *", // at changes of the clock
			fmt.Sprintf("%d %d %d * *", minute, hour, 1+d.IntN(31)),
			fmt.Sprintf("%d %d * * 1-5", minute, hour),
			fmt.Sprintf("quartz:0 %d %d ? * MON-FRI", minute, hour),
			fmt.Sprintf("quartz:0 %d %d L * ?", minute, hour),
			fmt.Sprintf("quartz:0 %d %d ? * %d#%d", minute, hour, 1+d.IntN(7), 1+d.IntN(4)),
			fmt.Sprintf("quartz:0 %d %d LW * ?", minute, hour),
			fmt.Sprintf("quartz:%d %d %d-%d/2 * * ?", d.IntN(60), minute, d.IntN(6), 12+d.IntN(10)),
			fmt.Sprintf("every:%dm", 90+d.IntN(1000)),
			fmt.Sprintf("every 1 month at %02d:%02d", hour, minute),
			fmt.Sprintf("every 2h between %02d:00 and %02d:00 on mon-fri", d.IntN(10),
				14+d.IntN(8)),
			"at:"+at.Format(time.RFC3339),
		)
	}
	zone, err := time.LoadLocation(pick(d, zones...))
	if err != nil {
		return schedule.Schedule{}, err
	}
	if strings.HasPrefix(text, "every:") || strings.HasPrefix(text, "at:") {
		zone = time.UTC
	}
	s, err := schedule.ParseText(text, zone)
	if err != nil {
		return s, err
	}
	s = s.WithClockChanges(schedule.ClockChanges{Skip: pick(d, false, true),
		Both: pick(d, false, true)})
	if d.IntN(4) == 0 {
		if within := s.WithCalendars(pick(d, d.calendars...)); !within.Next(d.from).IsZero() {
			s = within
		}
	}
	if d.IntN(5) == 0 && !strings.HasPrefix(text, "at:") {
		s = s.WithJitter(pick(d, jitters[d.dense]...))
	}
	return s, nil
}
