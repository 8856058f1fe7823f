package pages

import (
	"html/template"
	"time"

	"github.com/holdfast-dev/holdfast/admin/internal/charts"
	"github.com/holdfast-dev/holdfast/admin/internal/locks"
	"github.com/holdfast-dev/holdfast/admin/internal/words"
)

// lockFuncs are the functions of the lock templates.
func lockFuncs() template.FuncMap {
	return template.FuncMap{
		"locktabs": locks.Tabs, "lockStates": locks.LockStates, "nodes": locks.NewNodeList,
		"chains":          newChainList,
		"nodesOf":         nodes,
		"takenOf":         takenNodes,
		"resourceRows":    resourceRows,
		"took":            words.Took,
		"axisY":           func() int { return charts.AxisHeight },
		"histogramHeight": func() int { return charts.HistogramHeight },
		"iso":             func(t time.Time) string { return t.UTC().Format(time.RFC3339) },
	}
}
