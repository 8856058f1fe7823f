package charts

import (
	"fmt"
	"strings"
	"testing"

	"github.com/holdfast-dev/holdfast/jobs/storage"
)

func TestProgress(t *testing.T) {
	for _, test := range []struct {
		name     string
		backfill storage.Backfill
		words    string
		widths   []int
	}{
		{"active", storage.Backfill{State: storage.BackfillActive, Times: 200, LeftOut: 100, Runs: 20,
			Succeeded: 18, Unsuccessful: 1},
			"200 scheduled times: 100 left out, 18 succeeded, 1 unsuccessful, 1 running or " +
				"waiting, 80 still to do", []int{486, 90, 12, 12, 400}},
		{"cancelled", storage.Backfill{State: storage.BackfillCancelled, Times: 2, Runs: 1,
			Succeeded: 1}, "2 scheduled times: 1 succeeded, 1 not handled", []int{500, 500}},
		{"one failure of many", storage.Backfill{State: storage.BackfillCompleted, Times: 10_000,
			Runs: 10_000, Succeeded: 9_999, Unsuccessful: 1},
			"10,000 scheduled times: 9999 succeeded, 1 unsuccessful", []int{988, 12}},
		{"new", storage.Backfill{State: storage.BackfillActive, Times: 1},
			"1 scheduled time: 1 still to do", []int{1000}},
	} {
		t.Run(test.name, func(t *testing.T) {
			p := NewProgress(test.backfill)
			var parts []string
			for _, part := range p.Parts {
				parts = append(parts, fmt.Sprintf("%d %s", part.Count, part.Words))
			}
			if got := p.Words + ": " + strings.Join(parts, ", "); got != test.words {
				t.Errorf("words are %q, want %q", got, test.words)
			}
			if len(p.Parts) != len(test.widths) {
				t.Fatalf("parts %+v, want %d", p.Parts, len(test.widths))
			}
			x := 0
			for i, part := range p.Parts {
				if part.X != x || part.W != test.widths[i] {
					t.Errorf("part %d is at %d, %d wide; want at %d, %d wide", i, part.X, part.W,
						x, test.widths[i])
				}
				x += part.W
			}
			if x != p.Width {
				t.Errorf("the parts are %d wide, want %d", x, p.Width)
			}
		})
	}
}
