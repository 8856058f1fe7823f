package simstore

import "encoding/json"

// Save stores the state for the job's next run.
func (s *Store) Save(job string, saved json.RawMessage) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.saved[job] = saved
}
