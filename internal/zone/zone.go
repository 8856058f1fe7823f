// Package zone loads the time zones of schedules.
package zone

import (
	"errors"
	"time"
)

var errLocal = errors.New("the zone Local is that of one machine")

// Load is time.LoadLocation without Local: all replicas must have the same zones.
func Load(name string) (*time.Location, error) {
	location, err := time.LoadLocation(name)
	if location == time.Local {
		return nil, errLocal
	}
	return location, err
}
