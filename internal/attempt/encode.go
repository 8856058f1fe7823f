package attempt

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
)

// Limits of what a run can store, in bytes of JSON.
const (
	MaxSaved  = 1 << 20  // of the state for the job's next run
	MaxResult = 64 << 10 // of the result of the run
)

// ErrTooLarge says that a state or a result exceeds its limit. Stores also return it for a call
// with too many bytes of text in all.
var ErrTooLarge = errors.New("too large")

// EncodeSaved returns v encoded for Save and SaveInTx.
func EncodeSaved(v any) (json.RawMessage, error) {
	encoded, err := encode(v, MaxSaved)
	if err != nil {
		return nil, fmt.Errorf("state: %w", err)
	}
	return encoded, nil
}

// EncodeResult returns v encoded as the result of a run.
func EncodeResult(v any) (json.RawMessage, error) {
	encoded, err := encode(v, MaxResult)
	if err != nil {
		return nil, fmt.Errorf("result: %w", err)
	}
	return encoded, nil
}

// encode returns v as JSON that every store accepts.
func encode(v any, most int) (json.RawMessage, error) {
	encoded, err := json.Marshal(v)
	if err != nil {
		return nil, err
	}
	encoded = bytes.ToValidUTF8(encoded, []byte("\uFFFD"))
	if len(encoded) > most {
		return nil, fmt.Errorf("%w: %d bytes of JSON, limit is %d", ErrTooLarge,
			len(encoded), most)
	}
	return encoded, nil
}
