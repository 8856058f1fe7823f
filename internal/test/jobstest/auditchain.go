package jobstest

import (
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/holdfast-dev/holdfast/jobs/storage"
)

// auditedActions adds n entries to the audit log.
func (c *check) auditedActions(store storage.Store, n int) {
	c.Helper()
	for range n {
		_, err := store.Pause(c.ctx, storage.Action{Actor: "ann", Via: "go", Reason: "<é>"},
			storage.Target{Kind: storage.TargetGroup, Name: uuid.NewString()})
		c.must(err)
	}
}

// seal seals all entries in batches of limit.
func (c *check) seal(limit int) (sealed int) {
	c.Helper()
	for {
		n, err := c.Store.SealAudit(c.ctx, limit)
		c.must(err)
		if sealed += n; n == 0 {
			return sealed
		}
	}
}

// verified returns the check of a chain that matches.
func (c *check) verified(known ...storage.KnownHead) storage.ChainCheck {
	c.Helper()
	v, err := storage.VerifyAudit(c.ctx, c.Store, storage.ChainRules{Known: known})
	c.must(err)
	if v.Problem != "" {
		c.Fatalf("link %d of entry %v: %s", v.Seq, v.ID, v.Problem)
	}
	return v
}

var auditChainRules = []rule{
	{"new entries wait until they are sealed, and are sealed once", func(c *check) {
		c.auditedActions(c.Store, 5)
		v := c.verified()
		equal(c, "checked before the seal", v.Checked, 0)
		equal(c, "unsealed", v.Unsealed, 5)
		if v.OldestUnsealed == nil {
			c.Error("the oldest unsealed entry has no time")
		}
		equal(c, "sealed", c.seal(2), 5)
		first := c.verified()
		equal(c, "checked", first.Checked, 5)
		equal(c, "unsealed", first.Unsealed, 0)
		equal(c, "head", first.Head.Seq, 5)
		c.auditedActions(c.Store, 1)
		equal(c, "sealed", c.seal(2), 1)
		equal(c, "checked with the former head", c.verified(first.KnownHead()).Checked, 6)
		links, err := c.Store.AuditLinks(c.ctx, 4, 10)
		c.must(err)
		equal(c, "links after the fourth", len(links), 2)
	}},
	{"replicas that seal at the same time make one chain", func(c *check) {
		const writers, each = 4, 10
		var all sync.WaitGroup
		second := c.Second()
		for i := range writers {
			store := []storage.Store{c.Store, second}[i%2]
			all.Go(func() {
				for range each {
					_, err := store.Pause(c.ctx, action,
						storage.Target{Kind: storage.TargetGroup, Name: uuid.NewString()})
					if err == nil {
						_, err = store.SealAudit(c.ctx, 3)
					}
					if err != nil {
						c.Error(err)
					}
				}
			})
		}
		all.Wait()
		c.seal(3)
		v := c.verified()
		equal(c, "checked", v.Checked, writers*each)
		equal(c, "head", int(v.Head.Seq), writers*each)
	}},
	{"pruning leaves a chain that matches", func(c *check) {
		s := c.session("one")
		c.auditedActions(c.Store, 6)
		c.seal(10)
		before := c.verified()
		equal(c, "pruned", c.prune(s, storage.PruneRequest{Keep: atOnce, Limit: 4}).Audited, 4)
		v := c.verified(before.KnownHead())
		equal(c, "anchor", v.Anchor.Seq, 4)
		equal(c, "checked", v.Checked, 2)
		equal(c, "pruned", c.prune(s, storage.PruneRequest{Keep: atOnce, Limit: 4}).Audited, 2)
		v = c.verified(before.KnownHead())
		equal(c, "anchor", v.Anchor, before.Head)
		c.auditedActions(c.Store, 2)
		equal(c, "sealed", c.seal(10), 2)
		v = c.verified(before.KnownHead())
		equal(c, "head", v.Head.Seq, 8)
		equal(c, "checked", v.Checked, 2)
	}},
	{"an anchor beyond a young link is a problem", func(c *check) {
		s := c.session("one")
		c.auditedActions(c.Store, 3)
		c.seal(10)
		before := c.verified()
		head := before.KnownHead()
		if again, err := storage.ParseKnownHead(head.String()); err != nil || head.At.IsZero() ||
			again.ChainHead != head.ChainHead || !again.At.Equal(head.At) {
			c.Errorf("parsed %s as %v, %v", head, again, err)
		}
		c.auditedActions(c.Store, 1)
		c.seal(10)
		equal(c, "pruned", c.prune(s, storage.PruneRequest{Keep: atOnce, Limit: 10}).Audited, 4)
		v, err := storage.VerifyAudit(c.ctx, c.Store,
			storage.ChainRules{Known: []storage.KnownHead{head}, Keep: time.Hour})
		c.must(err)
		equal(c, "link with a problem", v.Seq, 3)
		if v.Problem == "" {
			c.Error("got no problem of a link that was deleted within an hour")
		}
		// without a time, or after it, the head cannot be checked
		for _, rules := range []storage.ChainRules{
			{Known: []storage.KnownHead{{ChainHead: head.ChainHead}}, Keep: time.Hour},
			{Known: []storage.KnownHead{head}, Keep: time.Nanosecond},
		} {
			if v, err := storage.VerifyAudit(c.ctx, c.Store, rules); err == nil {
				c.Errorf("got %q, want an error", v.Problem)
			}
		}
	}},
	{"pruning deletes entries that were not sealed", func(c *check) {
		s := c.session("one")
		c.auditedActions(c.Store, 3)
		equal(c, "pruned", c.prune(s, storage.PruneRequest{Keep: atOnce, Limit: 10}).Audited, 3)
		equal(c, "unsealed", c.verified().Unsealed, 0)
		equal(c, "sealed", c.seal(10), 0)
	}},
}

// FindsAuditChanges checks that VerifyAudit finds each kind of change of a sealed log, at its
// entry. Prefix precedes names of tables. Exec executes a statement in the store, which has no
// entries yet.
func FindsAuditChanges(t *testing.T, store storage.Store, prefix string,
	exec func(statement string)) {
	for i := range 5 {
		if _, err := store.Pause(t.Context(),
			storage.Action{Actor: "ann", Via: "go", Reason: "so"},
			storage.Target{Kind: storage.TargetGroup, Name: strconv.Itoa(i)}); err != nil {
			t.Fatal(err)
		}
	}
	if n, err := store.SealAudit(t.Context(), 4); n != 4 || err != nil {
		t.Fatalf("sealed %d, %v", n, err)
	}
	links, err := store.AuditLinks(t.Context(), 0, 10)
	if err != nil {
		t.Fatal(err)
	}
	before, err := storage.VerifyAudit(t.Context(), store, storage.ChainRules{})
	if err != nil || before.Problem != "" || before.Checked != 4 || before.Unsealed != 1 {
		t.Fatalf("got %+v (%v), want 4 checked entries and 1 unsealed", before, err)
	}
	third := " WHERE id = '" + links[2].ID.String() + "'"
	for _, column := range []string{"actor", "via", "proof", "client", "request_id", "replica",
		"action", "target", "reason"} {
		set := "UPDATE audit SET " + column + " = "
		exec(prefixed(prefix, set+"'x' || "+column+third))
		problemAt(t, store, column, 3)
		exec(prefixed(prefix, set+"substr("+column+", 2)"+third))
	}
	for _, change := range []struct {
		name, do string
		seq      int64
		undo     string
	}{
		{"another detail", `UPDATE audit SET detail = '{"a": 1}'` + third, 3,
			"UPDATE audit SET detail = NULL" + third},
		{"another time", "CREATE TABLE was AS SELECT at FROM audit" + third + ";" +
			"UPDATE audit SET at = (SELECT min(at) FROM audit)" + third, 3,
			"UPDATE audit SET at = (SELECT at FROM was)" + third + "; DROP TABLE was"},
		{"another hash", "CREATE TABLE was AS SELECT hash FROM audit_links WHERE seq = 3;" +
			"UPDATE audit_links SET hash = (SELECT hash FROM audit_chain) WHERE seq = 3", 3,
			"UPDATE audit_links SET hash = (SELECT hash FROM was) WHERE seq = 3; DROP TABLE was"},
		{"a removed queue", "CREATE TABLE queue AS SELECT * FROM audit_unsealed;" +
			"DELETE FROM audit_unsealed", 0,
			"INSERT INTO audit_unsealed SELECT * FROM queue; DROP TABLE queue"},
		{"a removed entry that waits", "CREATE TABLE gone AS SELECT * FROM audit WHERE id IN " +
			"(SELECT entry FROM audit_unsealed);" +
			"DELETE FROM audit WHERE id IN (SELECT id FROM gone)", 5,
			"INSERT INTO audit SELECT * FROM gone; DROP TABLE gone"},
		{"a removed link", "CREATE TABLE gone AS SELECT * FROM audit_links WHERE seq = 2;" +
			"DELETE FROM audit_links WHERE seq = 2", 2,
			"INSERT INTO audit_links SELECT * FROM gone; DROP TABLE gone"},
		{"a removed last link", "CREATE TABLE gone AS SELECT * FROM audit_links WHERE seq = 4;" +
			"DELETE FROM audit_links WHERE seq = 4", 4,
			"INSERT INTO audit_links SELECT * FROM gone; DROP TABLE gone"},
		{"a former head", "UPDATE audit_chain SET seq = 3", 3, "UPDATE audit_chain SET seq = 4"},
		{"a removed entry", "DELETE FROM audit" + third, 3, ""},
	} {
		for _, statement := range strings.Split(change.do, ";") {
			exec(prefixed(prefix, statement))
		}
		problemAt(t, store, change.name, change.seq)
		for _, statement := range strings.Split(change.undo, ";") {
			if statement != "" {
				exec(prefixed(prefix, statement))
			}
		}
	}
	exec(prefixed(prefix, "UPDATE audit_chain SET seq = 2, hash = (SELECT hash FROM audit_links "+
		"WHERE seq = 2 )"))
	exec(prefixed(prefix, "DELETE FROM audit_links WHERE seq > 2"))
	exec(prefixed(prefix, "DELETE FROM audit WHERE id NOT IN ( SELECT entry FROM audit_links )"))
	exec(prefixed(prefix, "DELETE FROM audit_unsealed"))
	v, err := storage.VerifyAudit(t.Context(), store, storage.ChainRules{})
	if err != nil || v.Problem != "" || v.Checked != 2 {
		t.Errorf("a shortened chain: %+v, %v", v, err)
	}
	problemAt(t, store, "a shortened chain with its former head", 3,
		before.KnownHead())
	exec(prefixed(prefix, "DELETE FROM audit_chain"))
	problemAt(t, store, "a removed head", 0)
}

// PrunesForgedAudit checks that pruning goes on after an entry whose time is ahead of the clock and
// after a deleted entry that waits for its link, and that VerifyAudit reports both. Prefix and exec
// are those of FindsAuditChanges. At returns a time as a value of a column.
func PrunesForgedAudit(t *testing.T, store storage.Store, prefix string,
	exec func(statement string), at func(time.Time) string) {
	add := func(n int) {
		t.Helper()
		for range n {
			if _, err := store.Pause(t.Context(), storage.Action{Actor: "ann", Via: "go"},
				storage.Target{Kind: storage.TargetGroup, Name: uuid.NewString()}); err != nil {
				t.Fatal(err)
			}
		}
	}
	seal := func(want int) {
		t.Helper()
		if n, err := store.SealAudit(t.Context(), 10); n != want || err != nil {
			t.Fatalf("sealed %d (%v), want %d", n, err, want)
		}
	}
	prune := func(what string, want int) {
		t.Helper()
		p, err := store.Prune(t.Context(), uuid.UUID{1},
			storage.PruneRequest{Keep: atOnce, Limit: 10})
		if err != nil || p.Audited != want {
			t.Errorf("%s: pruned %d (%v), want %d", what, p.Audited, err, want)
		}
	}
	matches := func(what string) {
		t.Helper()
		if v, err := storage.VerifyAudit(t.Context(), store,
			storage.ChainRules{}); err != nil || v.Problem != "" {
			t.Errorf("%s: %+v, %v", what, v, err)
		}
	}
	const nobody = "'00000000-0000-0000-0000-000000000001'"
	tomorrow := at(time.Now().Add(24 * time.Hour))
	add(1)
	exec(prefixed(prefix, "UPDATE audit SET at = "+tomorrow))
	exec(prefixed(prefix, "UPDATE audit_unsealed SET at = "+tomorrow))
	seal(1)
	prune("only an entry of tomorrow", 0)
	problemAt(t, store, "an entry of tomorrow", 1)
	add(2)
	seal(2)
	prune("entries after one of tomorrow", 3)
	matches("after the prune")
	add(1)
	exec(prefixed(prefix, "DELETE FROM audit"))
	problemAt(t, store, "a deleted entry that waits", 4)
	prune("a deleted entry that waits", 0)
	matches("after its row was pruned")
	exec(prefixed(prefix, "INSERT INTO audit_unsealed (entry, at) VALUES ("+nobody+", "+tomorrow+
		")"))
	problemAt(t, store, "a row of tomorrow in the queue", 4)
	prune("a row of tomorrow in the queue", 0)
	matches("after the row of tomorrow was pruned")
}

// SealsDespiteForgedQueue checks that rows in the queue that no replica wrote do not keep later
// entries from their links: rows for entries that have a link, with their time and with another
// one, and a row for no entry. The arguments are those of PrunesForgedAudit.
func SealsDespiteForgedQueue(t *testing.T, store storage.Store, prefix string,
	exec func(statement string), at func(time.Time) string) {
	seal := func(entries, limit int) {
		t.Helper()
		for range entries {
			if _, err := store.Pause(t.Context(), storage.Action{Actor: "ann", Via: "go"},
				storage.Target{Kind: storage.TargetGroup, Name: uuid.NewString()}); err != nil {
				t.Fatal(err)
			}
		}
		sealed := 0
		for n := -1; n != 0; sealed += n {
			var err error
			if n, err = store.SealAudit(t.Context(), limit); err != nil {
				t.Fatal(err)
			}
		}
		if sealed != entries {
			t.Fatalf("sealed %d, want %d", sealed, entries)
		}
	}
	seal(4, 10)
	hourAgo := at(time.Now().Add(-time.Hour))
	exec(prefixed(prefix, "INSERT INTO audit_unsealed (entry, at) SELECT entry, CASE seq WHEN 1 "+
		"THEN "+hourAgo+" ELSE at END FROM audit_links"))
	seal(3, 1)
	exec(prefixed(prefix, "INSERT INTO audit_unsealed (entry, at) VALUES "+
		"('00000000-0000-0000-0000-000000000001', "+hourAgo+")"))
	seal(3, 2)
	problemAt(t, store, "a row for no entry", 11)
	exec(prefixed(prefix, "DELETE FROM audit_unsealed WHERE at = "+hourAgo))
	v, err := storage.VerifyAudit(t.Context(), store, storage.ChainRules{})
	if err != nil || v.Problem != "" || v.Checked != 10 || v.Unsealed != 0 {
		t.Errorf("got %+v (%v), want 10 links, no problem and an empty queue", v, err)
	}
}

// RefusesForgedTimes checks that the store refuses entries, rows of the queue and links with times
// that its readers cannot represent. Times are values of a column. Exec returns the error of a
// statement.
func RefusesForgedTimes(t *testing.T, store storage.Store, prefix string,
	exec func(statement string) error, times ...string) {
	for range 2 {
		if _, err := store.Pause(t.Context(), storage.Action{Actor: "ann", Via: "go"},
			storage.Target{Kind: storage.TargetGroup, Name: uuid.NewString()}); err != nil {
			t.Fatal(err)
		}
	}
	if n, err := store.SealAudit(t.Context(), 1); n != 1 || err != nil {
		t.Fatalf("sealed %d, %v", n, err)
	}
	for _, table := range []string{"audit", "audit_unsealed", "audit_links"} {
		for _, at := range times {
			statement := prefixed(prefix, "UPDATE "+table+" SET at = "+at)
			if err := exec(statement); err == nil {
				t.Errorf("%s: got no error", statement)
			}
		}
	}
}

// FindsUnsealedAudit checks that an entry without a link is a problem after a time. The arguments
// are those of PrunesForgedAudit.
func FindsUnsealedAudit(t *testing.T, store storage.Store, prefix string,
	exec func(statement string), at func(time.Time) string) {
	const after = time.Minute
	age := func(least, most time.Duration) {
		t.Helper()
		got, err := store.UnsealedAge(t.Context())
		if err != nil || got < least || got > most {
			t.Errorf("age %v (%v), want %v to %v", got, err, least, most)
		}
	}
	found := func(what string, want bool) {
		t.Helper()
		v, err := storage.VerifyAudit(t.Context(), store, storage.ChainRules{MaxUnsealed: after})
		if err != nil || (v.Problem != "") != want || v.Unattended != want {
			t.Errorf("%s: %+v (%v), want a problem: %v", what, v, err, want)
		}
	}
	age(0, 0)
	if _, err := store.Pause(t.Context(), storage.Action{Actor: "ann", Via: "go"},
		storage.Target{Kind: storage.TargetAll}); err != nil {
		t.Fatal(err)
	}
	age(0, after)
	found("a new entry", false)
	hourAgo := at(time.Now().Add(-time.Hour))
	exec(prefixed(prefix, "UPDATE audit SET at = "+hourAgo))
	exec(prefixed(prefix, "UPDATE audit_unsealed SET at = "+hourAgo))
	age(time.Hour-after, 2*time.Hour)
	found("an entry of an hour ago", true)
	if n, err := store.SealAudit(t.Context(), 10); n != 1 || err != nil {
		t.Fatalf("sealed %d, %v", n, err)
	}
	age(0, 0)
	found("a sealed entry", false)
}

// prefixed puts the prefix before the tables of the audit log.
func prefixed(prefix, statement string) string {
	words := strings.Fields(statement)
	for i, word := range words {
		if bare := strings.TrimRight(word, ")"); bare == "audit" ||
			strings.HasPrefix(bare, "audit_") {
			words[i] = prefix + word
		}
	}
	return strings.Join(words, " ")
}

// problemAt fails unless the first problem of the chain is at the link seq.
func problemAt(t *testing.T, store storage.Store, what string, seq int64,
	known ...storage.KnownHead) {
	t.Helper()
	v, err := storage.VerifyAudit(t.Context(), store, storage.ChainRules{Known: known})
	if err != nil || v.Problem == "" || v.Seq != seq {
		t.Errorf("%s: %+v, %v, want a problem at link %d", what, v, err, seq)
	}
}
