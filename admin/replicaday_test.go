package admin

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/holdfast-dev/holdfast/jobs/storage"
)

// pastSession returns a session that began and ended so long ago.
func pastSession(n int, name, version string, began, ended time.Duration,
	stopped bool) storage.ReplicaSession {
	at := ago(ended)
	return storage.ReplicaSession{Session: uuid.MustParse(fmt.Sprintf(
		"00000000-0000-4000-8000-%012d", n)), Name: name, Version: version, StartedAt: ago(began),
		ExpiresAt: at, EndedAt: &at, Stopped: stopped, Drains: storage.NewDrains(nil)}
}

// replicaDay is a cluster that was upgraded, and in which a replica was lost twice. Another one was
// drained, and is drained again.
func replicaDay() Options {
	h := &history{now: noon}
	h.replicas = []storage.ReplicaView{liveReplica(1, "sched-ams-1", time.Second, 0),
		liveReplica(2, "sched-fra-1", time.Second, 0)}
	for i := range h.replicas {
		h.replicas[i].StartedAt = ago(10 * time.Hour)
		h.replicas[i].Version = "1.4.0"
	}
	drained := pastSession(13, "sched-fra-2", "1.3.9", 26*time.Hour, 10*time.Hour, true)
	drained.Drains = storage.NewDrains([]time.Time{ago(17 * time.Hour), ago(16 * time.Hour)})
	draining := pastSession(14, "sched-fra-2", "1.4.0", 10*time.Hour-time.Minute, 0, false)
	draining.ExpiresAt, draining.EndedAt = h.now.Add(10*time.Second), nil
	draining.Drains = storage.NewDrains([]time.Time{ago(3 * time.Hour)})
	h.sessions = []storage.ReplicaSession{
		pastSession(10, "sched-ams-1", "1.3.9", 30*time.Hour, 13*time.Hour, false),
		pastSession(11, "sched-fra-1", "1.3.9", 30*time.Hour, 10*time.Hour+2*time.Minute, true),
		drained, draining,
		pastSession(15, "sched-tmp-1", "1.4.0", 3*time.Hour, 15*time.Minute, false),
	}
	return options(h)
}

// manySessions is a cluster with more replicas in a day than the page draws.
func manySessions() Options {
	h := &history{now: noon,
		replicas: []storage.ReplicaView{liveReplica(1, "web-00", time.Second, 0)}}
	for i := range 24 {
		h.sessions = append(h.sessions, pastSession(100+i, fmt.Sprintf("web-%02d", i+1), "1.4.0",
			time.Duration(24-i)*time.Hour, time.Duration(23-i)*time.Hour, true))
	}
	return options(h)
}

// TestSessionsOfADay compares the page with its JSON.
func TestSessionsOfADay(t *testing.T) {
	handler := newServer(t, replicaDay()).Handler()
	var sessions []storage.ReplicaSession
	reply := get(t, handler, "/api/v1/replicas/sessions")
	if err := json.Unmarshal(reply.Body.Bytes(), &sessions); err != nil ||
		reply.Code != http.StatusOK || len(sessions) != 7 {
		t.Fatalf("got %d with %d sessions, %v, want 7", reply.Code, len(sessions), err)
	}
	body := flat(get(t, handler, "/replicas").Body.String())
	for _, want := range []string{
		`aria-label="Replicas of the last 24 hours: 2 live, 1 draining, 1 lost"`,
		"sched-tmp-1 was lost: its session expired 2026-03-14 02:57:15", "version 1.3.9",
		`class="hold cancelled"`, `<span class="sub bad">lost, live for 2 h 45 min</span>`,
	} {
		if !strings.Contains(body, want) {
			t.Errorf("the page has no %s", want)
		}
	}
	for _, s := range sessions {
		if !strings.Contains(body, `data-key="times-`+s.Session.String()+`"`) {
			t.Errorf("the table lacks session %s of %s", s.Session, s.Name)
		}
	}
	if body := get(t, newServer(t, empty()).Handler(), "/api/v1/replicas/sessions").Body.
		String(); strings.TrimSpace(body) != "[]" {
		t.Errorf("without sessions: got %s, want an empty list", body)
	}
}
