package charts

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/holdfast-dev/holdfast/admin/internal/param"
	"github.com/holdfast-dev/holdfast/admin/internal/words"
)

// Graph shows the dependencies and the dependents of a job, from left to right.
type Graph struct {
	Nodes  []GraphNode
	Edges  []GraphEdge
	Height int
	// Columns is the number of levels that have jobs.
	Columns int
	Words   string
	Lists   []GraphList // the same as lists
}

// GraphNode is a job, or the number of further jobs of its level.
type GraphNode struct {
	Name string // "" for further jobs
	Path string
	Text string
	X, W Percent
	Y    int
	Here bool // the job of the page

	level int
}

// GraphEdge leads from a job to one that depends on it.
type GraphEdge struct {
	X1, X2 Percent
	Y1, Y2 int
}

// GraphList is the jobs of one level.
type GraphList struct {
	Title string
	Nodes []GraphNode
}

const (
	graphLevels = 2  // on each side
	graphMost   = 12 // jobs of one level
	graphRow    = 40 // pixels
	graphBox    = 30 // pixels
	graphGap    = 14 // percent of a column
)

// NewGraph draws the jobs around a job. after returns the dependencies of a job, and dependents the
// jobs that depend on it. NewGraph returns nil if there are none.
func NewGraph(job string, after, dependents func(job string) []string) *Graph {
	levels := make(map[string]int) // negative for dependencies
	place(levels, job, after, -1)
	place(levels, job, dependents, 1)
	if len(levels) == 0 {
		return nil
	}
	levels[job] = 0
	byLevel := make(map[int][]string)
	for name, level := range levels {
		byLevel[level] = append(byLevel[level], name)
	}
	g := &Graph{Columns: len(byLevel)}
	placed := make(map[string]GraphNode)
	column := 0
	for level := -graphLevels; level <= graphLevels; level++ {
		names := byLevel[level]
		if len(names) == 0 {
			continue
		}
		slices.Sort(names)
		g.addColumn(column, level, names, placed)
		column++
	}
	for i := range g.Nodes {
		n := &g.Nodes[i]
		n.Here = n.level == 0
	}
	for _, n := range g.Nodes {
		for _, name := range after(n.Name) {
			before, drawn := placed[name]
			if n.Name == "" || !drawn || before.level >= n.level {
				continue
			}
			g.Edges = append(g.Edges, GraphEdge{X1: before.X + before.W, X2: n.X,
				Y1: before.Y + graphBox/2, Y2: n.Y + graphBox/2})
		}
	}
	g.Words = fmt.Sprintf("%s and %s, up to two levels",
		words.Figure(countSide(levels, -1), "dependency", "dependencies"),
		words.Figure(countSide(levels, 1), "dependent", "dependents"))
	return g
}

// place adds the neighbours of a job and their neighbours. A job that is both is further away, so
// that all edges lead in one direction.
func place(levels map[string]int, job string, neighbours func(string) []string, side int) {
	near := neighbours(job)
	for _, name := range near {
		if name != job {
			levels[name] = side
		}
	}
	for _, name := range near {
		for _, further := range neighbours(name) {
			if further != job {
				levels[further] = graphLevels * side
			}
		}
	}
}

// countSide returns the number of jobs on one side.
func countSide(levels map[string]int, side int) (n int) {
	for _, level := range levels {
		if cmp.Compare(level, 0) == side {
			n++
		}
	}
	return n
}

// addColumn adds the jobs of a level, of which there are at most graphMost.
func (g *Graph) addColumn(column, level int, names []string, placed map[string]GraphNode) {
	width := Percent(100 / float64(g.Columns))
	list := GraphList{Title: graphTitle(level)}
	for i, name := range names {
		n := GraphNode{Name: name, Path: param.JobPath(name), Text: words.Cut(name, 200),
			X: Percent(column)*width + width*graphGap/200, W: width * (100 - graphGap) / 100,
			Y: 2 + i*graphRow, level: level}
		if i == graphMost {
			n.Name, n.Path, n.Text = "", "", "and "+words.Count(len(names)-graphMost)+" more"
		} else {
			placed[name] = n
		}
		g.Nodes, list.Nodes = append(g.Nodes, n), append(list.Nodes, n)
		g.Height = max(g.Height, n.Y+graphRow)
		if i == graphMost {
			break
		}
	}
	if level != 0 {
		g.Lists = append(g.Lists, list)
	}
}

func graphTitle(level int) string {
	switch level {
	case -1:
		return "Direct dependencies"
	case 1:
		return "Direct dependents"
	case graphLevels:
		return "Their dependents"
	}
	return "Their dependencies"
}
