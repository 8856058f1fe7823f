package engine

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/uuid"
	"github.com/rs/zerolog"

	"github.com/holdfast-dev/holdfast/internal/sleep"
	"github.com/holdfast-dev/holdfast/jobs"
	"github.com/holdfast-dev/holdfast/jobs/storage"
)

// scripted is a store that replies to heartbeats as a test sets it.
type scripted struct {
	storage.Sessions
	mu            sync.Mutex
	opened        []uuid.UUID
	succeed       []bool // the argument of each opening
	ended         []uuid.UUID
	fail          error
	slow          time.Duration
	ahead         time.Duration // of the store's clock
	claims        map[jobs.Token]uuid.UUID
	revoked       []jobs.Token
	replicaStatus storage.ReplicaStatus // of the last heartbeat

	refuse      error // error of registrations
	definitions int64 // returned by heartbeats
	versions    map[string]storage.ActiveDefinition
	reads       int // number of reads of versions
}

func (s *scripted) Open(_ context.Context, session storage.Session) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.opened, s.succeed = append(s.opened, session.ID), append(s.succeed, session.ReplaceEarlier)
	return s.fail
}

func (s *scripted) LiveSessions(context.Context, []uuid.UUID) ([]uuid.UUID, error) {
	return nil, s.fail
}

func (s *scripted) Register(_ context.Context, _ uuid.UUID,
	definitions []storage.Definition) (map[string]int64, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	own := map[string]int64{}
	for _, d := range definitions {
		own[d.Name] = 1
	}
	return own, s.refuse
}

func (s *scripted) Versions(context.Context) (map[string]storage.ActiveDefinition, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.reads++
	return maps.Clone(s.versions), s.fail
}

func (s *scripted) Heartbeat(ctx context.Context, _ uuid.UUID,
	v storage.ReplicaStatus) (storage.HeartbeatReply, error) {
	s.mu.Lock()
	s.replicaStatus = v
	fail, slow, reply := s.fail, s.slow,
		storage.HeartbeatReply{Now: time.Now().Add(s.ahead), Claims: maps.Clone(s.claims),
			Definitions: s.definitions}
	s.mu.Unlock()
	if sleep.For(ctx, slow) != nil {
		return storage.HeartbeatReply{}, ctx.Err()
	}
	return reply, fail
}

func (s *scripted) End(_ context.Context, session uuid.UUID) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.ended = append(s.ended, session)
	return nil
}

func (s *scripted) revoke(_ context.Context, token jobs.Token, _ jobs.State, _ jobs.Reason) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.revoked = append(s.revoked, token)
	return nil
}

// counts returns the numbers of opened sessions, ended sessions and reads of versions.
func (s *scripted) counts() (opened, ended, reads int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.opened), len(s.ended), s.reads
}

func (s *scripted) set(change func(*scripted)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	change(s)
}

// keep runs a keeper inside a bubble until use returns. It sends heartbeats every 5 s with a TTL of
// 15 s. Its cron table has one job, called job.
func keep(t *testing.T, s *scripted, use func(t *testing.T, k *keeper)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		k := newTestKeeper(s)
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- runKeeper(ctx, k) }()
		use(t, k)
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
}

func tableOf(entries ...*entry) *cronTable {
	table := &cronTable{entries: map[string]*entry{}}
	for _, e := range entries {
		table.put(e)
	}
	return table
}

func runKeeper(ctx context.Context, k *keeper) error {
	_, err := k.Run(ctx)
	return err
}

func newTestKeeper(s *scripted) *keeper {
	table := tableOf(&entry{Job: jobs.Job{Name: "job"}})
	return newKeeper(&keeper{
		store: s, activation: newActivation(s, table, zerolog.Nop()), revoke: s.revoke,
		replica: "a", interval: 5 * time.Second, ttl: 15 * time.Second,
		clock: &clusterClock{}, active: newActive(), log: zerolog.Nop(),
		hash: table.hash, replicaStatus: func() storage.ReplicaStatus {
			return storage.ReplicaStatus{Workers: 3}
		},
		heard: func(time.Time, uuid.UUID, storage.HeartbeatReply) {},
	})
}

// Only the first session ends the sessions of earlier processes with the same name. A later session
// may follow a loss that another replica of that name caused by mistake.
func TestOnlyTheFirstSessionSucceedsEarlierSessions(t *testing.T) {
	for _, configured := range []bool{true, false} {
		s := &scripted{fail: storage.ErrUnavailable} // the first try fails
		synctest.Test(t, func(t *testing.T) {
			k := newTestKeeper(s)
			k.replaceEarlier = configured
			ctx, cancel := context.WithCancel(t.Context())
			ended := make(chan error, 1)
			go func() { ended <- runKeeper(ctx, k) }()
			synctest.Wait()
			s.set(func(s *scripted) { s.fail = nil })
			first, err := k.Wait(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			s.set(func(s *scripted) { s.fail = storage.ErrSessionLost })
			<-first.Context().Done()
			s.set(func(s *scripted) { s.fail = nil })
			if _, err := k.Wait(t.Context()); err != nil {
				t.Fatal(err)
			}
			cancel()
			if err := <-ended; err != nil {
				t.Error(err)
			}
		})
		if len(s.succeed) < 3 || s.succeed[0] != configured || s.succeed[1] != configured ||
			slices.Contains(s.succeed[2:], true) {
			t.Errorf("configured %v: sessions that succeed others: %v", configured, s.succeed)
		}
	}
}

func TestHeartbeatComparesClaims(t *testing.T) {
	unknown, starting := uuid.New(), uuid.New()
	s := &scripted{}
	keep(t, s, func(t *testing.T, k *keeper) {
		taken, stopTaken := context.WithCancelCause(t.Context())
		claimContext, revoke := context.WithCancelCause(t.Context())
		defer revoke(nil)
		synctest.Wait() // no heartbeat compares claims before all of them are set
		k.active.add(1, uuid.New(), stopTaken)
		k.active.add(2, uuid.New(), revoke)
		defer k.active.track(starting)()
		s.set(func(s *scripted) {
			s.claims = map[jobs.Token]uuid.UUID{2: uuid.New(), 3: unknown, 4: starting}
		})
		time.Sleep(6 * time.Second)
		if !errors.Is(context.Cause(taken), jobs.ErrClaimLost) {
			t.Errorf("run without a claim: got cause %v", context.Cause(taken))
		}
		if claimContext.Err() != nil {
			t.Errorf("run with a claim: got cause %v", context.Cause(claimContext))
		}
		s.mu.Lock()
		defer s.mu.Unlock()
		for _, token := range s.revoked {
			if token != 3 {
				t.Errorf("claim %d was revoked, want only claim 3", token)
			}
		}
		if len(s.revoked) == 0 {
			t.Error("the claim of an unknown run was not revoked")
		}
	})
}

// TestRunThatEndsDuringAHeartbeat compares the claims that a heartbeat read before a run's finish
// was committed: its claim is not one without a run.
func TestRunThatEndsDuringAHeartbeat(t *testing.T) {
	s := &scripted{}
	keep(t, s, func(t *testing.T, k *keeper) {
		k.compareClaims(t.Context(), []jobs.Token{1},
			map[jobs.Token]uuid.UUID{1: uuid.New(), 2: uuid.New()})
		s.mu.Lock()
		defer s.mu.Unlock()
		if want := []jobs.Token{2}; !slices.Equal(s.revoked, want) {
			t.Errorf("revoked claims: %v, want %v", s.revoked, want)
		}
	})
}

func TestClockFollowsTheStores(t *testing.T) {
	s := &scripted{ahead: 90 * time.Second}
	keep(t, s, func(t *testing.T, k *keeper) {
		if _, err := k.Wait(t.Context()); err != nil {
			t.Fatal(err)
		}
		if got := time.Until(k.clock.now()); got != 90*time.Second {
			t.Errorf("cluster time is %s ahead, want 90s", got)
		}
	})
}

func TestVersionsAreReadAgainOnlyAfterAReportedChange(t *testing.T) {
	s := &scripted{versions: map[string]storage.ActiveDefinition{"job": {Version: 1}}}
	keep(t, s, func(t *testing.T, k *keeper) {
		activeVersion := &k.activation.table.get("job").activeVersion
		step := func(what string, change func(*scripted), stale bool, reads int) {
			t.Helper()
			s.set(change)
			time.Sleep(5 * time.Second)
			synctest.Wait()
			if _, _, got := s.counts(); got != reads || activeVersion.stale() != stale {
				t.Errorf("%s: versions read %d times, want %d; stale %v, want %v", what, got, reads,
					activeVersion.stale(), stale)
			}
		}
		time.Sleep(time.Second)
		step("nothing", func(*scripted) {}, false, 1)
		step("another version without a word", func(s *scripted) {
			s.versions["job"] = storage.ActiveDefinition{Version: 2}
		}, false, 1)
		step("the word", func(s *scripted) { s.definitions++ }, true, 2)
		step("the store fails", func(s *scripted) {
			s.definitions++
			s.versions["job"] = storage.ActiveDefinition{Version: 1}
			s.fail = storage.ErrUnavailable
		}, true, 2)
		step("and answers again", func(s *scripted) { s.fail = nil }, false, 3)
		step("nothing more", func(*scripted) {}, false, 3)
	})
}

func TestRefusedStartReadsVersionsAtOnce(t *testing.T) {
	s := &scripted{versions: map[string]storage.ActiveDefinition{"job": {Version: 1}}}
	keep(t, s, func(t *testing.T, k *keeper) {
		activeVersion := &k.activation.table.get("job").activeVersion
		time.Sleep(time.Second)
		s.set(func(s *scripted) { s.versions["job"] = storage.ActiveDefinition{Version: 2} })
		for range 3 { // firings that are refused at the same time
			k.activation.doubt()
		}
		synctest.Wait()
		if _, _, reads := s.counts(); !activeVersion.stale() || reads != 2 {
			t.Errorf("stale %v, versions read %d times, want true and once more",
				activeVersion.stale(), reads)
		}
		select {
		case <-k.activation.revised:
		default:
			t.Error("wake of the dispatcher: got none, want one")
		}
		// a heartbeat does not report the change
		s.set(func(s *scripted) { s.versions["job"] = storage.ActiveDefinition{Version: 1} })
		time.Sleep(5 * time.Second)
		synctest.Wait()
		if activeVersion.stale() {
			t.Error("job after a refused start: got it inactive for ever, want it active again")
		}
	})
}

func TestRequestedHeartbeatsDoNotDelayRegularOnes(t *testing.T) {
	s := &scripted{versions: map[string]storage.ActiveDefinition{"job": {Version: 1}}}
	keep(t, s, func(t *testing.T, k *keeper) {
		l, err := k.Wait(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		for range 60 {
			k.activation.doubt()
			time.Sleep(time.Second)
		}
		if l.Context().Err() != nil {
			t.Errorf("session lost: %v", context.Cause(l.Context()))
		}
		if _, _, reads := s.counts(); reads > 30 {
			t.Errorf("versions read %d times in 12 heartbeats", reads)
		}
	})
}

func TestFirstSessionIsRetriedUnlessTheErrorIsPermanent(t *testing.T) {
	mistake := errors.New("permission denied")
	for name, c := range map[string]struct {
		refuse error
		want   error
	}{
		"unavailable": {fmt.Errorf("registration: %w", storage.ErrUnavailable), nil},
		"expired":     {fmt.Errorf("registration: %w", storage.ErrSessionLost), nil},
		"a mistake":   {mistake, mistake},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := &scripted{refuse: c.refuse,
					versions: map[string]storage.ActiveDefinition{"job": {Version: 1}}}
				k := newTestKeeper(s)
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				ended := make(chan error, 1)
				go func() { ended <- runKeeper(ctx, k) }()
				time.Sleep(10 * time.Second)
				if c.want != nil {
					if err := <-ended; !errors.Is(err, c.want) {
						t.Errorf("got %v, want %v", err, c.want)
					}
					return
				}
				if k.session() != nil {
					t.Error("session without its definitions: got it, want none")
				}
				synctest.Wait()
				if opened, ended, _ := s.counts(); ended != opened || opened < 2 {
					t.Errorf("%d sessions opened, %d given back", opened, ended)
				}
				s.set(func(s *scripted) { s.refuse = nil })
				if _, err := k.Wait(t.Context()); err != nil {
					t.Error(err)
				}
				s.set(func(s *scripted) { s.refuse, s.fail = mistake, storage.ErrSessionLost })
				time.Sleep(30 * time.Second) // only the first refusal may be permanent
				cancel()
				if err := <-ended; err != nil {
					t.Error(err)
				}
			})
		})
	}
}

// slowRegistry is a store that takes some time for each definition that it registers.
type slowRegistry struct {
	*scripted
	each time.Duration
}

func (s slowRegistry) Register(ctx context.Context, session uuid.UUID,
	definitions []storage.Definition) (map[string]int64, error) {
	if err := sleep.For(ctx, time.Duration(len(definitions))*s.each); err != nil {
		return nil, err
	}
	return s.scripted.Register(ctx, session, definitions)
}

// A reload adds so many jobs that their registration takes longer than the time between two
// heartbeats. The session must be confirmed meanwhile, because starts pause otherwise.
func TestHeartbeatsContinueWhileManyJobsAreRegistered(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &scripted{}
		k := newTestKeeper(s)
		k.activation.store = slowRegistry{s, 300 * time.Microsecond}
		ctx, stop := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- runKeeper(ctx, k) }()
		if _, err := k.Wait(ctx); err != nil {
			t.Fatal(err)
		}
		time.Sleep(4 * time.Second) // shortly before a heartbeat
		for i := range 20_000 {
			k.activation.table.put(&entry{Job: jobs.Job{Name: fmt.Sprint("added-", i)}})
		}
		k.activation.enrollLater()
		now, cancel := context.WithCancel(ctx)
		cancel() // AwaitConfirmed returns at once
		for range 100 {
			time.Sleep(100 * time.Millisecond)
			if !k.AwaitConfirmed(now) {
				t.Fatal("starts pause, because the session is not confirmed")
			}
		}
		if left := len(k.activation.table.unregistered()); left != 0 {
			t.Errorf("%d jobs are not registered", left)
		}
		stop()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
}

// A store that cannot register a whole part within the time of a call gets smaller parts.
func TestManyJobsAreRegisteredInASlowStore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &scripted{}
		k := newTestKeeper(s)
		k.activation.store = slowRegistry{s, 3 * time.Millisecond}
		ctx, stop := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- runKeeper(ctx, k) }()
		if _, err := k.Wait(ctx); err != nil {
			t.Fatal(err)
		}
		for i := range 6_000 {
			k.activation.table.put(&entry{Job: jobs.Job{Name: fmt.Sprint("added-", i)}})
		}
		for range 60 {
			k.activation.enrollLater() // as the control state does
			time.Sleep(time.Second)
		}
		if left := len(k.activation.table.unregistered()); left != 0 {
			t.Errorf("%d jobs are not registered", left)
		}
		stop()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
}
