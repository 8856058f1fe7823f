package configs

import (
	"crypto/sha256"
	"encoding/binary"
	"math"
	"strconv"

	"github.com/holdfast-dev/holdfast/retry"
)

// digest identifies a job as it was read, including derived values. A zero digest belongs to a job
// that was not read. Digests are compared within a process only.
type digest [sha256.Size]byte

// digest returns the digest of the job, which covers all its fields. It is computed twice for each
// job of a replica, so it does not use reflection.
func (j *Job) digest() digest {
	d := make(digestText, 0, 1<<10)
	d.texts(j.Name, j.Description, j.ForEach.Param, j.Timezone, j.ClockChanges.Gap,
		j.ClockChanges.Overlap, j.Handler, j.Database, j.Group, j.Overlap,
		string(j.Params.value), string(j.Params.written), j.Schedule.Fingerprint())
	s, words := &j.Spec, &j.Spec.Recurrence
	d.texts(s.Cron, s.Quartz, words.Every, words.Between, words.At, words.On, words.From)
	d.numbers(int64(s.Every), s.At.Unix(), int64(s.At.Nanosecond()))
	d.lists(s.After, j.Calendars, j.Tables, j.ReadTables, j.Overridable, j.Params.secrets)
	d.numbers(int64(j.Jitter), int64(j.Priority), int64(j.Deadline), int64(j.Timeout),
		int64(j.MisfireThreshold))
	d.policy(j.Retry)
	d.policy(j.Wait.Policy())
	d.numbers(int64(j.Wait.Reserve))
	m := &j.Misfire
	d.texts(m.NoReplica, m.NoWorker, m.Paused, m.LockHeld)
	d.numbers(int64(m.Limit), int64(m.MaxAge))
	d.texts(strconv.FormatBool(j.Recover))
	d.numbers(int64(len(j.Resources)), int64(len(j.Requests)))
	for _, r := range j.Resources {
		d.texts(r.Name)
		d.numbers(int64(r.Slots))
	}
	for _, r := range j.Requests {
		d.texts(string(r.Resource.Kind()), r.Resource.Path(), string(r.Mode))
		d.numbers(int64(r.Slots))
	}
	return sha256.Sum256(d)
}

// digestText is the text of which a digest is the hash. Each value in it has its length, so
// different values have different texts.
type digestText []byte

func (d *digestText) texts(texts ...string) {
	for _, text := range texts {
		*d = binary.AppendVarint(*d, int64(len(text)))
		*d = append(*d, text...)
	}
}

func (d *digestText) lists(lists ...[]string) {
	for _, list := range lists {
		d.numbers(int64(len(list)))
		d.texts(list...)
	}
}

func (d *digestText) numbers(numbers ...int64) {
	for _, n := range numbers {
		*d = binary.AppendVarint(*d, n)
	}
}

func (d *digestText) policy(p retry.Policy) {
	d.numbers(int64(p.Attempts), int64(p.Delay), int64(p.MaxDelay), int64(p.Elapsed),
		int64(math.Float64bits(p.Jitter)))
	d.texts(string(p.Backoff))
}
