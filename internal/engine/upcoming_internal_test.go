package engine

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-dev/holdfast/jobs"
	"github.com/holdfast-dev/holdfast/jobs/schedule"
)

// TestUpcomingStartsOfManyJobs compares the lists of successive and of earlier times with the next
// starts of all jobs.
func TestUpcomingStartsOfManyJobs(t *testing.T) {
	random := rand.New(rand.NewPCG(7, 7))
	now := time.Date(2026, 3, 29, 0, 0, 0, 0, time.UTC)
	newEntries := func(n int) (entries []*entry) {
		for i := range n {
			spec := schedule.Cron(fmt.Sprintf("%d %d * * *", i%60, i%24))
			switch i % 7 {
			case 0:
				spec = schedule.Every(time.Duration(1+i%50) * time.Second)
			case 1:
				spec = schedule.At(now.Truncate(time.Second).Add(time.Duration(i) * time.Minute))
			}
			parsed, err := schedule.Parse(spec, time.UTC)
			if err != nil {
				t.Fatal(err)
			}
			entries = append(entries, &entry{Job: jobs.Job{Name: fmt.Sprintf("job-%03d", i),
				Schedule: parsed.WithJitter(time.Duration(i%3) * time.Second)}})
		}
		return entries
	}
	var u upcomingStarts
	entries := newEntries(200)
	for i := range 300 {
		switch {
		case i%50 == 49:
			entries = newEntries(100 + i) // the table has changed
		case i%20 == 19:
			now = now.Add(-time.Minute)
		default:
			now = now.Add(time.Duration(random.Int64N(int64(time.Hour))))
		}
		var want []string
		firings := allUpcoming(entries, now)
		n := random.IntN(len(entries) + 10)
		for _, f := range firings[:min(n, len(firings))] {
			want = append(want, fmt.Sprint(f.Job, f.ScheduledAt, f.Start))
		}
		var got []string
		for _, f := range u.after(entries, now, n) {
			got = append(got, fmt.Sprint(f.Job, f.ScheduledAt, f.Start))
		}
		if !slices.Equal(got, want) {
			t.Fatalf("the first %d after %s are\n%s\nwant\n%s", n, now, strings.Join(got, "\n"),
				strings.Join(want, "\n"))
		}
	}
}

func allUpcoming(entries []*entry, from time.Time) (firings []ScheduledFiring) {
	for _, e := range entries {
		if at, start := e.Schedule.NextStart(e.Name, from); !at.IsZero() {
			firings = append(firings, ScheduledFiring{Job: e.Name, ScheduledAt: at.UTC(),
				Start: start.UTC()})
		}
	}
	slices.SortFunc(firings, func(a, b ScheduledFiring) int {
		return cmp.Or(a.Start.Compare(b.Start), strings.Compare(a.Job, b.Job))
	})
	return firings
}
