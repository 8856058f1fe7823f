package metrics

import (
	"encoding/json"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// The dashboard of Grafana has queries over existing metrics and labels, and panels that do not
// overlap.
func TestDashboard(t *testing.T) {
	const path = "../../deploy/grafana/holdfast.json"
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	type position struct{ X, Y, W, H int }
	var dashboard struct {
		UID, Title    string
		SchemaVersion int
		Panels        []struct {
			ID          int
			Type, Title string
			GridPos     position
			Targets     []struct{ RefID, Expr, LegendFormat string }
		}
	}
	if err := json.Unmarshal(text, &dashboard); err != nil {
		t.Fatal(err)
	}
	if dashboard.UID == "" || dashboard.Title == "" || dashboard.SchemaVersion == 0 {
		t.Errorf("got uid %q, title %q, version %d", dashboard.UID, dashboard.Title,
			dashboard.SchemaVersion)
	}
	labels := []string{"instance"} // Prometheus adds it
	for _, f := range full(t, 200).Families() {
		labels = append(labels, f.Labels...)
	}
	shown := regexp.MustCompile(`\{\{(\w+)\}\}`)
	grouped := regexp.MustCompile(`by \(([^)]*)\)`)
	ids, queries := map[int]bool{}, 0
	var all strings.Builder
	for i, p := range dashboard.Panels {
		g := p.GridPos
		if ids[p.ID] || p.Title == "" || g.W < 1 || g.H < 1 || g.X < 0 || g.X+g.W > 24 {
			t.Errorf("panel %d, %q: got position %+v", p.ID, p.Title, g)
		}
		ids[p.ID] = true
		for _, other := range dashboard.Panels[:i] {
			o := other.GridPos
			if g.X < o.X+o.W && o.X < g.X+g.W && g.Y < o.Y+o.H && o.Y < g.Y+g.H {
				t.Errorf("%q covers %q", p.Title, other.Title)
			}
		}
		if (p.Type == "row") != (len(p.Targets) == 0) {
			t.Errorf("%q, a %s, has %d queries", p.Title, p.Type, len(p.Targets))
		}
		for _, target := range p.Targets {
			queries++
			if !strings.Contains(target.Expr, "holdfast_") {
				t.Errorf("%q asks for no metric: %s", p.Title, target.Expr)
			}
			all.WriteString(target.Expr + "\n")
			names := []string{"le"}
			for _, by := range grouped.FindAllStringSubmatch(target.Expr, -1) {
				for name := range strings.SplitSeq(by[1], ", ") {
					if names = append(names, name); name != "le" && !slices.Contains(labels, name) {
						t.Errorf("%q groups by %s, which no metric has", p.Title, name)
					}
				}
			}
			for _, name := range shown.FindAllStringSubmatch(target.LegendFormat, -1) {
				if strings.Contains(target.Expr, "sum") && !slices.Contains(names, name[1]) {
					t.Errorf("%q shows %s, which its query drops", p.Title, name[1])
				}
			}
		}
	}
	checkNames(t, path, all.String())
	if queries < 20 {
		t.Errorf("got %d queries, want at least 20", queries)
	}
}
