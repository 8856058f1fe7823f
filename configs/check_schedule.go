package configs

import (
	"errors"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/holdfast-dev/holdfast/jobs/schedule"
)

func (c *checker) checkSchedule(j *Job, path string) {
	// nil if the zone is invalid: the schedule is parsed in UTC
	zone := c.zone(keyPath(path, "timezone"), j.Timezone)
	at := keyPath(path, "schedule")
	calendars, known := c.calendarsOf(j, keyPath(path, "calendars"))
	if !c.sound(at) || c.given(at) && !c.oneSchedule(c.near(at).value, at) {
		return
	}
	changes := schedule.ClockChanges{Skip: j.ClockChanges.Gap == "skip",
		Both: j.ClockChanges.Overlap == "both"}
	key := scheduleKey{cron: j.Spec.Cron, quartz: j.Spec.Quartz, every: j.Spec.Every,
		recurrence: j.Spec.Recurrence, zone: zone, changes: changes, jitter: j.Jitter,
		calendars: strings.Join(j.Calendars, "\x00")}
	mayShare := j.Spec.At.IsZero() && j.Spec.After == nil && known
	if shared, ok := c.schedules[key]; ok && mayShare {
		j.Schedule = shared
		return
	}
	parsed, err := schedule.Parse(j.Spec, zone)
	if err != nil {
		c.failSchedule(at, err)
		return
	}
	j.Schedule = parsed.WithClockChanges(changes).WithJitter(j.Jitter).WithCalendars(calendars...)
	if beginning := (time.Time{}); known && j.Schedule.Next(beginning).IsZero() &&
		!parsed.Next(beginning).IsZero() {
		c.fail(keyPath(path, "calendars"),
			"found calendars that exclude every scheduled time, expected some to be left")
		return
	}
	if mayShare {
		c.schedules[key] = j.Schedule
	}
}

// scheduleKey identifies a schedule, except one of a single time or of dependencies. Jobs with the
// same key share a parsed schedule. So many jobs need the time and the memory of few schedules.
type scheduleKey struct {
	cron, quartz string
	every        time.Duration
	recurrence   schedule.Recurrence
	zone         *time.Location // nil if the zone is invalid
	changes      schedule.ClockChanges
	jitter       time.Duration
	calendars    string // names
}

const expressionWords = "cron with 5 or 6 fields, @every 90s or @daily that fires at some time"

// failSchedule reports a mistake in the schedule at path. Errors quote the schedule, unless it
// comes from a variable.
func (c *checker) failSchedule(path string, err error) {
	var parts schedule.PartErrors
	value := c.near(path).value
	if value.kind == kindMapping && errors.As(err, &parts) {
		for _, part := range parts {
			at := keyPath(path, part.Part)
			if c.near(at).value.expanded {
				c.fail(at, "found %s, expected a value that is valid with every", c.foundAt(at))
			} else {
				c.fail(at, "%v", part.Err)
			}
		}
		return
	}
	switch text := strings.TrimPrefix(err.Error(), "schedule "); {
	case value.expanded || slices.ContainsFunc(value.entries, func(e entry) bool {
		return e.value.expanded
	}):
		c.fail(path, "found %s, expected %s", c.foundExpanded(path), expressionWords)
	case errors.Is(err, schedule.ErrNeverFires):
		c.fail(path, "found %s, expected one that does; a job without a schedule is only triggered",
			text)
	default:
		c.fail(path, "found %s", text)
	}
}

// foundExpanded is foundAt for a schedule with variables.
func (c *checker) foundExpanded(path string) string {
	for _, e := range c.near(path).value.entries {
		if e.value.expanded {
			return e.value.found()
		}
	}
	return c.foundAt(path)
}

// oneSchedule reports whether a schedule has exactly one kind.
func (c *checker) oneSchedule(n *node, path string) bool {
	if n.kind != kindMapping {
		if strings.TrimSpace(n.text) == "" {
			c.fail(path, "found an empty schedule, expected a cron expression; a job without the "+
				"key is only triggered")
			return false
		}
		return true
	}
	var kinds, names []string
	for _, e := range n.entries {
		names = append(names, e.name)
		if slices.Contains(strings.Split(scheduleKinds, ", "), e.name) &&
			(e.name != "at" || n.entry("every") == nil || isTimestamp(e.value.text)) {
			kinds = append(kinds, e.name)
		}
	}
	switch {
	case len(kinds) > 1 || len(names) == 0:
		c.fail(path, "found %s, expected one of %s", orNone(strings.Join(kinds, " and ")),
			scheduleKinds)
		return false
	case len(kinds) == 0:
		c.fail(keyPath(path, names[0]), "found %s without every, expected both, or one of %s",
			names[0], scheduleKinds)
		return false
	case kinds[0] != "every" && len(names) > 1:
		extra := slices.DeleteFunc(names, func(name string) bool { return name == kinds[0] })[0]
		c.fail(keyPath(path, extra), "found %s with %s, expected it with every", extra, kinds[0])
		return false
	}
	return c.filled(n, path)
}

// isTimestamp reports whether the value of at is a timestamp, as opposed to a time of day.
func isTimestamp(text string) bool {
	_, err := time.Parse(time.RFC3339, text)
	return err == nil
}

// filled reports whether all keys of a schedule have values.
func (c *checker) filled(n *node, path string) bool {
	for _, e := range n.entries {
		at := keyPath(path, e.name)
		if e.value.kind == kindList {
			continue
		}
		if strings.TrimSpace(e.value.text) == "" {
			c.fail(at, "found an empty schedule, expected an expression")
			return false
		}
		if d, err := time.ParseDuration(e.value.text); e.name == "every" && err == nil && d == 0 {
			c.fail(at, "found %s, expected whole seconds, at least 1s", e.value.found())
			return false
		}
	}
	return true
}

func orNone(s string) string {
	if s == "" {
		return "none"
	}
	return s
}

// checkAfter checks the dependencies of jobs, and reports cycles.
func (c *checker) checkAfter() {
	schedules := make(map[string]schedule.Schedule, len(c.checked))
	numbers := make(map[string]int, len(c.checked))
	for i := range c.checked {
		j := &c.checked[i]
		schedules[j.Name], numbers[j.Name] = j.Schedule, i
	}
	for _, m := range schedule.CheckAfter(schedules) {
		if c.unread[m.Name] {
			continue // its mistake is reported there
		}
		if c.full() {
			return
		}
		c.failAfter(m, numbers[m.Job])
	}
}

// failAfter reports a mistake in the dependencies of the ith job of the table.
func (c *checker) failAfter(m *schedule.AfterMistake, i int) {
	if i < len(c.paths) {
		at := c.afterPath(keyPath(c.paths[i], "schedule"), m.N)
		c.fail(at, "%s", m.Text(c.quoted(at, m.Name)))
		return
	}
	i -= len(c.paths)
	at := "schedule.after"
	if m.N >= 0 {
		at = itemPath(at, m.N)
	}
	c.problems = append(c.problems, Problem{File: c.builtJobs[i].place(i), Key: at,
		Message: oneLine(m.Error())})
}

// quoted returns a part of the value at path in quotes, or nothing if the value comes from a
// variable.
func (c *checker) quoted(path, part string) string {
	if c.near(path).value.expanded {
		return c.foundAt(path)
	}
	return strconv.Quote(part)
}

// afterPath returns the path of the nth dependency of a schedule, or of the list.
func (c *checker) afterPath(path string, n int) string {
	if at := keyPath(path, "after"); c.given(at) {
		if n < 0 {
			return at
		}
		return itemPath(at, n)
	}
	return path
}
