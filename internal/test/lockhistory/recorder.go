package lockhistory

import (
	"encoding/json"
	"fmt"
	"io"
	"sync"

	"github.com/google/uuid"

	"github.com/holdfast-dev/holdfast/locking"
)

// Recorder writes the events of one process, one line for each, in one write and before the next
// step. So the events can be read after the process was killed. Its methods may be called
// concurrently.
type Recorder struct {
	process string

	mu     sync.Mutex
	to     io.Writer
	locks  int
	claims map[locking.Token]claim // granted, but not yet used by a lock
	err    error
}

// claim is a claim that Grants recorded.
type claim struct {
	session uuid.UUID
	from    int64 // not granted before
}

// NewRecorder returns a recorder for a process with this name. Each process of a history needs its
// own name.
func NewRecorder(to io.Writer, process string) *Recorder {
	return &Recorder{to: to, process: process, claims: map[locking.Token]claim{}}
}

// Err returns the first error of a write. Later events are not written.
func (r *Recorder) Err() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.err
}

// Note writes another event, such as a fault.
func (r *Recorder) Note(text string) { r.record(Event{At: Now(), Kind: Note, Text: text}) }

// record writes an event. Its time was taken before a call or after its answer.
func (r *Recorder) record(e Event) {
	e.Process = r.process
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.err != nil {
		return
	}
	line, err := json.Marshal(e)
	if err == nil {
		_, err = r.to.Write(append(line, '\n'))
	}
	if err != nil {
		r.err = fmt.Errorf("history of %s: %w", r.process, err)
	}
}

func (r *Recorder) newLock() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.locks++
	return fmt.Sprintf("%s/%d", r.process, r.locks)
}

func (r *Recorder) claimed(token locking.Token, c claim) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.claims[token] = c
}

// takeUp returns the record of a claim, once.
func (r *Recorder) takeUp(token locking.Token) claim {
	r.mu.Lock()
	defer r.mu.Unlock()
	c := r.claims[token]
	delete(r.claims, token)
	return c
}
