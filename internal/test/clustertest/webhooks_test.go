package clustertest

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/holdfast-dev/holdfast/jobs"
	"github.com/holdfast-dev/holdfast/jobs/storage"
	"github.com/holdfast-dev/holdfast/jobs/webhook"
)

// delivery is a received request of a webhook.
type delivery struct {
	replica, id, signature, want string
	event                        webhook.Event
}

// A replica is killed during a delivery. The other replica repeats the delivery with the same id
// after the lease of the first has ended.
func TestWebhookOfAReplicaThatIsKilled(t *testing.T) {
	t.Parallel()
	const secret = "a secret of more than 24 bytes"
	requests, dead := make(chan delivery, 100), make(chan struct{})
	server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			return
		}
		h := r.Header
		got := delivery{replica: h.Get("X-Replica"), id: h.Get("Webhook-Id"),
			signature: h.Get("Webhook-Signature")}
		got.want = webhook.Sign([]byte(secret), got.id, h.Get("Webhook-Timestamp"), body)
		if err := json.Unmarshal(body, &got.event); err != nil {
			t.Error(err)
		}
		requests <- got
		<-dead
	}))
	t.Cleanup(server.Close)
	hooks := `
webhooks:
  - name: pager
    url: ` + server.URL + `/hook
    secret: ` + secret + `
    jobs: ["fail*"]
    headers: [{name: X-Replica, value: "${REPLICA}"}]`
	const failing = "  - {name: failing, handler: command, params: {command: [sh, -c, exit " +
		"3]}}\n  - {name: other, handler: command, params: {command: [sh, -c, exit 3]}}\n"
	c := newCluster(t, settings{more: hooks, jobs: failing})
	t.Cleanup(func() { // close the connections before the server waits for them
		select {
		case <-dead:
		default:
			close(dead)
		}
	})
	c.start("a", "b")
	c.trigger("other")
	c.trigger("failing")
	next := func() delivery {
		t.Helper()
		select {
		case got := <-requests:
			return got
		case <-c.ctx.Done():
			t.Fatal("requests: got none, want one")
			return delivery{}
		}
	}
	first := next()
	if err := c.replicas[first.replica].Kill(); err != nil {
		t.Fatal(err)
	}
	close(dead)
	second := next()
	if second.id != first.id || second.replica != c.other(first.replica).Name {
		t.Errorf("got the second request from %s of %s, want it from %s of %s", second.replica,
			second.id, c.other(first.replica).Name, first.id)
	}
	for _, got := range []delivery{first, second} {
		run := got.event.Data
		if got.signature != got.want || got.event.Type != "run.failed" || run.Job != "failing" ||
			run.State != jobs.Failed || string(run.Result) != `{"exit_code":3}` {
			t.Errorf("got %+v", got)
		}
	}
	c.awaitRun("job = 'other' AND state = 'failed'")
	c.await("the outbox is empty", func(ctx context.Context) (bool, error) {
		left, err := ask[struct{ N int }](ctx, c, `SELECT count(*)::int FROM holdfast.deliveries`)
		return err == nil && left[0].N == 0, err
	})
	if len(requests) > 0 {
		t.Errorf("%d requests too many", len(requests))
	}
	for name, p := range c.replicas {
		if strings.Contains(p.Log(), secret) {
			t.Errorf("the log of %s shows the secret", name)
		}
	}
	var record storage.Record
	c.commandJSON(&record, "runs", first.event.Data.ID.String())
	if record.ID != first.event.Data.ID ||
		!strings.Contains(string(record.Result), `"exit_code": 3`) {
		// indented
		t.Errorf("the run: %+v", record)
	}
	if s := c.command("runs", first.event.Data.ID.String()); s.code != 0 ||
		!strings.Contains(s.out, `{"exit_code":3}`) {
		t.Errorf("the run in words: %+v", s)
	}
	if s := c.command("webhooks"); s.code != 0 || strings.Contains(s.out, "pager") {
		t.Errorf("webhooks: %+v", s)
	}
}
