package postgres

import (
	"fmt"
	"testing"

	"github.com/holdfast-dev/holdfast/jobs/storage"
)

// Ends that are recorded together may update all rows of a page. An update that finds no space on
// the page of its row needs a new entry in each index.
func TestFinishesAreHeapOnly(t *testing.T) {
	t.Parallel()
	const runs = 100
	s := newHarness(t)
	session := s.session(s.a, "a")
	var requests []storage.StartRequest
	var want []storage.StartOutcome
	for i := range runs {
		requests = append(requests, request(t, fmt.Sprintf("job-%04d", i), fmt.Sprintf("t%04d", i)))
		want = append(want, storage.StartGranted)
	}
	done := <-s.start(s.a, session, requests...)
	if done.err != nil {
		t.Fatal(done.err)
	}
	var finishes []storage.FinishRequest
	for i, r := range done.results {
		if r.Outcome != want[i] {
			t.Fatalf("run %d: got %v, want %v", i, r.Outcome, want[i])
		}
		finishes = append(finishes, storage.FinishRequest{Run: requests[i].Run, Token: r.Token,
			State: "succeeded"})
	}
	s.exec("CREATE TABLE before AS SELECT id, (ctid::text::point)[0] AS page FROM holdfast.runs")
	ended, err := s.a.Finish(t.Context(), finishes)
	if err != nil || len(ended) != runs {
		t.Fatalf("finish: %d runs, %v", len(ended), err)
	}
	if moved := query[int](s, "SELECT count(*) FROM holdfast.runs r JOIN before b USING (id) "+
		"WHERE (r.ctid::text::point)[0] <> b.page"); moved > 0 {
		t.Errorf("%d of %d updates moved the run to another page", moved, runs)
	}
}
