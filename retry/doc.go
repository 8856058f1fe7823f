// Package retry repeats an operation by a Policy: how often, for how long, and with which
// delays.
//
// Do sleeps between tries. A caller that must not block, such as one that gives up its worker
// while it waits, counts its failures in a Series. A Series returns the next delay, or that the
// policy is exhausted. Do uses a Series, so both follow the same rules:
//
//   - A policy without any limit tries once, so that nothing is repeated for ever by mistake.
//   - The limits of a policy count from the first try. Elapsed is a limit for the beginning of a
//     try, not for its end. A delay that would end after this limit is cut short, so that the last
//     try begins at the limit.
//   - Jitter only shortens delays, so that MaxDelay holds, and the sum of the delays has a known
//     maximum.
//
// If the policy is exhausted, Do returns an *ExhaustedError with the last failure, the number of
// tries and the time since the first one.
package retry
