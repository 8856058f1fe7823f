package charts

import (
	"fmt"
	"slices"
	"strings"
	"testing"
)

// drawGraph draws the graph of a job. edges has the dependencies by job.
func drawGraph(job string, edges map[string][]string) *Graph {
	dependents := make(map[string][]string)
	for name, after := range edges {
		for _, before := range after {
			dependents[before] = append(dependents[before], name)
		}
	}
	return NewGraph(job, func(job string) []string { return edges[job] },
		func(job string) []string { return dependents[job] })
}

// columnsOf returns the names of each column.
func columnsOf(g *Graph) string {
	columns := make(map[Percent][]string)
	var order []Percent
	for _, n := range g.Nodes {
		if !slices.Contains(order, n.X) {
			order = append(order, n.X)
		}
		columns[n.X] = append(columns[n.X], n.Text)
	}
	var texts []string
	for _, x := range order {
		texts = append(texts, strings.Join(columns[x], " "))
	}
	return strings.Join(texts, " > ")
}

func TestGraph(t *testing.T) {
	long := strings.Repeat("very-long-name/", 20)
	many := map[string][]string{}
	for i := range 15 {
		many[fmt.Sprintf("d%02d", i)] = []string{"a"}
	}
	tests := []struct {
		name  string
		edges map[string][]string
		want  string
		lines int
	}{
		{"a diamond", map[string][]string{"a": {"b", "c"}, "b": {"d"}, "c": {"d"}}, "d > b c > a", 4},
		{"a dependency of a dependency is also its own", map[string][]string{"a": {"b", "c"}, "c": {"b"}}, "b > c > a", 3},
		{"both directions", map[string][]string{"a": {"b"}, "e": {"a"}, "f": {"e", "a"}}, "b > a > e > f", 4},
		{"three levels", map[string][]string{"a": {"b"}, "b": {"c"}, "c": {"d"}}, "c > b > a", 2},
		{"a long name", map[string][]string{"a": {long}}, long[:200] + "… > a", 1},
		{"many", many, "a > d00 d01 d02 d03 d04 d05 d06 d07 d08 d09 d10 d11 and 3 more", 12},
		{"a cycle, which replicas refuse", map[string][]string{"a": {"b"}, "b": {"a"}}, "a > b", 1},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			g := drawGraph("a", test.edges)
			if got := columnsOf(g); got != test.want || len(g.Edges) != test.lines {
				t.Errorf("got %s with %d edges, want %s with %d", got, len(g.Edges), test.want,
					test.lines)
			}
			for _, e := range g.Edges {
				if e.X1 >= e.X2 {
					t.Errorf("an edge leads backwards: %+v", e)
				}
			}
		})
	}
	if g := drawGraph("a", map[string][]string{"b": {"c"}}); g != nil {
		t.Errorf("a job without dependencies has the graph %+v", g)
	}
}
