package jobstest

import (
	"encoding/json"
	"maps"
	"reflect"
	"testing"

	"github.com/holdfast-dev/holdfast/jobs/storage"
)

// RunAuditWriter checks the events of a store's audit log. open returns an empty store.
func RunAuditWriter(t *testing.T, open func(t *testing.T) (storage.Store, storage.AuditWriter)) {
	store, writer := open(t)
	c := newCheck(t, Fixture{Store: store})
	session := c.session("one")
	known := c.controlState(session, 0)
	by := storage.Action{Actor: "ann", Via: "page", Proof: "password", Client: "2001:db8::1",
		RequestID: "r-1", Replica: "one", Reason: "so"}
	before := c.now()
	c.must(writer.WriteAudit(c.ctx, by, storage.AuditSignIn, "page", nil))
	c.must(writer.WriteAudit(c.ctx, by, storage.AuditRefused, "job a",
		map[string]int{"left_out": 3}))
	_, err := store.Pause(c.ctx, storage.Action{Actor: "ann", Via: "go"},
		storage.Target{Kind: storage.TargetGroup, Name: "g"})
	c.must(err)
	by.Actor = "a\nb"
	if err := writer.WriteAudit(c.ctx, by, storage.AuditSignIn, "page", nil); err == nil {
		t.Error("an event of an actor with a line break: got no error")
	}
	lines := c.audit(storage.AuditFilter{OldestFirst: true})
	if len(lines) != 3 {
		t.Fatalf("got %+v, want two events and an action", lines)
	}
	signIn, refused := lines[0], lines[1]
	within(c, "at", signIn.At, before, refused.At)
	if want := (storage.Audited{ID: signIn.ID, At: signIn.At, Actor: "ann", Via: "page",
		Proof: "password", Client: "2001:db8::1", RequestID: "r-1", Replica: "one",
		Action: storage.AuditSignIn, Target: "page", Reason: "so"}); !reflect.DeepEqual(signIn,
		want) {
		t.Errorf("sign-in: got %+v, want %+v", signIn, want)
	}
	var detail map[string]int
	c.must(json.Unmarshal(refused.Detail, &detail))
	if refused.Action != storage.AuditRefused || refused.Target != "job a" ||
		!maps.Equal(detail, map[string]int{"left_out": 3}) {
		t.Errorf("refusal: got %+v with %s", refused, refused.Detail)
	}
	equal(c, "of the action sign_in",
		len(c.audit(storage.AuditFilter{Action: storage.AuditSignIn})), 1)
	if now := c.controlState(session, 0); now.Generation != known.Generation+1 {
		t.Errorf("control state: got generation %d after %d, want only the pause to raise it",
			now.Generation, known.Generation)
	}
	equal(c, "sealed", c.seal(10), 3)
	equal(c, "checked", c.verified().Checked, 3)
}
