package schedule_test

import (
	"strings"
	"testing"
	"time"

	"github.com/holdfast-dev/holdfast/jobs/schedule"
)

// ics returns a calendar file of events, each given by its lines.
func ics(events ...string) string {
	text := "BEGIN:VCALENDAR\r\nVERSION:2.0\r\n"
	for _, event := range events {
		text += "BEGIN:VEVENT\r\n" + strings.ReplaceAll(strings.TrimSpace(event), "\n", "\r\n") +
			"\r\nEND:VEVENT\r\n"
	}
	return text + "END:VCALENDAR\r\n"
}

// within returns the schedule's first scheduled times that lie within the events.
func within(t *testing.T, text string, in *time.Location, from time.Time, n int,
	events ...string) string {
	t.Helper()
	c := calendar(t, schedule.CalendarSpec{
		Only: schedule.TimesSpec{Files: file("a.ics", ics(events...))}})
	var got []string
	for _, scheduledAt := range parse(t, text, in).WithCalendars(c).Upcoming(from, n) {
		got = append(got, strings.TrimSuffix(scheduledAt.In(in).Format("2006-01-02 15:04"),
			" 00:00"))
	}
	return strings.Join(got, ", ")
}

// Each case has the days of its events from 2026 on.
func TestDaysOfEvents(t *testing.T) {
	from := time.Date(2025, 12, 31, 12, 0, 0, 0, time.UTC)
	for _, c := range []struct{ name, event, want string }{
		{"a day", "DTSTART;VALUE=DATE:20261224", "2026-12-24"},
		{"a day, without the parameter", "DTSTART:20261224\nSUMMARY:Christmas Eve", "2026-12-24"},
		{"some days", "DTSTART;VALUE=DATE:20261224\nDTEND;VALUE=DATE:20261227", "2026-12-24, 2026-12-25, 2026-12-26"},
		{"some days by duration", "DTSTART;VALUE=DATE:20261224\nDURATION:P1W", "2026-12-24, 2026-12-25, 2026-12-26, 2026-12-27, 2026-12-28, 2026-12-29, 2026-12-30"},
		{"folded", "DTSTART;VALUE=\n DATE:2026\n\t1224", "2026-12-24"},
		{"with an alarm", "DTSTART:20261224\nBEGIN:VALARM\nTRIGGER:-PT15M\nDURATION:PT5M\nEND:VALARM", "2026-12-24"},
		{"with lists of parameters", "DTSTART:20261224\nATTENDEE;MEMBER=\"mailto:a@x\",\"mailto:b@x\";CN=J:mailto:j@x\nX-A;B=c,\"d:e;f\",g:h", "2026-12-24"},
		{"each year", "DTSTART:20241003\nRRULE:FREQ=YEARLY", "2026-10-03, 2027-10-03, 2028-10-03"},
		{"each year, until", "DTSTART:20241003\nRRULE:FREQ=YEARLY;UNTIL=20271003", "2026-10-03, 2027-10-03"},
		{"each year, until an instant", "DTSTART:20241003\nRRULE:FREQ=YEARLY;UNTIL=20271002T220000Z", "2026-10-03"},
		{"each year, four times", "DTSTART:20241003\nRRULE:FREQ=YEARLY;COUNT=4", "2026-10-03, 2027-10-03"},
		{"every second year", "DTSTART:20241003\nRRULE:FREQ=YEARLY;INTERVAL=2", "2026-10-03, 2028-10-03, 2030-10-03"},
		{"leap day", "DTSTART:20240229\nRRULE:FREQ=YEARLY", "2028-02-29, 2032-02-29"},
		{"Thanksgiving", "DTSTART:20201126\nRRULE:FREQ=YEARLY;BYMONTH=11;BYDAY=4TH", "2026-11-26, 2027-11-25, 2028-11-23"},
		{"Memorial Day", "DTSTART:20200525\nRRULE:FREQ=YEARLY;BYMONTH=5;BYDAY=-1MO", "2026-05-25, 2027-05-31"},
		{"election day", "DTSTART:20201103\nRRULE:FREQ=YEARLY;INTERVAL=4;BYMONTH=11;BYDAY=TU;BYMONTHDAY=2,3,4,5,6,7,8", "2028-11-07, 2032-11-02"},
		{"the 20th Monday", "DTSTART:20200101\nRRULE:FREQ=YEARLY;BYDAY=20MO", "2026-05-18, 2027-05-17"},
		{"the last Sunday of the year", "DTSTART:20200101\nRRULE:FREQ=YEARLY;BYDAY=-1SU", "2026-12-27, 2027-12-26"},
		{"days of each month of a year", "DTSTART:20200101\nRRULE:FREQ=YEARLY;BYMONTHDAY=-1", "2026-01-31, 2026-02-28, 2026-03-31"},
		{"each month", "DTSTART:20200131\nRRULE:FREQ=MONTHLY", "2026-01-31, 2026-03-31, 2026-05-31"},
		{"Friday the 13th", "DTSTART:20200101\nRRULE:FREQ=MONTHLY;BYDAY=FR;BYMONTHDAY=13", "2026-02-13, 2026-03-13, 2026-11-13"},
		{"every third month", "DTSTART:20251115\nRRULE:FREQ=MONTHLY;INTERVAL=3", "2026-02-15, 2026-05-15"},
		{"each week", "DTSTART:20251230\nRRULE:FREQ=WEEKLY", "2026-01-06, 2026-01-13"},
		{"every second week, from Sunday", "DTSTART:20251228\nRRULE:FREQ=WEEKLY;INTERVAL=2;BYDAY=SU,SA;WKST=SU", "2026-01-03, 2026-01-11, 2026-01-17"},
		{"every second week, from Monday", "DTSTART:20251228\nRRULE:FREQ=WEEKLY;INTERVAL=2;BYDAY=SU,SA", "2026-01-10, 2026-01-11, 2026-01-24"},
		{"every third day", "DTSTART:20251230\nRRULE:FREQ=DAILY;INTERVAL=3", "2026-01-02, 2026-01-05"},
		{"every day of May", "DTSTART:20250501\nRRULE:FREQ=DAILY;BYMONTH=5;COUNT=33", "2026-05-01, 2026-05-02"},
		{"but for some", "DTSTART:20251230\nRRULE:FREQ=WEEKLY\nEXDATE;VALUE=DATE:20260106,20260120", "2026-01-13, 2026-01-27"},
		{"and some", "DTSTART:20260106\nRDATE;VALUE=DATE:20260108,20260110", "2026-01-06, 2026-01-08, 2026-01-10"},
		{"the first day counts", "DTSTART:20260101\nRRULE:FREQ=WEEKLY;BYDAY=MO;COUNT=2", "2026-01-01, 2026-01-05"},
		{"cancelled", "DTSTART:20260101\nSTATUS:CANCELLED\nEND:VEVENT\nBEGIN:VEVENT\nDTSTART:20260105", "2026-01-05"},
		{"moved", "UID:a\nDTSTART:20260101\nRRULE:FREQ=DAILY;COUNT=3\nEND:VEVENT\nBEGIN:VEVENT\nUID:a\nRECURRENCE-ID;VALUE=DATE:20260102\nDTSTART:20260110", "2026-01-01, 2026-01-03, 2026-01-10"},
		{"one of them cancelled", "UID:a\nRECURRENCE-ID:20260102\nDTSTART:20260102\nSTATUS:CANCELLED\nEND:VEVENT\nBEGIN:VEVENT\nUID:a\nDTSTART:20260101\nRRULE:FREQ=DAILY;COUNT=3", "2026-01-01, 2026-01-03"},
		{"one of them cancelled and one moved, after the rule", "UID:a\nDTSTART:20260101\nRRULE:FREQ=DAILY;COUNT=4\nEND:VEVENT\nBEGIN:VEVENT\nUID:a\nRECURRENCE-ID:20260102\nDTSTART:20260110\nEND:VEVENT\nBEGIN:VEVENT\nUID:a\nRECURRENCE-ID:20260103\nDTSTART:20260103\nSTATUS:CANCELLED", "2026-01-01, 2026-01-04, 2026-01-10"},
		{"one of them cancelled, and the rule too", "UID:a\nDTSTART:20260101\nRRULE:FREQ=DAILY;COUNT=4\nSTATUS:CANCELLED\nEND:VEVENT\nBEGIN:VEVENT\nUID:a\nRECURRENCE-ID:20260102\nDTSTART:20260102\nSTATUS:CANCELLED\nEND:VEVENT\nBEGIN:VEVENT\nDTSTART:20260105", "2026-01-05"},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got := within(t, "@daily", time.UTC, from, strings.Count(c.want, ",")+1,
				c.event); got != c.want {
				t.Errorf("got %s, want %s", got, c.want)
			}
		})
	}
}

// Each case has the hours that lie within its events, which have times of day.
func TestTimesOfEvents(t *testing.T) {
	berlin := zone(t, "Europe/Berlin")
	from := time.Date(2026, 3, 1, 0, 0, 0, 0, berlin)
	for _, c := range []struct{ name, event, want string }{
		{"in UTC", "DTSTART:20260310T090000Z\nDTEND:20260310T110000Z", "2026-03-10 10:00, 2026-03-10 11:00"},
		{"in the schedule's zone", "DTSTART:20260310T090000\nDTEND:20260310T110000", "2026-03-10 09:00, 2026-03-10 10:00"},
		{"in a zone, over a change of clocks", "DTSTART;TZID=America/New_York:20260304T090000\nDURATION:PT1H\nRRULE:FREQ=WEEKLY;COUNT=2", "2026-03-04 15:00, 2026-03-11 14:00"},
		{"beyond midnight", "DTSTART;TZID=\"Europe/Berlin\":20260310T230000\nDURATION:PT2H30M", "2026-03-10 23:00, 2026-03-11, 2026-03-11 01:00"},
		{"longer than a day", "DTSTART:20260310T230000Z\nDURATION:P1DT1H\nRRULE:FREQ=YEARLY;COUNT=1", "2026-03-11, 2026-03-11 01:00"},
		{"until an instant in its own zone", "DTSTART;TZID=Asia/Tokyo:20260310T090000\nDURATION:PT1H\nRRULE:FREQ=DAILY;UNTIL=20260311T000000Z", "2026-03-10 01:00, 2026-03-11 01:00"},
		{"until just before", "DTSTART;TZID=Asia/Tokyo:20260310T090000\nDURATION:PT1H\nRRULE:FREQ=DAILY;UNTIL=20260310T235959Z\nEND:VEVENT\nBEGIN:VEVENT\nDTSTART:20260401T090000Z\nDURATION:PT1H", "2026-03-10 01:00, 2026-04-01 11:00"},
		{"but for one, in UTC", "DTSTART;TZID=Asia/Tokyo:20260310T090000\nDURATION:PT1H\nRRULE:FREQ=DAILY;COUNT=3\nEXDATE:20260311T000000Z", "2026-03-10 01:00, 2026-03-12 01:00"},
		{"but for one, as its own", "DTSTART;TZID=Asia/Tokyo:20260310T090000\nDURATION:PT1H\nRRULE:FREQ=DAILY;COUNT=3\nEXDATE;TZID=Asia/Tokyo:20260311T090000", "2026-03-10 01:00, 2026-03-12 01:00"},
		{"one moved to another time of day", "UID:a\nDTSTART;TZID=Asia/Tokyo:20260310T090000\nDURATION:PT1H\nRRULE:FREQ=DAILY;COUNT=3\nEND:VEVENT\nBEGIN:VEVENT\nUID:a\nRECURRENCE-ID;TZID=Asia/Tokyo:20260311T090000\nDTSTART;TZID=Asia/Tokyo:20260311T130000\nDURATION:PT1H", "2026-03-10 01:00, 2026-03-11 05:00, 2026-03-12 01:00"},
		{"one moved to another zone, before the rule", "UID:a\nRECURRENCE-ID:20260311T000000Z\nDTSTART;TZID=America/New_York:20260311T130000\nDURATION:PT1H\nEND:VEVENT\nBEGIN:VEVENT\nUID:a\nDTSTART;TZID=Asia/Tokyo:20260310T090000\nDURATION:PT1H\nRRULE:FREQ=DAILY;COUNT=3", "2026-03-10 01:00, 2026-03-11 18:00, 2026-03-12 01:00"},
		{"one moved without its rule", "UID:a\nRECURRENCE-ID;TZID=Asia/Tokyo:20260311T090000\nDTSTART;TZID=Asia/Tokyo:20260311T130000\nDURATION:PT1H", "2026-03-11 05:00"},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got := within(t, "@hourly", berlin, from, strings.Count(c.want, ",")+1,
				c.event); got != c.want {
				t.Errorf("got %s, want %s", got, c.want)
			}
		})
	}
}

// Each file is refused with the line of the mistake.
func TestEventMistakes(t *testing.T) {
	for text, want := range map[string]string{
		ics(
			"DTSTART:2026-12-24"): `a.ics:4: exclude.files[0]: DTSTART: found "2026-12-24", expected a date such as 20261224 or a time such as 20261224T090000Z`,
		ics("DTSTART:20261324"):  `a.ics:4: exclude.files[0]: DTSTART: found "20261324"`,
		ics("DTSTART:20261224Z"): `found "20261224Z"`,
		ics(
			"DTSTART;TZID=W. Europe Standard Time:20261224T090000\nDURATION:PT1H"): `a.ics:4: exclude.files[0]: DTSTART: found the zone "W. Europe Standard Time", expected one by its IANA name, such as Europe/Berlin`,
		ics(
			"DTSTART;TZID=Local:20261224T090000\nDURATION:PT1H"): `found the zone "Local"`,
		ics(
			"DTSTART;VALUE=PERIOD:20261224"): "found VALUE=PERIOD, expected DATE or DATE-TIME",
		ics(
			"SUMMARY:x"): "a.ics:3: exclude.files[0]: found an event without DTSTART, expected one",
		ics(
			"DTSTART:20261224T090000"): "a.ics:3: exclude.files[0]: found an event with a time " +
			"of day but neither DTEND nor DURATION",
		ics(
			"DTSTART:20261224\nDTEND:20261224"): `a.ics:5: exclude.files[0]: DTEND: found "20261224", expected an end after DTSTART`,
		ics(
			"DTSTART:20261224\nDTEND:20261225T000000Z"): "DTEND: found a date with a time of " +
			"day, expected both like DTSTART",
		ics(
			"DTSTART:20261224\nDURATION:1D"): `DURATION: found "1D", expected a duration such as P1D or PT1H30M`,
		ics(
			"DTSTART:20261224\nDURATION:PT1H"): `DURATION: found "PT1H" with a date, expected whole days`,
		ics(
			"DTSTART:20261224\nDURATION:P9999W"): `DURATION: found "P9999W"`,
		ics(
			"DTSTART:20261224\nDURATION:-P1D"): `DURATION: found "-P1D"`,
		ics(
			"DTSTART:20261224\nRRULE:FREQ=HOURLY"): `a.ics:5: exclude.files[0]: RRULE: FREQ: found "HOURLY", expected YEARLY, MONTHLY, WEEKLY or DAILY`,
		ics(
			"DTSTART:20261224\nRRULE:INTERVAL=2"): "RRULE: found no FREQ",
		ics(
			"DTSTART:20261224\nRRULE:FREQ=YEARLY;BYEASTER=0"): "RRULE: BYEASTER: not supported; " +
			"expected one of FREQ, INTERVAL",
		ics(
			"DTSTART:20261224\nRRULE:FREQ=YEARLY;BYSETPOS=1"): "RRULE: BYSETPOS: not supported",
		ics(
			"DTSTART:20261224\nRRULE:FREQ=YEARLY;INTERVALL=2"): `INTERVALL: not supported; did you mean "INTERVAL"?`,
		ics(
			"DTSTART:20261224\nRRULE:FREQ=YEARLY;COUNT=0"): `COUNT: found "0", expected a number from 1 to 10000`,
		ics(
			"DTSTART:20261224\nRRULE:FREQ=YEARLY;COUNT=1;UNTIL=20270101"): "found UNTIL and COUNT, expected one of them",
		ics(
			"DTSTART:20261224\nRRULE:FREQ=YEARLY;UNTIL=soon"): `UNTIL: found "SOON"`,
		ics(
			"DTSTART:20261224\nRRULE:FREQ=YEARLY;FREQ=DAILY"): `found "FREQ=DAILY", expected each part once`,
		ics(
			"DTSTART:20261224\nRRULE:FREQ=YEARLY;BYMONTH=13"): `BYMONTH: found "13", expected a number from 1 to 12`,
		ics(
			"DTSTART:20261224\nRRULE:FREQ=YEARLY;BYMONTHDAY=0"): "BYMONTHDAY: found 0",
		ics(
			"DTSTART:20261224\nRRULE:FREQ=YEARLY;BYDAY=XX"): `BYDAY: found "XX", expected a weekday: SU, MO`,
		ics(
			"DTSTART:20261224\nRRULE:FREQ=YEARLY;BYDAY=0MO"): `BYDAY: found "0MO", expected a number from 1 to 53`,
		ics(
			"DTSTART:20261224\nRRULE:FREQ=WEEKLY;BYDAY=1MO"): "BYDAY: found a number before a " +
			"weekday, which goes with MONTHLY and YEARLY",
		ics(
			"DTSTART:20261224\nRRULE:FREQ=WEEKLY;BYMONTHDAY=1"): "BYMONTHDAY: found it with WEEKLY",
		ics(
			"DTSTART:20261224\nRRULE:FREQ=DAILY\nRRULE:FREQ=DAILY"): "RRULE: found a second rule",
		ics(
			"DTSTART:20261224\nEXRULE:FREQ=DAILY"): "EXRULE: not supported",
		ics(
			"DTSTART:20261224\nRDATE;VALUE=PERIOD:20261224T090000Z/PT1H"): "found VALUE=PERIOD",
		ics(
			"DTSTART:20261224\nEXDATE:20261224T090000Z"): `EXDATE: found "20261224T090000Z" with a time of day, expected a date`,
		ics(
			"DTSTART:20261224T090000Z\nDURATION:PT1H\nEXDATE:20261224T100000Z"): "expected the time of day of DTSTART",
		ics(
			"DTSTART:20261201\nDURATION:P32D\nRRULE:FREQ=YEARLY"): "found an event that repeats " +
			"and lasts more than 31 days",
		ics(
			"UID:a\nRECURRENCE-ID;RANGE=THISANDFUTURE:20260102\nDTSTART:20260110"): "RECURRENCE-ID: found RANGE=THISANDFUTURE",
		ics(
			"UID:a\nRECURRENCE-ID:20260102T090000Z\nDTSTART:20260102T100000Z\nDURATION:PT1H", "UID:a\nDTSTART:20260101T083000Z\nDURATION:PT1H\nRRULE:FREQ=DAILY"): `a.ics:5: exclude.files[0]: RECURRENCE-ID: found "20260102T090000Z", expected the time of day of DTSTART`,
		ics(
			"RECURRENCE-ID:never\nDTSTART:20260102"): `a.ics:4: exclude.files[0]: RECURRENCE-ID: found "never", expected a date`,
		ics("DTSTART;VALUE=DATE"): "a.ics:4: exclude.files[0]: DTSTART: found a parameter " +
			"without an end",
		ics("DTSTART;VALUE=DATE,\"x"): "DTSTART: found a parameter without an end",
		ics(
			"DTSTART;VALUE=\"DATE\",x:20261224"): `found VALUE=DATE",x, expected DATE or DATE-TIME`,
		ics("DTSTART;VALUE:20261224"): "DTSTART: found a parameter without a value",
		ics(
			"just text"): `a.ics:4: exclude.files[0]: found "just text", expected a line such as DTSTART;VALUE=DATE:20261224`,
		ics():                "a.ics:1: exclude.files[0]: found no dates, expected at least one",
		"":                   "a.ics:1: exclude.files[0]: found no BEGIN:VCALENDAR",
		"2026-12-24\n":       `a.ics:1: exclude.files[0]: found "2026-12-24"`,
		"DTSTART:20261224\n": "found DTSTART outside of a calendar",
		"BEGIN:VEVENT\nDTSTART:20261224\nEND:VEVENT\n":                     "found BEGIN:VEVENT, expected BEGIN:VCALENDAR",
		"BEGIN:VCALENDAR\nBEGIN:VEVENT\nDTSTART:20261224\nEND:VCALENDAR\n": "a.ics:4: exclude.files[0]: found END:VCALENDAR, expected the end of what was begun last",
		"BEGIN:VCALENDAR\nBEGIN:VEVENT\nDTSTART:20261224\n":                "a.ics:3: exclude.files[0]: found the end of the file within VEVENT",
	} {
		_, err := schedule.NewCalendar(
			schedule.CalendarSpec{Exclude: schedule.TimesSpec{Files: file("a.ics", text)}})
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: got %v, want an error with %q", text, err, want)
		}
	}
}
