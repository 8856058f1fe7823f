// Package schedule computes the scheduled times of jobs.
//
// A scheduled time is a whole second. It depends only on the schedule, its zone, its calendars and
// the time that the caller passes. So it is the same on every replica. Scheduled times increase
// strictly, and a query is cheap.
//
// # Kinds
//
// Cron has five fields (minute, hour, day of month, month, weekday) or six, of which the first
// gives the seconds. It can also be @yearly, @annually, @monthly, @weekly, @daily, @midnight,
// @hourly, or @every with a duration. The parser of robfig/cron reads the fields. Expressions that
// it reads in another way than crontab(5), or that never fire, are errors here. Weekdays are 0 to
// 7, and both 0 and 7 are Sunday. Months and weekdays have names too.
//
// If both day fields are restricted, a day matches when either of them matches. If one of them
// begins with * (or is ?), both must match, as in crontab(5). So "0 0 */2 * 1" is due on Mondays
// that are odd days of the month, and "0 0 1-31/2 * 1" on all odd days and all Mondays.
//
// Quartz reads the expressions of org.quartz.CronExpression of Quartz 2.3.2. They have the same
// scheduled times, except for the differences that docs/decisions/0012-quartz-syntax.md lists.
//
// Every is an interval of whole seconds that counts from 1970-01-01T00:00:00Z, as does @every. A
// [Recurrence] is an interval within daily windows, or a number of days, weeks, months or years.
// The function At gives a schedule of one time. The function After gives a schedule that names
// other jobs and has no scheduled times of its own.
//
// # Clock changes
//
// Cron, Quartz and recurrences are read in their zone.
//
//   - If a local time does not exist, the job is due at the first time after the gap. All
//     scheduled times in a gap count as one, together with a scheduled time at its end.
//   - If a local time exists twice, the job is due the first time only.
//   - Schedules that repeat evenly are due at both times instead. Those of them that match every
//     hour also ignore the first rule: a gap adds no scheduled time at its end.
//
// These schedules repeat evenly:
//
//   - cron whose hour, minute or second field begins with *, and cron that matches every hour
//   - Quartz in the same cases, and with a step from a value, such as 0/15
//   - an interval within a window
//
// [ClockChanges] changes the first two rules.
//
// # Calendars
//
// A [Calendar] excludes scheduled times. Next skips them, Excluded returns the calendar, and
// Preview shows them.
//
// # Zones
//
// The caller gives the zones, as returned by time.LoadLocation. A program that must run without
// zone files imports time/tzdata.
package schedule
