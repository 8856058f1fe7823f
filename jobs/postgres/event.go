package postgres

import (
	"sync/atomic"
	"time"
)

// event remembers for some time that something has happened. It may be used concurrently.
type event struct{ until atomic.Int64 } // in ns since 1970, by this machine's clock

const eventLasts = 10 * time.Second

func (e *event) note() { e.until.Store(time.Now().Add(eventLasts).UnixNano()) }

// lately reports whether note was called in the last 10 s.
func (e *event) lately() bool { return time.Now().UnixNano() < e.until.Load() }
