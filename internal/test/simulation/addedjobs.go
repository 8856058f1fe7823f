package simulation

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"
	"time"

	"github.com/holdfast-dev/holdfast/jobs"
)

// Added are the definitions that operators add at run time, of a few jobs. The description of each
// is its number.
type Added []jobs.Job

// AddedJobs is how many jobs operators add, change and remove. The first definitions are one of
// each.
const AddedJobs = 4

// NewAdded draws n definitions.
func NewAdded(seed uint64, n int, from, until time.Time, dense bool) (Added, error) {
	d := &drawer{Rand: rand.New(rand.NewPCG(seed, 4)), dense: dense, from: from, until: until}
	if err := d.drawCalendars(); err != nil {
		return nil, err
	}
	added := make(Added, n)
	for i := range added {
		d.added = fmt.Sprint(addedPrefix, i)
		job, err := d.job(fmt.Sprint("added-", i%AddedJobs), i)
		if err != nil {
			return nil, err
		}
		job.Description = d.added
		added[i] = job
	}
	return added, nil
}

const addedPrefix = "added "

// text is a definition as an operator writes it.
type text struct {
	Number int    `json:"number"`
	Group  string `json:"group,omitempty"`
}

// Text returns the stored text of the definition with that number.
func (a Added) Text(number int) json.RawMessage {
	return json.RawMessage(fmt.Sprintf(`{"number":%d,"group":%q}`, number, a[number].Group))
}

// Build returns the job of such a text.
func (a Added) Build(raw json.RawMessage) (jobs.Job, error) {
	var t text
	if err := json.Unmarshal(raw, &t); err != nil {
		return jobs.Job{}, err
	}
	return a[t.Number], nil
}

// Job returns the job of the definition with that description, or nil.
func (a Added) Job(description string) *jobs.Job {
	digits, is := strings.CutPrefix(description, addedPrefix)
	number, err := strconv.Atoi(digits)
	if !is || err != nil || number >= len(a) {
		return nil
	}
	return &a[number]
}
