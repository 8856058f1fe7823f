package cluster

import (
	"errors"
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/holdfast-dev/holdfast/jobs/storage"
)

// TestDatabasesOfAllReplicas checks what the status and the list of databases show of replicas that
// do not answer the request.
func TestDatabasesOfAllReplicas(t *testing.T) {
	e := healthyEvidence()
	up := storage.DatabaseState{Name: "warehouse", Since: before(time.Minute)}
	down := storage.DatabaseState{Name: "warehouse", Error: "connection refused",
		Since: before(time.Minute)}
	for i, states := range [][]storage.DatabaseState{{down}, {down, {Name: "marts"}}, {down}} {
		r := e.Replicas[0]
		r.Name, r.Session, r.Databases = fmt.Sprint("b", i), uuid.New(), states
		if i == 2 {
			r.State = ReplicaLost // its view is out of date
		}
		e.Replicas = append(e.Replicas, r)
	}
	e.Replicas[0].Databases = []storage.DatabaseState{down} // before the local check
	e.Databases = []JobDatabase{{Name: "warehouse", Since: before(time.Minute)}}
	want := []Database{{"marts", []DatabaseView{{Replica: "b1", Available: true}}},
		{"warehouse", []DatabaseView{{"a", true, "", before(time.Minute)},
			{"b0", false, "connection refused", before(time.Minute)},
			{"b1", false, "connection refused", before(time.Minute)}}}}
	if got := e.databases(); !reflect.DeepEqual(got, want) {
		t.Errorf("got %+v, want %+v", got, want)
	}
	status := NewStatus(e)
	problems := status.Of(KindDatabase)
	if len(problems) != 1 || !strings.Contains(problems[0].Text,
		"is not available to b0, b1: connection refused.") {
		t.Errorf("got the problems %+v, want one with both replicas", problems)
	}
	if part := status.Parts[len(status.Parts)-1]; part.Text !=
		"is not available to 2 of 3 replicas" || part.Severity != Amber {
		t.Errorf("got the part %+v", part)
	}
	e.Replicas[0].Databases = []storage.DatabaseState{up}
	if got := DatabasesOf(e.Replicas); len(got) != 2 || len(got[1].Replicas) != 3 ||
		!got[1].Replicas[0].Available {
		t.Errorf("got %+v from the store", got)
	}
}

// TestDatabasesInStatus checks the part of each database of jobs, and the problem of one that is
// down. It is shown also while the store does not answer.
func TestDatabasesInStatus(t *testing.T) {
	e := healthyEvidence()
	e.Databases = []JobDatabase{{Name: "marts"},
		{Name: "warehouse", Err: errors.New("connection refused"), Since: before(time.Minute)}}
	for _, failure := range []string{"", "no answer"} {
		e.StoreError = failure
		status := NewStatus(e)
		parts := status.Parts[len(status.Parts)-2:]
		if (parts[0] != StatusPart{"Database marts", Neutral, "answers", databasesPath}) ||
			(parts[1] != StatusPart{"Database warehouse", Amber, "is not available",
				databasesPath}) {
			t.Errorf("got the parts %+v", parts)
		}
		problems := status.Of(KindDatabase)
		if len(problems) != 1 || problems[0].Subject != "warehouse" ||
			!problems[0].Since.Equal(before(time.Minute)) ||
			!strings.Contains(problems[0].Text, "to a: connection refused. Its jobs wait") {
			t.Errorf("got the problems %+v, want one of the database that is down", problems)
		}
		if failure == "" && (status.Severity != Amber ||
			status.Headline != "1 database of jobs is not available") {
			t.Errorf("got %s, %s", status.Severity, status.Headline)
		}
	}
}
