package schedule_test

import (
	"fmt"
	"time"

	"github.com/holdfast-dev/holdfast/jobs/schedule"
)

func ExampleParse() {
	berlin, err := time.LoadLocation("Europe/Berlin")
	if err != nil {
		fmt.Println(err)
		return
	}
	nightly, err := schedule.Parse(schedule.Spec{Cron: "30 2 * * *"}, berlin)
	if err != nil {
		fmt.Println(err)
		return
	}
	// On 29 March 2026 clocks go forward from 2:00 to 3:00.
	for _, scheduledAt := range nightly.Upcoming(time.Date(2026, 3, 27, 12, 0, 0, 0, berlin), 3) {
		fmt.Println(scheduledAt.In(berlin))
	}
	// Output:
	// 2026-03-28 02:30:00 +0100 CET
	// 2026-03-29 03:00:00 +0200 CEST
	// 2026-03-30 02:30:00 +0200 CEST
}
