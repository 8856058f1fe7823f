package cluster

import "slices"

// Severity is how urgent a problem is.
type Severity string

// The severities, from the least to the most urgent.
const (
	Neutral Severity = "neutral" // nothing needs attention
	Amber   Severity = "amber"   // jobs run, but something needs attention
	Red     Severity = "red"     // something that should run does not
)

// Severities returns all severities, from the least to the most urgent.
func Severities() []Severity { return []Severity{Neutral, Amber, Red} }

// Rank returns how urgent the severity is: 0 for Neutral, 2 for Red, -1 for unknown severities.
func (s Severity) Rank() int { return slices.Index(Severities(), s) }

func worst(a, b Severity) Severity {
	if b.Rank() > a.Rank() {
		return b
	}
	return a
}
