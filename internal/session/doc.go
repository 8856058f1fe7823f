// Package session keeps a replica's session in a store open. It opens a session,
// renews it by heartbeats, and opens another one after a loss.
//
// A session is trusted for its TTL, counted from before the last confirmed
// request was sent, on this machine's monotonic clock. A slow reply therefore
// cannot extend the trust. When the TTL passes without a confirmation, the
// session's context ends, even while a heartbeat is under way. A session never
// revives.
package session
