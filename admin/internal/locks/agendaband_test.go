package locks

import (
	"testing"
	"time"

	"github.com/holdfast-dev/holdfast/jobs/storage"
)

func TestBandsOfAnAgenda(t *testing.T) {
	for _, c := range []struct {
		firings int
		length  time.Duration
		usual   time.Duration
		want    AgendaBand
	}{
		{1, 24 * time.Hour, 5 * time.Minute, AgendaLongRuns},
		{96, 24 * time.Hour, time.Hour, AgendaLongRuns},
		{1, 24 * time.Hour, 299 * time.Second, AgendaRare},
		{23, 24 * time.Hour, 0, AgendaRare},
		{24, 24 * time.Hour, 0, AgendaHourly},
		{25, 24 * time.Hour, 0, AgendaFrequent},
		{1, time.Hour, time.Second, AgendaHourly},
		{2, time.Hour, time.Second, AgendaFrequent},
		{1, time.Minute, time.Second, AgendaHourly}, // the computed time was cut
	} {
		job := AgendaJob{Firings: c.firings, typical: storage.Typical{Median: c.usual}}
		if got := job.bandOf(c.length); got != c.want {
			t.Errorf("%d firings in %s, usually %s: got %s, want %s", c.firings, c.length, c.usual,
				got, c.want)
		}
	}
}
