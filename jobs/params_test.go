package jobs

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"
)

type sampleParams struct {
	Region string   `json:"region"`
	Limit  int      `json:"limit"`
	Window Duration `json:"window"`
	hidden int
}

func (p sampleParams) Validate() error {
	if p.Limit < 0 {
		return &ParamsError{Problems: []ParamProblem{{Key: "limit",
			Message: "expected at least 0"}}}
	}
	_ = p.hidden
	return nil
}

func TestParamsDecodeStrictlyAndReportEveryMistake(t *testing.T) {
	for raw, want := range map[string]string{
		``:     "",
		`null`: "",
		`{"region": "eu", "limit": 5, "window": "1h30m"}`: "",
		`[1]`:              "params: expected a mapping of keys to values",
		`{"Region": "eu"}`: `params: Region: unknown key "Region", expected one of region, limit, window`,
		`{"hidden": 1}`:    `params: hidden: unknown key "hidden", expected one of region, limit, window`,
		`{"limit": -1}`:    "params: limit: expected at least 0",
		`{"limit": "5", "window": 5}`: "params: limit: found a string, expected int; window: " +
			"found a number, expected jobs.Duration",
		`{"window": "soon", "regoin":1}`: `params: regoin: unknown key "regoin", expected one of region, limit, window; window: found "soon", expected a duration such as 90s or 1h30m`,
	} {
		var p sampleParams
		err := decodeSample(raw, &p)
		if got := text(err); got != want {
			t.Errorf("%s: got %q, want %q", raw, got, want)
		}
		var refused *ParamsError
		if want != "" && !errors.As(err, &refused) {
			t.Errorf("%s: %T is no *ParamsError", raw, err)
		}
	}
	var p sampleParams
	if err := decodeSample(`{"window": "90s"}`, &p); err != nil ||
		time.Duration(p.Window) != 90*time.Second {
		t.Errorf("window %v, %v", p.Window, err)
	}
}

func decodeSample(raw string, p *sampleParams) error {
	return decodeParams(json.RawMessage(raw), p, paramNames(reflect.TypeFor[sampleParams]()))
}

func text(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}

func TestRegistryRefusesInvalidHandlers(t *testing.T) {
	handler := Handle("work", func(_ context.Context, _ *Run, _ struct{}) error { return nil })
	for name, handlers := range map[string][]Registration{"twice": {handler, handler},
		"no name": {{}}, "no function": {{Name: "x"}}} {
		if _, err := NewRegistry(handlers...); err == nil {
			t.Errorf("%s: went through", name)
		}
	}
	r, err := NewRegistry(handler)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := r.Bind("wrok", nil); !errors.Is(err, ErrUnknownHandler) ||
		!strings.Contains(err.Error(), `"work"`) {
		t.Errorf("unknown handler: %v", err)
	}
}

type oneOf struct {
	File string `json:"file"`
	SQL  string `json:"sql"`
}

// UnmarshalJSON refuses both keys together.
func (p *oneOf) UnmarshalJSON(text []byte) error {
	type plain oneOf
	var found plain
	if err := json.Unmarshal(text, &found); err != nil {
		return err
	}
	if found.File != "" && found.SQL != "" {
		return errors.New("found file and sql, expected one of them")
	}
	*p = oneOf(found)
	return nil
}

// TestParamsThatAreWrongTogether checks params whose keys are right one by one.
func TestParamsThatAreWrongTogether(t *testing.T) {
	registration := Handle("one", func(context.Context, *Run, oneOf) error { return nil })
	for params, want := range map[string]string{
		`{"file":"a"}`:           "",
		`{"sql":"b"}`:            "",
		`{"file":"a","sql":"b"}`: "params: found file and sql, expected one of them",
	} {
		_, err := registration.handler.bind([]byte(params))
		if got := fmt.Sprint(err); (err == nil) != (want == "") || err != nil && got != want {
			t.Errorf("%s: got %v, want %q", params, err, want)
		}
	}
	numbers := Handle("n", func(context.Context, *Run, struct{ Limit int }) error { return nil })
	if _, err := numbers.handler.bind([]byte(`{"Limit":"x","Limit":5}`)); err == nil {
		t.Error("a repeated key of which one value is wrong is accepted")
	}
}

type limited struct{ Limit int }

func (p *limited) Validate() error {
	if p.Limit > 9 {
		return errors.New("too large")
	}
	return nil
}

// TestValidatorOfAPointer checks that params that are a pointer are validated too.
func TestValidatorOfAPointer(t *testing.T) {
	registration := Handle("p", func(context.Context, *Run, *limited) error { return nil })
	for params, want := range map[string]bool{`{"Limit":9}`: true, `{"Limit":10}`: false,
		`{}`: true, `null`: true} {
		if _, err := registration.handler.bind([]byte(params)); (err == nil) != want {
			t.Errorf("%s: got %v, want accepted: %t", params, err, want)
		}
	}
}
