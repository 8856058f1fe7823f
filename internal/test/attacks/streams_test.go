package attacks

import (
	"context"
	"fmt"
	"net/http"
	"testing"
)

// TestRow15 opens more event streams with one identity than a replica allows.
func TestRow15(t *testing.T) {
	a := begin(t, 15)
	g := a.start(plan{admin: a.guarded()})
	open := func(token, from string) int {
		ctx, cancel := context.WithCancel(context.Background())
		t.Cleanup(cancel)
		r, err := http.NewRequestWithContext(ctx, http.MethodGet, g.URL+"/api/v1/events", nil)
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Authorization", "Bearer "+token)
		response, err := clientFrom(from).Do(r) // answers with headers, and stays open
		if err != nil {
			a.Errorf("stream: %v", err)
			return 0
		}
		t.Cleanup(func() { _ = response.Body.Close() })
		return response.StatusCode
	}
	taken := map[int]int{}
	const streams = 200
	for i := range streams {
		taken[open(viewerToken, fmt.Sprintf("127.0.0.%d", 20+i%20))]++
	}
	other := open(operatorToken, "127.0.0.99")
	if taken[http.StatusOK] > 32 || taken[http.StatusOK]+taken[http.StatusTooManyRequests] !=
		streams || other != http.StatusOK {
		a.Errorf("answers by status: %v, for another identity %d", taken, other)
	}
	a.report("%d event streams of one identity from 20 addresses: %d opened, %d got 429; another "+
		"identity got %d", streams, taken[http.StatusOK], taken[http.StatusTooManyRequests], other)
}
