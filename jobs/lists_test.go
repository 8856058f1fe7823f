package jobs

import (
	"bytes"
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/rs/zerolog"
)

// sessions is a History that knows sessions only.
type sessions struct {
	History
	all []ReplicaView
	err error
}

func (s *sessions) Replicas(context.Context) ([]ReplicaView, error) { return s.all, s.err }

func TestListsOfServersAreCompared(t *testing.T) {
	now := time.Date(2026, 3, 14, 3, 0, 0, 0, time.UTC)
	living := func(name, list string) ReplicaView {
		return ReplicaView{Name: name, LockServers: list, ExpiresAt: now.Add(time.Second)}
	}
	expired, ended := living("b", "other"), living("b", "other")
	expired.ExpiresAt, ended.EndedAt = now, &now
	const differ, same = `"differ_from":["b"]`, "the same list of lock servers again"
	for name, test := range map[string]struct {
		looks [][]ReplicaView
		lists int64    // in the end
		want  []string // in the log, a line each
	}{
		"alone":                          {[][]ReplicaView{{living("a", "own")}}, 1, nil},
		"alike":                          {[][]ReplicaView{{living("a", "own"), living("b", "own")}}, 1, nil},
		"different":                      {[][]ReplicaView{{living("a", "own"), living("b", "other")}}, 2, []string{differ}},
		"before its own session shows":   {[][]ReplicaView{{living("b", "other")}}, 2, []string{differ}},
		"three lists":                    {[][]ReplicaView{{living("a", "own"), living("b", "other"), living("c", "third")}}, 3, []string{`"differ_from":["b","c"]`}},
		"two sessions of one replica":    {[][]ReplicaView{{living("b", "other"), living("b", "third")}}, 3, []string{differ}},
		"said once":                      {[][]ReplicaView{{living("b", "other")}, {living("b", "other")}}, 2, []string{differ}},
		"mended":                         {[][]ReplicaView{{living("b", "other")}, {living("b", "own")}, {living("b", "own")}}, 1, []string{differ, same}},
		"and broken again":               {[][]ReplicaView{{living("b", "other")}, {}, {living("b", "other")}}, 2, []string{differ, same, differ}},
		"expired":                        {[][]ReplicaView{{expired}}, 1, nil},
		"ended":                          {[][]ReplicaView{{ended}}, 1, nil},
		"of an older version":            {[][]ReplicaView{{living("b", "")}}, 1, nil},
		"of this replica's former life":  {[][]ReplicaView{{living("a", "other")}}, 1, nil},
		"store that can't be asked then": {[][]ReplicaView{{living("b", "other")}, nil}, 2, []string{differ}},
	} {
		t.Run(name, func(t *testing.T) {
			var log bytes.Buffer
			store := &sessions{}
			l := &serverLists{store: store, replica: "a", own: "own", now: func() time.Time { return now }, log: zerolog.New(&log).Level(zerolog.InfoLevel)}
			for _, look := range test.looks {
				store.all, store.err = look, nil
				if look == nil {
					store.err = errors.New("no answer")
				}
				l.compare(t.Context())
			}
			if got := l.number.Load(); got != test.lists {
				t.Errorf("%d lists, expected %d", got, test.lists)
			}
			lines := strings.Split(strings.TrimSpace(log.String()), "\n")
			if log.Len() == 0 {
				lines = nil
			}
			if len(lines) != len(test.want) {
				t.Fatalf("log is %q, expected %q", lines, test.want)
			}
			for i, line := range lines {
				if !strings.Contains(line, test.want[i]) {
					t.Errorf("line %d is %s, expected %s", i, line, test.want[i])
				}
			}
		})
	}
}

func TestReplicaThatNamesNoServersComparesNothing(t *testing.T) {
	l := &serverLists{store: nil}
	l.compare(t.Context())
	if got := l.number.Load(); got != 0 {
		t.Errorf("%d lists", got)
	}
}
