// Package schedule says when jobs are due.
//
// A scheduled time is a whole second, the same on every replica whatever its own zone,
// clock or start time: it depends on the schedule, its zone, its calendars and
// the instant asked about, on nothing else. Scheduled times increase strictly, and asking
// is cheap.
//
// # Kinds
//
// Cron has five fields (minute, hour, day of month, month, weekday) or six
// (second first), or is one of @yearly, @annually, @monthly, @weekly, @daily,
// @midnight, @hourly and @every with a duration. Fields are read by
// robfig/cron's parser, behind a guard: what that parser takes and reads as
// something else, or as never, is an error here. Weekdays are 0 to 7, both 0
// and 7 being Sunday; names are taken for months and weekdays.
//
// If both day fields are restricted, a day matches when either of them does;
// if one of them begins with * (or is ?), both must match, as crontab(5) has
// it. So "0 0 */2 * 1" is due on Mondays that are odd days of the month, and
// "0 0 1-31/2 * 1" on all odd days and all Mondays.
//
// Quartz is what org.quartz.CronExpression of Quartz 2.3.2 reads, with the same
// scheduled times; where that answers by where it is asked from, or not at all, decision
// 12 says what is done here.
//
// Every is an interval of whole seconds counted from 1970-01-01T00:00:00Z, so
// that every replica counts alike; @every is the same. A [Recurrence] is
// intervals within daily windows, or days, weeks, months and years. At is one
// instant. After names jobs, and has no scheduled times of its own.
//
// # When clocks change
//
// Cron, Quartz and recurrences are read in their zone.
//
//   - A local time that does not exist, because clocks went forward over it,
//     is due at the first instant after the gap; several of them, and a scheduled time
//     that exists at that instant, are one scheduled time.
//   - A local time that exists twice, because clocks went back, is due the
//     first time only.
//   - Interval-like schedules go on evenly instead. One whose hour, minute or
//     second field begins with *, or that matches every hour, is due at both
//     occurrences of a time that exists twice; so is an interval within a
//     window, and one of Quartz with a step from a value on, as 0/15. One that
//     matches every hour has nothing to make up for after a gap.
//
// [ClockChanges] turns the first two around.
//
// # Calendars
//
// A [Calendar] excludes scheduled times. Next passes over them; Excluded says which
// calendar it was, and Preview shows them.
//
// # Zones
//
// Zones come from the caller, as time.LoadLocation gives them. A program that
// must run without zone files installed imports time/tzdata.
package schedule
