// Package webhook tells addresses how runs end, by what the store's outbox
// holds: at least once each, by whichever replica comes to it first.
//
// A delivery is written in the transaction that ends its run. A [Sender] is
// lent what is due, for a little longer than a try may take, and settles it
// with the outcome; what a replica that died was lent is due again when that
// time is over. So a receiver may be told twice, of the same id.
//
// Requests are signed as Standard Webhooks has it
// (https://www.standardwebhooks.com): the headers webhook-id, webhook-timestamp
// and webhook-signature, the last "v1," and the base64 of HMAC-SHA256 over
// id.timestamp.body. While a secret is replaced there are two of them, with a
// space between: one by the new secret, one by the old.
package webhook
