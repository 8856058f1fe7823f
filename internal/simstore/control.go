package simstore

import (
	"github.com/holdfast-dev/holdfast/jobs"
)

// control is what operators have asked for.
type control struct {
	pauses []*jobs.Pause // the oldest first
}

func newControl() control { return control{} }

// pauseOver returns a pause that stands over the job, or nil.
func (s *Store) pauseOver(name string) *jobs.Pause {
	if len(s.control.pauses) == 0 {
		return nil
	}
	group := ""
	if j := s.jobs[name]; j != nil && j.version > 0 {
		group = j.inForce().Group
	}
	for _, p := range s.control.pauses {
		if p.ResumedAt == nil && p.Covers(name, group) {
			return p
		}
	}
	return nil
}
