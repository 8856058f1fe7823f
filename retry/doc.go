// Package retry tries something again, by a Policy: how often, how long, and
// with which delays between.
//
// Do is for callers that can wait where they stand. Those that cannot, because
// they give up a worker while they wait, count their failures in a Series,
// which says the next delay or that the policy is exhausted; Do is built on it,
// so both follow the same rules:
//
//   - A policy without any limit tries once: nothing is tried for ever by
//     mistake.
//   - Limits count from the first try. Elapsed limits when a try may begin, not
//     when it ends; a delay that would end beyond it is cut short, so that the
//     time is used to its end and the last try begins then.
//   - Jitter only shortens delays, so that MaxDelay holds and the sum of the
//     delays is known.
//
// Who gives up says so by an *ExhaustedError, with the last failure, the number
// of tries and the time that they took.
package retry
