package cli

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/uuid"

	"github.com/holdfast-dev/holdfast/admin"
	"github.com/holdfast-dev/holdfast/internal/app"
	"github.com/holdfast-dev/holdfast/internal/output"
	"github.com/holdfast-dev/holdfast/jobs"
	"github.com/holdfast-dev/holdfast/jobs/reasons"
	"github.com/holdfast-dev/holdfast/jobs/storage"
)

func TestLogsPrintTheOutputOfARun(t *testing.T) {
	path, run := retriedStore(t)
	for _, more := range [][]string{nil, {"-f"}} {
		var out bytes.Buffer
		err := Execute(t.Context(), append([]string{"logs", run.String(), "-c", path}, more...),
			&out, &out, app.Options{})
		if err != nil || out.String() != "second\n" {
			t.Errorf("logs %v: got %q and %v, want the output", more, out.String(), err)
		}
	}
	for _, c := range []struct {
		args []string
		want string
	}{
		{[]string{"logs", "x"}, `run: expected an id from "scheduler runs", found "x"`},
		{[]string{"logs", uuid.NewString()}, "not found in the history"},
		{[]string{"logs", run.String(), "-o", "json"}, "-o json: expected table"},
	} {
		err := Execute(t.Context(), append(c.args, "-c", path), &bytes.Buffer{}, &bytes.Buffer{},
			app.Options{})
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%v: got %v, want %q", c.args, err, c.want)
		}
	}
}

// TestOutputOfARunningRunIsWatched checks that "logs" and "runs" make a running run save its
// output, and say so.
func TestOutputOfARunningRunIsWatched(t *testing.T) {
	for _, command := range []string{"logs", "runs"} {
		path, _ := retriedStore(t)
		store := openStore(t, path, true)
		session, run := uuid.New(), uuid.New()
		if err := store.Open(t.Context(), storage.Session{ID: session, Replica: "web-2",
			TTL: time.Minute}); err != nil {
			t.Fatal(err)
		}
		if _, err := store.Start(t.Context(), session, []storage.StartRequest{{Run: run, Attempt: 1,
			Firing:    storage.Firing{Job: "weekly", ScheduledAt: time.Now().Truncate(time.Hour)},
			WaitSince: time.Now()}}); err != nil {
			t.Fatal(err)
		}
		got := perform(t, nil, command, run.String(), "-c", path)
		note := fmt.Sprintf("scheduler: run %s is running; to print its output as it grows, use "+
			"\"scheduler logs --follow\"\n", run)
		if got.code != 0 || got.notes != note {
			t.Errorf("%s: got %+v, want the note %q", command, got, note)
		}
		now, err := store.ControlState(t.Context(), session, 0)
		if err != nil || !slices.Equal(now.Watched, []uuid.UUID{run}) {
			t.Errorf("%s: the watched runs are %v, %v, want %s", command, now.Watched, err, run)
		}
	}
}

// TestRunThatCannotBeWatched has the output although the run cannot be watched.
func TestRunThatCannotBeWatched(t *testing.T) {
	in := &unwatchable{scriptedHistory{answers: []scriptedAnswer{{run: storage.Record{
		State: jobs.Running, Attempt: 1, Output: "a\n"}}}}}
	var out, errOut bytes.Buffer
	f := follower{in: in, out: &out, errOut: &errOut}
	if err := f.print(t.Context(), uuid.New()); err != nil || out.String() != "a\n" ||
		!strings.Contains(errOut.String(), "its new output is not stored: store is unavailable") {
		t.Errorf("got %q, %q and %v, want the output and a note", out.String(), errOut.String(),
			err)
	}
}

// TestLogsOfAWaitingRun says that a run without output waits.
func TestLogsOfAWaitingRun(t *testing.T) {
	id := uuid.New()
	note := fmt.Sprintf("scheduler: run %s is waiting and has no output; "+
		"\"scheduler runs %s\" says for what it waits\n", id, id)
	for text, want := range map[string]string{"": note, "first\n": ""} {
		in := &scriptedHistory{answers: []scriptedAnswer{{run: storage.Record{
			State: jobs.Waiting, Attempt: 1, Output: text}}}}
		var out, errOut bytes.Buffer
		f := follower{in: in, out: &out, errOut: &errOut}
		if err := f.print(t.Context(), id); err != nil || out.String() != text ||
			errOut.String() != want {
			t.Errorf("output %q: got %q, %q and %v, want the note %q", text, out.String(),
				errOut.String(), err, want)
		}
	}
}

// TestLogsNoteTheEndOfARun checks the notes about runs that have ended: without --follow about
// missing output, and with it also about an end without success.
func TestLogsNoteTheEndOfARun(t *testing.T) {
	id := uuid.New()
	empty := fmt.Sprintf("scheduler: run %s has no stored output", id)
	const unread = "; a running run stores its output only while a command or a page reads it"
	for name, c := range map[string]struct {
		run          storage.Record
		logs, follow string
	}{
		"succeeded": {storage.Record{State: jobs.Succeeded, Output: "a\n"}, "", ""},
		"silent":    {storage.Record{State: jobs.Succeeded}, empty + "\n", empty + "\n"},
		"failed": {storage.Record{State: jobs.Failed, Output: "a\n", Error: "exit status 1\n\x1b[31m"},
			"", fmt.Sprintf("scheduler: run %s failed: exit status 1  [31m\n", id)},
		"timed out": {storage.Record{State: jobs.TimedOut, Output: "a\n"},
			"", fmt.Sprintf("scheduler: run %s exceeded its timeout\n", id)},
		"lost": {storage.Record{State: jobs.Lost, Reason: reasons.SessionLost, Detail: "web-2 is gone"},
			empty + unread + "\n",
			fmt.Sprintf("scheduler: run %s was lost: session_lost: web-2 is gone\n%s%s\n", id,
				empty, unread)},
		"silent attempt": {storage.Record{State: jobs.Cancelled, Attempt: 2},
			fmt.Sprintf("scheduler: attempt 2 of run %s has no stored output\n", id),
			fmt.Sprintf("scheduler: run %s was cancelled\n"+
				"scheduler: attempt 2 of run %s has no stored output\n", id, id)},
	} {
		c.run.ID = id
		for _, read := range []struct {
			show func(*follower) error
			want string
		}{
			{func(f *follower) error { return f.print(t.Context(), id) }, c.logs},
			{func(f *follower) error { return f.follow(t.Context(), id) }, c.follow},
		} {
			in := &scriptedHistory{answers: []scriptedAnswer{{run: c.run}}}
			var out, errOut bytes.Buffer
			err := read.show(&follower{in: in, out: &out, errOut: &errOut})
			if err != nil || out.String() != c.run.Output || errOut.String() != read.want {
				t.Errorf("%s: got %q, %q and %v, want the note %q", name, out.String(),
					errOut.String(), err, read.want)
			}
		}
	}
}

// unwatchable has runs that cannot be watched.
type unwatchable struct{ scriptedHistory }

func (*unwatchable) Watch(context.Context, uuid.UUID) error { return storage.ErrUnavailable }

func TestOnlyNewOutputIsPrinted(t *testing.T) {
	for _, c := range []struct{ before, text, want string }{
		{"", "a\n", "a\n"},
		{"a\n", "a\n", ""},
		{"a\n", "a\nb\n", "b\n"},
		{"a\nb\n", output.CutMark + "b\nc\n", "c\n"},
		{output.CutMark + "b\n", output.CutMark + "b\nc\n", "c\n"},
		{"a\nb\nc\n", output.CutMark + "c\n", ""},
		{"a\n", output.CutMark + "x\n", output.CutMark + "x\n"},
		{"", output.CutMark + "x\n", "x\n"},
	} {
		if got := newPart(c.before, c.text); got != c.want {
			t.Errorf("after %q, %q: got %q, want %q", c.before, c.text, got, c.want)
		}
	}
}

// TestLogsFollowARunThroughItsAttempts prints the rest of an attempt when the next one runs.
func TestLogsFollowARunThroughItsAttempts(t *testing.T) {
	path, id := retriedStore(t)
	c := &commandLine{configPath: path}
	var out bytes.Buffer
	err := c.withCluster(t.Context(), func(in cluster) error {
		f := follower{in: in, out: &out}
		for _, r := range []storage.Record{
			{State: jobs.Waiting}, {Attempt: 1}, {Attempt: 1, Output: "fir"},
			{Attempt: 2}, {Attempt: 2, Output: "\x1b[31msec\x1b[0m"},
		} {
			r.ID = id
			if err := f.printRun(t.Context(), r); err != nil {
				return err
			}
		}
		return nil
	})
	if want := "first\n[attempt 2]\nsec"; err != nil || out.String() != want {
		t.Errorf("got %q and %v, want %q", out.String(), err, want)
	}
}

// attempts has the outputs of attempts by their numbers. It does not answer the first question
// about the one in down.
type attempts struct {
	history
	outputs map[int]string
	down    int
}

func (a *attempts) Attempt(_ context.Context, _ uuid.UUID, n int) (storage.RunAttempt, error) {
	if n == a.down {
		a.down = 0
		return storage.RunAttempt{}, storage.ErrUnavailable
	}
	output, found := a.outputs[n]
	if !found {
		return storage.RunAttempt{}, storage.ErrNotFound
	}
	return storage.RunAttempt{Attempt: n, Output: output}, nil
}

// TestLogsFollowQuickAttempts follows a run whose attempts 2 to 5 end between two readings, where
// the store has no attempt 4, and does not answer once.
func TestLogsFollowQuickAttempts(t *testing.T) {
	var out bytes.Buffer
	f := follower{out: &out, in: &attempts{down: 5,
		outputs: map[int]string{1: "a\nb\n", 2: "c\n", 3: "c\n", 5: "d\n"}}}
	for _, read := range []struct {
		run  storage.Record
		want error
	}{
		{storage.Record{Attempt: 1, Output: "a\n"}, nil},
		{storage.Record{Attempt: 6, Output: "e\n"}, storage.ErrUnavailable},
		{storage.Record{Attempt: 6, Output: "e\nf\n"}, nil},
	} {
		if err := f.printRun(t.Context(), read.run); !errors.Is(err, read.want) {
			t.Errorf("attempt %d: got %v, want %v", read.run.Attempt, err, read.want)
		}
	}
	want := "a\nb\n[attempt 2]\nc\n[attempt 3]\nc\n[attempt 5]\nd\n[attempt 6]\ne\nf\n"
	if out.String() != want {
		t.Errorf("got %q, want %q", out.String(), want)
	}
}

// scriptedHistory answers each reading of a run with the next of the answers.
type scriptedHistory struct {
	history
	answers []scriptedAnswer
	readAt  []time.Duration // since start
	start   time.Time
}

type scriptedAnswer struct {
	run storage.Record
	err error
}

func (h *scriptedHistory) Watch(context.Context, uuid.UUID) error { return nil }

func (h *scriptedHistory) Run(context.Context, uuid.UUID) (admin.RunDetail, error) {
	next := h.answers[len(h.readAt)]
	h.readAt = append(h.readAt, time.Since(h.start))
	return admin.RunDetail{Record: next.run}, next.err
}

// TestLogsWaitForAnAnswer follows a run while the store does not answer for a time, twice. The
// delays grow during each outage, and each outage is reported once.
func TestLogsWaitForAnAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		down := scriptedAnswer{err: fmt.Errorf("read run: %w\x1b[31m", storage.ErrUnavailable)}
		running := scriptedAnswer{run: storage.Record{Attempt: 1, State: jobs.Running,
			Output: "a\n"}}
		ended := scriptedAnswer{run: storage.Record{Attempt: 1, State: jobs.Failed,
			Output: "a\nb\n"}}
		h := &scriptedHistory{start: time.Now(), answers: []scriptedAnswer{running, down, down,
			down, running, down, ended}}
		var out, errOut bytes.Buffer
		f := follower{in: h, out: &out, errOut: &errOut}
		if err := f.follow(t.Context(), uuid.New()); err != nil || out.String() != "a\nb\n" {
			t.Errorf("got %q and %v, want the output", out.String(), err)
		}
		want := []time.Duration{0, 1, 2, 4, 8, 9, 10}
		for i := range want {
			want[i] *= time.Second
		}
		if !slices.Equal(h.readAt, want) {
			t.Errorf("read at %v, want %v", h.readAt, want)
		}
		note := "scheduler: waiting for an answer: read run: store is unavailable\n"
		failed := fmt.Sprintf("scheduler: run %s failed\n", uuid.Nil)
		if errOut.String() != note+note+failed {
			t.Errorf("got the notes %q, want two of %q and %q", errOut.String(), note, failed)
		}
	})
}

// TestLogsEndWithoutHope checks errors that do not pass, and that an interrupt is none.
func TestLogsEndWithoutHope(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		running := scriptedAnswer{run: storage.Record{Attempt: 1, State: jobs.Running}}
		gone, down := scriptedAnswer{err: storage.ErrNotFound},
			scriptedAnswer{err: storage.ErrUnavailable}
		for name, c := range map[string]struct {
			answers []scriptedAnswer
			want    error
		}{
			"the run is gone":      {[]scriptedAnswer{running, gone}, storage.ErrNotFound},
			"never reached":        {[]scriptedAnswer{down}, storage.ErrUnavailable},
			"interrupted, running": {slices.Repeat([]scriptedAnswer{running}, 99), nil},
			"interrupted, no reply": {append([]scriptedAnswer{running},
				slices.Repeat([]scriptedAnswer{down}, 99)...), nil},
		} {
			ctx, cancel := context.WithTimeout(t.Context(), 90*time.Second)
			f := follower{in: &scriptedHistory{start: time.Now(), answers: c.answers},
				out: io.Discard, errOut: io.Discard}
			if err := f.follow(ctx, uuid.New()); !errors.Is(err, c.want) {
				t.Errorf("%s: got %v, want %v", name, err, c.want)
			}
			cancel()
		}
	})
}

// TestLogsOfABusyServer follows a run at a server whose first answer is 503.
func TestLogsOfABusyServer(t *testing.T) {
	s := serve(t)
	target, err := url.Parse(s.server)
	if err != nil {
		t.Fatal(err)
	}
	proxy := httputil.NewSingleHostReverseProxy(target)
	var asked atomic.Int32
	busy := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if asked.Add(1) == 1 {
			http.Error(w, "busy", http.StatusServiceUnavailable)
			return
		}
		r.Host = target.Host
		proxy.ServeHTTP(w, r)
	}))
	t.Cleanup(busy.Close)
	follow := func(token string) (out, errOut bytes.Buffer, err error) {
		c := &commandLine{out: &out, getenv: func(string) string { return "" }}
		err = c.execute(t.Context(), []string{"logs", "-f", s.ended.String(), "--server", busy.URL,
			"--token-file", s.token(t, token)}, &errOut)
		return out, errOut, err
	}
	out, errOut, err := follow(operatorToken)
	if err != nil || out.String() != "second\n" ||
		errOut.String() != "scheduler: waiting for an answer: ask "+busy.URL+
			": service unavailable\n" {
		t.Errorf("got %q, %q and %v, want the output and one note", out.String(), errOut.String(),
			err)
	}
	if _, errOut, err := follow("wrong"); err == nil || errOut.Len() > 0 ||
		!strings.Contains(err.Error(), "refused the token") {
		t.Errorf("with a wrong token: got %q and %v, want the error at once", errOut.String(), err)
	}
}

// TestInterruptedWait checks that a command that waits names the signal, and says that its run goes
// on.
func TestInterruptedWait(t *testing.T) {
	path, id := retriedStore(t)
	ctx, stop := context.WithCancelCause(t.Context())
	c := &commandLine{configPath: path, out: &bytes.Buffer{}}
	err := c.withCluster(ctx, func(in cluster) error {
		stop(interrupted{os.Interrupt})
		return c.awaitRun(ctx, in, id)
	})
	want := fmt.Sprintf("wait for run %s: interrupted; the run goes on", id)
	if err == nil || err.Error() != want || !errors.Is(err, context.Canceled) {
		t.Errorf("got %v, want %q and context.Canceled", err, want)
	}
}

func TestExitCodesOfAwaitedRuns(t *testing.T) {
	path, id := retriedStore(t)
	ctx := t.Context()
	c := &commandLine{configPath: path, out: &bytes.Buffer{}}
	err := c.withCluster(ctx, func(in cluster) error {
		for state, want := range map[jobs.State]int{jobs.Succeeded: 0, jobs.Failed: 2,
			jobs.TimedOut: 2, jobs.Lost: 2, jobs.Skipped: 3, jobs.Cancelled: 3, jobs.Missed: 3} {
			run, err := in.Run(ctx, id)
			if err != nil {
				return err
			}
			run.State = state
			got, ended := 0, c.printEnd(run.Record)
			if own, ok := ended.(*ExitError); ok && own.Error() == "" {
				got = own.Code
			} else if ended != nil {
				return ended
			}
			if got != want {
				t.Errorf("%s: got exit code %d, want %d", state, got, want)
			}
		}
		return nil
	})
	if err != nil {
		t.Error(err)
	}
}
