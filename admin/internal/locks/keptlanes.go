package locks

import (
	"fmt"
	"hash/fnv"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/holdfast-dev/holdfast/admin/internal/charts"
	"github.com/holdfast-dev/holdfast/admin/internal/param"
	"github.com/holdfast-dev/holdfast/admin/internal/words"
)

// keptLane is a lane of an open page: an update keeps its place and its height.
type keptLane struct {
	key  string
	rows int // its height
}

var keptLaneSyntax = regexp.MustCompile(`^[0-9a-f]{16}:[0-9]$`)

// Keep adds the lanes that an open page shows, from the value of Kept.
func (q *TimelineQuery) Keep(text string) error {
	if text == "" {
		return nil
	}
	parts := strings.Split(text, ",")
	for _, part := range parts[:min(len(parts), shownLanes+1)] {
		if len(parts) > shownLanes || !keptLaneSyntax.MatchString(part) {
			return param.Errorf("%s is %q, expected a value from a page of the timeline",
				param.Lanes, words.Cut(text, 100))
		}
		key, rows, _ := strings.Cut(part, ":")
		n, err := strconv.Atoi(rows)
		if err != nil {
			return param.Errorf("%s is %q: %s", param.Lanes, words.Cut(text, 100), err)
		}
		q.kept = append(q.kept, keptLane{key, n})
	}
	return nil
}

// Kept names the lanes of the page and their heights, for its updates.
func (t *Timeline) Kept() string {
	var parts []string
	for i, lane := range t.Lanes {
		parts = append(parts, fmt.Sprintf("%s:%d", lane.key(), t.Chart.Lanes[i].Rows))
	}
	return strings.Join(parts, ",")
}

// key identifies a lane in a request. It is a hash, because names can be long.
func (l *Lane) key() string {
	hash := fnv.New64a()
	hash.Write([]byte(l.Resource)) // a hash returns no error
	return fmt.Sprintf("%016x", hash.Sum64())
}

// choose returns the lanes of the page, from all in the order of a new page, and the number of
// waited-for resources that a new page would show instead of others. An open page keeps its lanes
// in their order. Other resources come after them if there is room for all.
func (q *TimelineQuery) choose(all []Lane) (lanes []Lane, news int) {
	page := all[min(q.skip, len(all)):min(q.skip+shownLanes, len(all))]
	if len(q.kept) == 0 {
		return page, 0
	}
	ordered := make([]Lane, 0, len(all))
	var others []Lane
	places := make(map[string]int, len(q.kept))
	for i, k := range q.kept {
		places[k.key] = i
	}
	for _, l := range all {
		if _, kept := places[l.key()]; kept {
			ordered = append(ordered, l)
		} else {
			others = append(others, l)
		}
	}
	slices.SortFunc(ordered, func(a, b Lane) int { return places[a.key()] - places[b.key()] })
	known := len(ordered)
	if ordered = append(ordered, others...); len(all) <= shownLanes {
		known = len(ordered)
	}
	for i := range page {
		if page[i].Waiting > 0 && !slices.ContainsFunc(ordered[:known],
			func(l Lane) bool { return l.Resource == page[i].Resource }) {
			news++
		}
	}
	return ordered[:min(known, shownLanes)], news
}

// heights returns the heights of the lanes that are kept, in rows; 0 for the others.
func (q *TimelineQuery) heights(lanes []Lane) []int {
	heights := make([]int, len(lanes))
	for i := range lanes {
		for _, k := range q.kept {
			if k.key == lanes[i].key() {
				heights[i] = min(k.rows, charts.MaxRows)
			}
		}
	}
	return heights
}
