package app

import (
	"fmt"
	"net/http"

	"github.com/rs/zerolog"

	"github.com/holdfast-dev/holdfast/configs"
	"github.com/holdfast-dev/holdfast/jobs/webhook"
)

// newSender returns what tells the configured webhooks, or nil where there are
// none.
func newSender(config *configs.Config, store Storage, log zerolog.Logger) (*webhook.Sender, error) {
	if len(config.Webhooks) == 0 {
		return nil, nil
	}
	options := webhook.Options{Outbox: store.Outbox, Cluster: store.ClusterID(),
		Log: log.With().Str("replica", config.Replica.Name).Logger()}
	for _, w := range config.Webhooks {
		keys, ok := w.SigningKeys()
		if !ok { // a configuration that was not read from a file
			return nil, fmt.Errorf("webhook %q: a secret is too short", w.Name)
		}
		hook := webhook.Hook{Name: w.Name, URL: w.URL.Reveal(), Keys: keys, Timeout: w.Timeout,
			Retry: w.Retry, Header: http.Header{}}
		for _, h := range w.Headers {
			hook.Header.Add(h.Name, h.Value.Reveal())
		}
		options.Hooks = append(options.Hooks, hook)
	}
	return webhook.New(options), nil
}
