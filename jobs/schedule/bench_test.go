package schedule_test

import (
	"testing"
	"time"
)

func BenchmarkNext(b *testing.B) {
	from := time.Date(2026, 3, 28, 0, 0, 0, 0, time.UTC)
	for _, text := range []string{"* * * * * *", "*/5 * * * *", "30 2 * * *", "0 9 * * mon-fri",
		"0 0 29 2 *", "@every 90s"} {
		b.Run(text, func(b *testing.B) {
			s := parse(b, text, zone(b, "Europe/Berlin"))
			b.ReportAllocs()
			for b.Loop() {
				s.Next(from)
			}
		})
	}
}

func BenchmarkParse(b *testing.B) {
	for b.Loop() {
		parse(b, "*/5 8-18 * * mon-fri", time.UTC)
	}
}
