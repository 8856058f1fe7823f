package rules

import (
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/holdfast-dev/holdfast/jobs"
	"github.com/holdfast-dev/holdfast/jobs/storage"
)

func TestStartOutcome(t *testing.T) {
	session, other := id(1), id(2)
	known := func(state jobs.State, session uuid.UUID) *Run {
		return &Run{Record: storage.Record{State: state, Replica: "a"}, Session: session}
	}
	const open = -1 // the outcome depends on conflicts
	scheduled := storage.StartRequest{Attempt: 1}
	triggered := storage.StartRequest{Attempt: 1, Firing: storage.Firing{Key: "k"}}
	retried := storage.StartRequest{Attempt: 2}
	pause := &storage.Pause{}
	for name, test := range map[string]struct {
		start   Start
		request storage.StartRequest
		want    storage.StartOutcome
	}{
		"a new firing":                          {Start{Live: true}, scheduled, open},
		"an ended session":                      {Start{}, scheduled, storage.StartNotLive},
		"a resent request":                      {Start{Known: known(jobs.Running, session), Claimed: true}, scheduled, storage.StartGranted},
		"a resent request, while drained":       {Start{Live: true, Drains: true, Known: known(jobs.Running, session), Claimed: true}, scheduled, storage.StartGranted},
		"the run of another session":            {Start{Live: true, Known: known(jobs.Running, other), Claimed: true}, scheduled, storage.StartDuplicate},
		"an ended run":                          {Start{Live: true, Known: known(jobs.Skipped, session)}, scheduled, storage.StartDuplicate},
		"its own waiting run":                   {Start{Live: true, Known: known(jobs.Waiting, session)}, scheduled, open},
		"its own waiting run of a stale job":    {Start{Live: true, Stale: true, Known: known(jobs.Waiting, session)}, scheduled, open},
		"a free waiting run of its replica":     {Start{Live: true, Known: known(jobs.Waiting, uuid.Nil)}, scheduled, open},
		"its own waiting run, paused":           {Start{Live: true, Pause: pause, Known: known(jobs.Waiting, session)}, scheduled, storage.StartPaused},
		"its own waiting run, drained":          {Start{Live: true, Drains: true, Known: known(jobs.Waiting, session)}, scheduled, storage.StartPaused},
		"the next attempt of a paused job":      {Start{Live: true, Pause: pause, Known: known(jobs.Waiting, session)}, retried, open},
		"the next attempt while drained":        {Start{Live: true, Drains: true, Known: known(jobs.Waiting, session)}, retried, open},
		"a trigger of a paused job":             {Start{Live: true, Pause: pause}, triggered, open},
		"a trigger while drained":               {Start{Live: true, Drains: true}, triggered, storage.StartPaused},
		"a paused job":                          {Start{Live: true, Pause: pause}, scheduled, storage.StartPaused},
		"another version":                       {Start{Live: true, Stale: true}, scheduled, storage.StartStale},
		"another version of a paused job":       {Start{Live: true, Stale: true, Pause: pause}, scheduled, storage.StartStale},
		"a firing of another run":               {Start{Live: true, Taken: true}, scheduled, storage.StartDuplicate},
		"a firing of another run, while paused": {Start{Live: true, Taken: true, Pause: pause}, scheduled, storage.StartDuplicate},
	} {
		t.Run(name, func(t *testing.T) {
			s := test.start
			s.Session, s.Replica = session, "a"
			got, decided := s.Outcome(test.request)
			if !decided {
				got = open
			}
			if got != test.want {
				t.Errorf("got %v, want %v", got, test.want)
			}
		})
	}
}

func TestAdopted(t *testing.T) {
	run := func(n byte, job string, waits, late time.Duration) storage.Record {
		return storage.Record{ID: id(n), Job: job, Attempt: 1, WaitSince: noon.Add(-waits),
			ScheduledAt: noon.Add(-late)}
	}
	recovery := run(4, "plain", 2*time.Minute, time.Hour)
	recovery.Recovery = 1
	free := []storage.Record{
		run(1, "plain", time.Minute, 0),
		run(2, "plain", 3*time.Minute, 0),
		run(3, "urgent", time.Second, 0),
		recovery,
		run(5, "plain", 9*time.Minute, time.Hour), // late
		run(6, "plain", 8*time.Minute, time.Hour), // late
	}
	jobs := []storage.AdoptedJob{{Name: "plain", Threshold: time.Minute},
		{Name: "urgent", Threshold: time.Minute, Priority: 9}}
	for _, test := range []struct {
		name        string
		oldest      time.Time // scheduled time of the oldest waiting run of the job "plain"
		late, limit int
		want        []byte
	}{
		{"late runs come first", noon, 2, 9, []byte{5, 6, 3, 2, 4, 1}},
		{"an older run waits", free[4].ScheduledAt.Add(-1), 2, 9, []byte{3, 2, 4, 1}},
		{"a limit for late runs", noon, 1, 9, []byte{5, 3, 2, 4, 1}},
		{"no late runs", noon, 0, 9, []byte{3, 2, 4, 1}},
		{"a limit for all", noon, 1, 2, []byte{5, 3}},
		{"no free worker", noon, 1, 0, nil},
		{"negative limits", noon, -1, -1, nil},
	} {
		t.Run(test.name, func(t *testing.T) {
			var got []byte
			given := append([]storage.Record(nil), free...)
			for _, run := range Adopted(given, map[string]time.Time{"plain": test.oldest},
				storage.Adoption{Jobs: jobs, Late: test.late, Limit: test.limit}, noon) {
				got = append(got, run[15])
			}
			if string(got) != string(test.want) {
				t.Errorf("got runs %v, want %v", got, test.want)
			}
		})
	}
}

func TestSuccessorEndsWithTheLastRecovery(t *testing.T) {
	for recovery := range storage.MaxRecoveries + 2 {
		r := Run{Record: storage.Record{ID: id(1), Job: "j", Recovery: recovery, Replica: "a"}}
		next, ok := r.Successor("recovered", noon)
		if want := recovery < storage.MaxRecoveries; ok != want {
			t.Errorf("recovery %d: got a successor %t, want %t", recovery, ok, want)
		}
		if ok && next.Recovery != recovery+1 {
			t.Errorf("recovery %d: got recovery %d", recovery, next.Recovery)
		}
	}
}
