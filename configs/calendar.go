package configs

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"time"

	"github.com/holdfast-dev/holdfast/internal/suggest"
	"github.com/holdfast-dev/holdfast/jobs/schedule"
)

// Calendar is a named rule that excludes scheduled times of the jobs that name it.
type Calendar struct {
	Name string `yaml:"name"` // unique
	// Timezone is the zone of dates and times of day; "": the zone of the job.
	Timezone string `yaml:"timezone"`
	// The field Exclude has the times at which jobs do not run: a scheduled time is excluded if at
	// least one kind of Exclude contains it.
	Exclude Times `yaml:"exclude"`
	// The field Only has the times at which jobs may run: a scheduled time is excluded if at least
	// one kind of Only does not contain it. A kind without entries has no effect.
	Only Times `yaml:"only"`

	// Calendar is the parsed calendar.
	Calendar *schedule.Calendar `yaml:"-"`
}

// Times are times of several kinds, as in schedule.TimesSpec.
type Times struct {
	Dates    []string `yaml:"dates"`
	Weekdays []string `yaml:"weekdays"`
	Windows  []string `yaml:"windows"`
	Cron     []string `yaml:"cron"`
	Files    []string `yaml:"files"` // relative to the configuration
}

func (c *checker) checkCalendars() {
	first := map[string]string{}
	for i := range c.config.Calendars {
		path := itemPath("calendars", i)
		if c.near(path).value.kind != kindMapping {
			continue
		}
		calendar := &c.config.Calendars[i]
		name := keyPath(path, "name")
		switch at, twice := first[calendar.Name]; {
		case !c.sound(name):
		case !c.given(name):
			c.fail(name, "found nothing, expected the calendar's name")
		case !isName(calendar.Name):
			c.fail(name, "found %s, expected %s", c.foundAt(name), nameWords)
		case twice:
			c.fail(name,
				"found %s a second time, expected each calendar once; the first is in %s",
				c.foundAt(name), c.whereKey(at))
			continue
		}
		first[calendar.Name] = name
		c.checkCalendar(calendar, path)
		c.calendars[calendar.Name] = calendar.Calendar
	}
}

func (c *checker) checkCalendar(calendar *Calendar, path string) {
	var zone *time.Location
	if at := keyPath(path, "timezone"); c.given(at) {
		zone = c.zone(at, calendar.Timezone)
	}
	spec := schedule.CalendarSpec{
		Name: calendar.Name, Zone: zone,
		Exclude: c.times(calendar.Exclude, keyPath(path, "exclude")),
		Only:    c.times(calendar.Only, keyPath(path, "only")),
	}
	sound := c.sound(path)
	read, err := schedule.NewCalendar(spec)
	if err == nil {
		if sound {
			calendar.Calendar = read
		}
		return
	}
	var all interface{ Unwrap() []error }
	errors.As(err, &all)
	for _, mistake := range all.Unwrap() {
		c.failCalendar(path, mistake)
	}
}

// failCalendar reports a mistake in a calendar. The message quotes the value, unless it comes from
// a variable.
func (c *checker) failCalendar(path string, err error) {
	var mistake *schedule.CalendarMistake
	errors.As(err, &mistake)
	at := path
	if mistake.Key != "" {
		at += "." + mistake.Key
	}
	switch {
	case !c.sound(at): // an earlier mistake explains what is missing
	case mistake.File != "":
		c.reportIn(mistake.File, mistake.Line, at, mistake.Message)
	case c.near(at).value.expanded:
		c.fail(at, "found %s, expected what a calendar has there", c.foundAt(at))
	default:
		c.fail(at, "%s", mistake.Message)
	}
}

// times reads the files of t.
func (c *checker) times(t Times, path string) schedule.TimesSpec {
	spec := schedule.TimesSpec{Dates: t.Dates, Weekdays: t.Weekdays, Windows: t.Windows,
		Cron: t.Cron}
	for i, name := range t.Files {
		at := itemPath(keyPath(path, "files"), i)
		if !c.sound(at) {
			continue
		}
		if !filepath.IsAbs(name) {
			name = filepath.Join(c.config.folder, name)
		}
		data, err := readHolidays(name)
		if err != nil {
			c.fail(at, "found %s: %s, expected a file of dates", c.foundAt(at), reasonOf(err))
			continue
		}
		spec.Files = append(spec.Files, schedule.HolidayFile{Name: name, Data: data})
	}
	return spec
}

// readHolidays reads a file, up to one byte more than the maximum.
func readHolidays(name string) ([]byte, error) {
	const more = 2 << 20
	file, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	return io.ReadAll(io.LimitReader(file, more))
}

// calendarsOf returns the calendars of a job, and whether all of them are valid.
func (c *checker) calendarsOf(j *Job, path string) ([]*schedule.Calendar, bool) {
	var calendars []*schedule.Calendar
	known := c.sound(path)
	seen := map[string]bool{}
	for i, name := range j.Calendars {
		at := itemPath(path, i)
		calendar, ok := c.calendars[name]
		switch {
		case !c.sound(at):
		case !ok:
			c.fail(at, "unknown calendar %s%s", c.foundAt(at),
				suggest.Hint(name, c.calendarNames()))
		case seen[name]:
			c.fail(at, "found %s a second time, expected each calendar once", c.foundAt(at))
		}
		seen[name] = true
		if known = known && calendar != nil && c.sound(at); known {
			calendars = append(calendars, calendar)
		}
	}
	return calendars, known
}

func (c *checker) calendarNames() []string {
	var names []string
	for _, calendar := range c.config.Calendars {
		names = append(names, calendar.Name)
	}
	return names
}
