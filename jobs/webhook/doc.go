// Package webhook sends events of ended runs to webhooks. Any replica can send an event. A Sender
// sends each event until the webhook confirms it, or the retry policy is exhausted. If the
// confirmation is lost, the event arrives more than once.
//
// The transaction that ends a run records its deliveries in the store. A [Sender] leases due
// deliveries for a little longer than a try may take, and settles each with the outcome. If a
// replica dies, its deliveries are due again when the lease is over. So a receiver may get an
// event twice, with the same id.
//
// Requests are signed as defined by Standard Webhooks (https://www.standardwebhooks.com): the
// headers webhook-id, webhook-timestamp and webhook-signature. The value of the last one is v1,
// then a comma, then the base64 of HMAC-SHA256 over id.timestamp.body. While a secret is replaced,
// the header has two such signatures with a space between: by the new secret, then by the old one.
package webhook
