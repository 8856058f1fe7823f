package grid

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/holdfast-dev/holdfast/jobs"
	"github.com/holdfast-dev/holdfast/jobs/storage"
)

// thirty returns thirty jobs, of which each third is in no group.
func thirty() (all []storage.JobState) {
	for i := range 30 {
		all = append(all, storage.JobState{Job: fmt.Sprintf("job-%02d", i),
			Group: []string{"", "b", "a"}[i%3]})
	}
	return all
}

func selectionOf(all []storage.JobState) Selection {
	return Selection{All: all, Selected: slices.SortedFunc(slices.Values(all), ByGroup)}
}

func TestGridSortsJobsByGroup(t *testing.T) {
	s := selectionOf(thirty())
	var pages []string
	for name := ""; ; {
		s.After, s.Before = name, ""
		sections, next, previous := s.page()
		list := jobsOf(sections)
		pages = append(pages, fmt.Sprintf("%s to %s, %d jobs %t %t", list[0].Job,
			list[len(list)-1].Job, len(list), next, previous))
		if !next {
			break
		}
		name = list[len(list)-1].Job
	}
	want := []string{"job-02 to job-12, 25 jobs true false", "job-15 to job-27, 5 jobs false true"}
	if !slices.Equal(pages, want) {
		t.Errorf("got pages %q, want %q", pages, want)
	}
	s.After, s.Before = "", "job-15"
	sections, next, previous := s.page()
	if list := jobsOf(sections); len(list) != MaxRows || list[0].Job != "job-02" || !next ||
		previous {
		t.Errorf("page before job-15: %d jobs from %s, %t, %t; want 25 from job-02, true, false",
			len(list), list[0].Job, next, previous)
	}
	s.After, s.Before = "job-02", "job-08"
	if sections, next, previous = s.page(); len(sections) != 1 ||
		sections[0].jobs[0].Job != "job-05" || !next || !previous {
		t.Errorf("between job-02 and job-08: %v, %t, %t; want job-05, true, true", sections, next,
			previous)
	}
}

// jobsOf returns the jobs of sections.
func jobsOf(sections []section) (list []storage.JobState) {
	for _, s := range sections {
		list = append(list, s.jobs...)
	}
	return list
}

// TestGridKeepsItsPlace checks cursors that name jobs which are not selected.
func TestGridKeepsItsPlace(t *testing.T) {
	s := selectionOf(thirty())
	s.keep(map[string]bool{"job-05": true, "job-01": true, "job-27": true})
	for after, want := range map[string]string{
		"":       "job-05 job-01 job-27",
		"job-02": "job-05 job-01 job-27", "job-05": "job-01 job-27", "job-08": "job-01 job-27",
		"job-04": "job-27", "job-27": "",
		"removed": "", "a-removed-one": "job-27", // like jobs without a group
	} {
		s.After = after
		sections, _, _ := s.page()
		var names []string
		for _, job := range jobsOf(sections) {
			names = append(names, job.Job)
		}
		if got := strings.Join(names, " "); got != want {
			t.Errorf("after %q: got %q, want %q", after, got, want)
		}
	}
}

func TestBands(t *testing.T) {
	g := Grid{}
	g.Rows = []JobRow{{Job: "c", Group: "a"}, {Job: "d", Group: "a"}, {Job: "b", Group: "z"},
		{Job: "a"}}
	g.sections = make([]section, len(g.Rows))
	for i := range g.sections {
		g.sections[i].jobs = make([]storage.JobState, 1)
	}
	var got []string
	for _, band := range g.Bands() {
		got = append(got, fmt.Sprintf("%s:%d", band.Group, len(band.Rows)))
	}
	if want := []string{"a:2", "z:1", ":1"}; !slices.Equal(got, want) || !g.Grouped() {
		t.Errorf("got bands %q, want %q", got, want)
	}
	g.Rows, g.sections = g.Rows[3:], g.sections[3:]
	if g.Grouped() || len(g.Bands()) != 1 {
		t.Errorf("a page without groups has bands %v", g.Bands())
	}
}

// ended is a store that knows which jobs have failed. No job has runs to show.
type ended struct {
	storage.History
	asked []storage.EndedJobsFilter
	found storage.EndedJobs
}

func (e *ended) EndedJobs(_ context.Context,
	f storage.EndedJobsFilter) (storage.EndedJobs, error) {
	e.asked = append(e.asked, f)
	return e.found, nil
}

func (e *ended) RunIntervals(context.Context,
	storage.RunIntervalFilter) ([]storage.RunInterval, error) {
	return nil, nil
}

func TestGridOfJobsWithFailures(t *testing.T) {
	for query, want := range map[string][]jobs.State{
		"": nil, "only=failures": {jobs.Failed, jobs.TimedOut, jobs.Lost},
		"only=failures-or-skips": {jobs.Failed, jobs.TimedOut, jobs.Lost, jobs.Skipped,
			jobs.Missed},
	} {
		store := &ended{found: storage.EndedJobs{Names: map[string]bool{"job-07": true},
			More: true}}
		g, _, _, err := Load(t.Context(), store, noon, queryOf(t, query), selectionOf(thirty()))
		if err != nil {
			t.Fatal(err)
		}
		if want == nil {
			if len(g.Rows) != MaxRows || len(store.asked) > 0 || g.Cut {
				t.Errorf("%d rows of all jobs, asked for %v", len(g.Rows), store.asked)
			}
			continue
		}
		if len(g.Rows) != 1 || g.Rows[0].Job != "job-07" || !g.Cut {
			t.Errorf("%s: got %+v, want job-07 of more", query, g.Rows)
		}
		if f := store.asked[0]; !slices.Equal(f.States, want) || f.Most != MaxEnded ||
			!f.From.Equal(g.From) || !f.Until.Equal(g.Until) {
			t.Errorf("%s: asked for %+v, want the states %v in the time of the grid", query, f,
				want)
		}
	}
}
