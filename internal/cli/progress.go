package cli

import (
	"sync"
	"time"

	"github.com/schollz/progressbar/v3"
)

// redrawEvery is the interval in which a bar shows the time that has passed. A command that ends
// earlier draws nothing.
const redrawEvery = 200 * time.Millisecond

const (
	barWidth     = 30
	barTextWidth = 60
)

// progress shows on a terminal how far a command is. Elsewhere it shows nothing.
type progress struct {
	bar     *progressbar.ProgressBar // nil: there is no terminal
	stop    chan struct{}
	stopped chan struct{}
	once    sync.Once
}

// progress begins to show a text and the progress of a command on standard error, until end. all is
// the number of steps; 0 if it is not known.
func (c *commandLine) progress(text string, all int) *progress {
	p := &progress{stop: make(chan struct{}), stopped: make(chan struct{})}
	if !c.isTerminal(c.errOut) {
		return p
	}
	if all == 0 {
		all = -1 // a spinner
	}
	p.bar = progressbar.NewOptions(all, progressbar.OptionSetWriter(c.errOut),
		progressbar.OptionSetDescription(ellipsis(printable(text), barTextWidth)),
		progressbar.OptionSetWidth(barWidth),
		progressbar.OptionClearOnFinish(), progressbar.OptionUseANSICodes(true),
		progressbar.OptionSetElapsedTime(true), progressbar.OptionSetPredictTime(false),
		// A goroutine of the library could draw after the end.
		progressbar.OptionSetSpinnerChangeInterval(0))
	if all > 0 {
		progressbar.OptionShowCount()(p.bar)
	}
	go p.redraw()
	return p
}

func (p *progress) redraw() {
	defer close(p.stopped)
	tick := time.NewTicker(redrawEvery)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
			_ = p.bar.RenderBlank() // the command goes on without its terminal
		case <-p.stop:
			return
		}
	}
}

// set shows that so many steps are done.
func (p *progress) set(done int) {
	if p.bar != nil {
		_ = p.bar.Set(done) // as in redraw
	}
}

// end removes the bar from the terminal. It may be called more than once.
func (p *progress) end() {
	if p.bar == nil {
		return
	}
	p.once.Do(func() {
		close(p.stop)
		<-p.stopped
		_ = p.bar.Close() // as in redraw
	})
}
