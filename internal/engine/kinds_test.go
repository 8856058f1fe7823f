package engine_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-dev/holdfast/jobs"
	"github.com/holdfast-dev/holdfast/jobs/schedule"
	"github.com/holdfast-dev/holdfast/jobs/storage"
)

// The replicas run at the end of a January, on a Monday. The test checks what each kind of schedule
// has fired half an hour later.
func TestEachKindOfScheduleFires(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		// no replica runs yet
		time.Sleep(time.Until(time.Date(2000, 1, 31, 23, 50, 0, 0, time.UTC)))
		feast, err := schedule.NewCalendar(schedule.CalendarSpec{Name: "feast",
			Exclude: schedule.TimesSpec{Dates: []string{"2000-02-01"}}})
		if err != nil {
			t.Fatal(err)
		}
		kinds := []struct {
			text   string
			change func(schedule.Schedule) schedule.Schedule
			want   string // scheduled times of day
		}{
			{"*/10 * * * *", nil, "00:00:00, 00:10:00, 00:20:00"},
			{"30 5/10 * * * *", nil, "23:55:30, 00:05:30, 00:15:30"},
			{"0 0 1 * tue", nil, "00:00:00"},
			{"@monthly", nil, "00:00:00"},
			{"@every 17m", nil, "23:56:00, 00:13:00"},
			{"quartz:0 55 23 LW * ?", nil, "23:55:00"},
			{"quartz:0 0/20 * ? FEB TUE#1 2000", nil, "00:00:00, 00:20:00"},
			{"every:15m", nil, "00:00:00, 00:15:00"},
			{"every 10m between 23:00 and 00:10 on mon", nil, "00:00:00, 00:10:00"},
			{"every 1 day at 00:05", nil, "00:05:00"},
			{"every 1 week at 00:06 on tue", nil, "00:06:00"},
			{"every 1 month at 00:07", nil, "00:07:00"},
			{"every 1 year at 00:08 on 1 feb", nil, "00:08:00"},
			{"at:2000-02-01T00:09:00Z", nil, "00:09:00"},
			{"after:every:15m", nil, "00:00:00, 00:15:00"},
			{"", nil, ""},
			{"*/15 * * * *", func(s schedule.Schedule) schedule.Schedule { return s.WithJitter(time.Minute) }, "00:00:00, 00:15:00"},
			{"*/5 * * * *", func(s schedule.Schedule) schedule.Schedule { return s.WithCalendars(feast) }, "23:55:00"},
		}
		c := newCluster(t)
		var table []jobs.Job
		for _, kind := range kinds {
			j := job(t, kind.text, time.Hour)
			if j.Schedule, err = parsed(kind.text); err != nil {
				t.Fatal(err)
			}
			if kind.change != nil {
				j.Schedule = kind.change(j.Schedule)
			}
			if kind.text == "" {
				j.Name = "only triggered"
			}
			table = append(table, j)
		}
		var stops []func()
		for _, name := range []string{"a", "b"} {
			stops = append(stops, c.start(c.options(name, takes(time.Second), table...)))
		}
		time.Sleep(35 * time.Minute)
		if _, err := c.store.Trigger(t.Context(), storage.Action{Actor: "test", Via: "go"},
			storage.TriggerRequest{Job: "only triggered", Key: "k"}); err != nil {
			t.Fatal(err)
		}
		time.Sleep(3 * time.Second)
		for _, stop := range stops {
			stop()
		}
		for i, kind := range kinds {
			if kind.text == "" {
				continue
			}
			if got := c.ranFor(table[i].Name); got != kind.want {
				t.Errorf("%q ran for %s, want %s", kind.text, got, kind.want)
			}
		}
		if r := c.runs("only triggered"); len(r) != 1 || r[0].State != jobs.Succeeded ||
			r[0].Key != "k" {
			t.Errorf("only triggered: %+v", r)
		}
	})
}

func parsed(text string) (schedule.Schedule, error) {
	if text == "" {
		return schedule.Schedule{}, nil
	}
	return schedule.ParseText(text, time.UTC)
}
