package app

import (
	"context"
	"fmt"
	"net/http"

	"github.com/holdfast-dev/holdfast/configs"
	"github.com/holdfast-dev/holdfast/jobs/webhook"
)

// openSender makes the sender of webhook events. Without webhooks it only deletes old deliveries,
// of webhooks that were removed from the configuration.
func (r *Replica) openSender(_ context.Context, config *configs.Config) error {
	targets, err := targetsOf(config)
	if err != nil {
		return err
	}
	options := webhook.Options{Outbox: r.store.Outbox, Cluster: r.store.ClusterID(),
		Targets: targets, Log: r.log.With().Str("replica", config.Replica.Name).Logger()}
	for _, w := range config.Webhooks {
		keys, ok := w.SigningKeys()
		if !ok { // configs.Load refuses such a secret
			return fmt.Errorf("webhook %q: a secret is too short", w.Name)
		}
		hook := webhook.Hook{Name: w.Name, URL: w.URL.Reveal(), Keys: keys, Timeout: w.Timeout,
			Retry: w.Retry, Header: http.Header{}}
		for _, h := range w.Headers {
			hook.Header.Add(h.Name, h.Value.Reveal())
		}
		options.Hooks = append(options.Hooks, hook)
	}
	r.sender = webhook.New(options)
	return nil
}
