package postgres

import "testing"

// Two concurrent calls of Watch have locked their own rows when they delete expired rows, also the
// row of the other call. The transaction of the test takes the part of the first call.
func TestWatchDoesNotWaitForTheRowsThatItDeletes(t *testing.T) {
	t.Parallel()
	s := newHarness(t)
	session := s.session(s.a, "a")
	one := s.granted(s.a, session, request(t, "one", "orders"))
	two := s.granted(s.a, session, request(t, "two", "sales"))
	s.exec("INSERT INTO holdfast.watches SELECT unnest($1::uuid[]), clock_timestamp() - "+
		"interval '1 day'", []string{one.ID.String(), two.ID.String(), session.String()})
	s.holdRows("UPDATE holdfast.watches SET until = clock_timestamp() WHERE run = $1", one.ID)
	if err := s.a.Watch(t.Context(), two.ID); err != nil {
		t.Errorf("watch beside another call: %v", err)
	}
	if n := query[int](s, "SELECT count(*) FROM holdfast.watches WHERE run = $1", session); n != 0 {
		t.Error("an expired row that no transaction had locked was not deleted")
	}
}
