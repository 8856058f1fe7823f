package sqlite

import (
	"time"

	"github.com/google/uuid"
)

// Expire makes a session's TTL run out at once.
func (s *Store) Expire(session uuid.UUID) {
	s.lives.mu.Lock()
	defer s.lives.mu.Unlock()
	s.lives.all[session].expires = time.Now()
}
