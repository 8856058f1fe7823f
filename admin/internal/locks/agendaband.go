package locks

import "time"

// AgendaBand is a part of the jobs of an agenda.
type AgendaBand string

// The bands, in their order on the page. The rate of a job is an average of the computed time.
const (
	AgendaLongRuns AgendaBand = "long_runs"        // jobs that usually run for five minutes or more
	AgendaRare     AgendaBand = "less_than_hourly" // others, with fewer firings than hours
	AgendaHourly   AgendaBand = "hourly"           // others, with as many firings as hours
	AgendaFrequent AgendaBand = "more_than_hourly" // others, with more firings than hours
)

// AgendaBands returns the bands in their order.
func AgendaBands() []AgendaBand {
	return []AgendaBand{AgendaLongRuns, AgendaRare, AgendaHourly, AgendaFrequent}
}

// Words returns the heading of a band.
func (b AgendaBand) Words() string {
	switch b {
	case AgendaLongRuns:
		return "Long runs"
	case AgendaRare:
		return "Less than hourly"
	case AgendaHourly:
		return "Hourly"
	}
	return "More than hourly"
}

// bandOf returns the band of a job in an agenda of that length.
func (j *AgendaJob) bandOf(length time.Duration) AgendaBand {
	hours := max(1, int(length.Round(time.Hour)/time.Hour))
	switch {
	case j.typical.Median >= longRun:
		return AgendaLongRuns
	case j.Firings < hours:
		return AgendaRare
	case j.Firings == hours:
		return AgendaHourly
	}
	return AgendaFrequent
}
