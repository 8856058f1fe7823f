package admin

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-dev/holdfast/admin/internal/locks"
	"github.com/holdfast-dev/holdfast/jobs/storage"
)

// hoursOf returns the hours of an agenda in a few words.
func hoursOf(a locks.Agenda) (hours []string) {
	for _, h := range a.Hours {
		text := fmt.Sprintf("%s to %s: %d firings, %d wait, %d skipped, %d paused;",
			h.From.Format(time.TimeOnly), h.Until.Format(time.TimeOnly), h.Firings, h.Waits,
			h.Skips, h.Paused)
		for _, l := range h.Long {
			text += fmt.Sprintf(" %s %d of %gs", l.Job, l.Starts, l.Usual)
		}
		hours = append(hours, text)
	}
	return hours
}

func TestAgendaByHour(t *testing.T) {
	got := hoursOf(readAgenda(t, hourly(), "?span=6h"))
	want := []string{"03:12:15 to 04:00:00: 47 firings, 0 wait, 0 skipped, 0 paused;"}
	for hour := 4; hour < 9; hour++ {
		want = append(want, fmt.Sprintf("%02d:00:00 to %02d:00:00: 62 firings, 1 wait, 0 skipped, "+
			"0 paused; load 1 of 600s", hour, hour+1))
	}
	want = append(want, "09:00:00 to 09:12:15: 15 firings, 1 wait, 0 skipped, 0 paused; "+
		"load 1 of 600s")
	if !slices.Equal(got, want) {
		t.Errorf("got hours\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	if got := hoursOf(readAgenda(t, impatient(), "?span=1h"))[1]; !strings.Contains(got,
		"1 wait, 1 skipped") {
		t.Errorf("an hour with a skip: %s", got)
	}
	if got := hoursOf(readAgenda(t, pausedHourly(), "?span=1h"))[1]; !strings.Contains(got,
		"0 wait, 0 skipped, 1 paused") {
		t.Errorf("an hour with a firing of a paused job: %s", got)
	}
}

// TestFirstHourHasLongRunsOfNow lets a run hold a table for 70 minutes.
func TestFirstHourHasLongRunsOfNow(t *testing.T) {
	o := hourly()
	h := o.Store.(*history)
	run := running(1, "hog", "replica-1", 70*time.Minute)
	h.typical["hog"] = storage.Typical{Runs: 20, Median: 10 * time.Minute, Long: 15 * time.Minute}
	h.runs = []storage.Record{run}
	h.locks = []storage.LockView{lock("orders", run, 70*time.Minute),
		lock("sales", run, 70*time.Minute)}
	long := readAgenda(t, o, "?span=1h").Hours[0].Long
	if len(long) != 1 || long[0].Job != "hog" || long[0].Starts != 0 ||
		!long[0].Until.Equal(noon.Add(70*time.Minute)) {
		t.Errorf("got %+v, want hog until %s", long, noon.Add(70*time.Minute))
	}
}

// hoursIn returns the texts of the list of hours on a page, and the address in its heading.
func hoursIn(t *testing.T, o Options, path string) (rows []string, link string) {
	t.Helper()
	body := flat(get(t, newServer(t, o).Handler(), path).Body.String())
	list := regexp.MustCompile(`<section class="panel" id="hours".*?</section>`).FindString(body)
	if m := regexp.MustCompile(`<a href="([^"]*)">`).FindStringSubmatch(list); m != nil {
		link = m[1]
	}
	_, list, _ = strings.Cut(list, "<tbody")
	for _, row := range regexp.MustCompile(`<tr .*?</tr>`).FindAllString(list, -1) {
		text := regexp.MustCompile(`<[^>]*>`).ReplaceAllString(row, " ")
		rows = append(rows, strings.Join(strings.Fields(text), " "))
	}
	return rows, link
}

func TestPageOfTheAgendaListsHours(t *testing.T) {
	rows, link := hoursIn(t, impatient(), "/agenda")
	if len(rows) != 6 || link != "/agenda?hours=all#hours" ||
		rows[0] != "03:12 to 04:00 47 none longer than 5 min none" ||
		rows[1] != "04:00 to 05:00 62 load 10 min 1 skip" {
		t.Errorf("got %q with the link %s", rows, link)
	}
	rows, link = hoursIn(t, pausedHourly(), "/agenda?hours=all&conflicts=yes")
	if len(rows) != 25 || link != "/agenda?conflicts=yes#hours" ||
		rows[24] != "Mar 15 03:00 to Mar 15 03:12 14 load 10 min; 1 paused firing does not start "+
			"none" {
		t.Errorf("got %d hours, the last %q, with the link %s", len(rows), rows[len(rows)-1], link)
	}
	if rows, link = hoursIn(t, hourly(), "/agenda?span=1h"); len(rows) != 2 || link != "" {
		t.Errorf("the next hour has %q with the link %q", rows, link)
	}
	if body := get(t, newServer(t, pausedHourly()).Handler(), "/agenda").Body.String(); !strings.
		Contains(body, "No conflicts are expected. Firings that would wait") {
		t.Error("the page does not say that no conflicts are expected")
	}
}
