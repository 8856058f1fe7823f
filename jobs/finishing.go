package jobs

import "fmt"

// MaxFinishBytes is how much text the requests of one call of Finish may have
// together: what PostgreSQL writes in a fraction of a second, and far less than
// the 1 GiB that its protocol and its values end at. One request alone has at
// most MaxSaved, MaxResult, and output, error and detail.
const MaxFinishBytes = 8 << 20

// text returns how many bytes the request has to be written.
func (r FinishRequest) text() int {
	return len(r.Detail) + len(r.Error) + len(r.Output) + len(r.Result) + len(r.Saved)
}

// weight is a request's share of MaxFinishBytes: at most MaxBatch requests make
// a batch, however small they are.
func (r FinishRequest) weight() int { return max(r.text(), MaxFinishBytes/MaxBatch) }

// CheckFinishes returns an error that wraps ErrTooLarge where the requests, or
// one of them, have more text than a store takes in one call.
func CheckFinishes(requests []FinishRequest) error {
	total := 0
	for _, r := range requests {
		switch {
		case len(r.Saved) > MaxSaved:
			return fmt.Errorf("state of run %s: %w: %d bytes of JSON, at most %d are kept", r.Run,
				ErrTooLarge, len(r.Saved), MaxSaved)
		case len(r.Result) > MaxResult:
			return fmt.Errorf("result of run %s: %w: %d bytes of JSON, at most %d are kept", r.Run,
				ErrTooLarge, len(r.Result), MaxResult)
		}
		total += r.text()
	}
	if total > MaxFinishBytes && len(requests) > 1 {
		return fmt.Errorf("%d ends: %w: %d bytes of text, at most %d in one call", len(requests),
			ErrTooLarge, total, MaxFinishBytes)
	}
	return nil
}
