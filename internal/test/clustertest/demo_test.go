package clustertest

import (
	"context"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/holdfast-dev/holdfast/admin"
	"github.com/holdfast-dev/holdfast/internal/test/replicas"
	"github.com/holdfast-dev/holdfast/jobs/storage"
)

// The test uses the demo as a visitor does. The three pages show the same state, the holders
// change, and the demo leaves nothing behind.
func TestDemo(t *testing.T) {
	preparedServer(t)
	t.Parallel()
	ctx, cancel := context.WithTimeout(t.Context(), clusterLimit)
	defer cancel()
	dir, temp := t.TempDir(), t.TempDir()
	p := startProgram(ctx, t, dir, []string{"TMPDIR=" + temp}, "demo", "--listen", "127.0.0.1:0")
	var pages []*replicas.Process
	lines := regexp.MustCompile(`(?m)^(replica-[abc]): (http://127\.0\.0\.1:\d+)$`)
	p.await("three addresses", func() (bool, error) {
		pages = nil
		for _, match := range lines.FindAllStringSubmatch(p.read(p.out), -1) {
			pages = append(pages, &replicas.Process{Name: match[1], URL: match[2]})
		}
		return len(pages) == 3, nil
	})
	for _, page := range pages {
		if text := fetch(ctx, t, page.URL+"/"); !strings.Contains(text, page.Name) {
			t.Errorf("overview of %s: %q", page.Name, text)
		}
		// The overview has the next runs only, which depend on the time of day.
		if text := fetch(ctx, t, page.URL+"/jobs"); !strings.Contains(text, "rollup-sales") {
			t.Errorf("jobs of %s: %q", page.Name, text)
		}
	}
	holders := map[string]map[string]bool{} // replicas that the pages showed, by table
	p.await("tables move between replicas, on every page", func() (bool, error) {
		return moved(ctx, pages, holders)
	})
	p.await("a run that was in another's way is told of", func() (bool, error) {
		var runs []storage.Record
		err := pages[0].Get(ctx, "/api/v1/runs?state=skipped,waiting", &runs)
		return len(runs) > 0 && runs[0].BlockedBy != nil, err
	})
	p.stop()
	left, err := os.ReadDir(temp)
	if err != nil || len(left) > 0 {
		t.Errorf("it left %v behind (%v)", left, err)
	}
}

// moved records the holders that one page shows, each page in turn. It reports whether two replicas
// have held the same table.
func moved(ctx context.Context, pages []*replicas.Process,
	holders map[string]map[string]bool) (bool, error) {
	seen := false
	for _, page := range pages {
		var locks []admin.Lock
		if err := page.Get(ctx, "/api/v1/locks", &locks); err != nil {
			return false, err
		}
		for _, lock := range locks {
			key := page.Name + " " + lock.Resource
			if holders[key] == nil {
				holders[key] = map[string]bool{}
			}
			holders[key][lock.Holder.Replica] = true
		}
	}
	for _, page := range pages {
		seen = false
		for key, replicas := range holders {
			seen = seen || strings.HasPrefix(key, page.Name+" ") && len(replicas) > 1
		}
		if !seen {
			return false, nil
		}
	}
	return seen, nil
}
