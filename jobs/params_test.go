package jobs

import (
	"context"
	"encoding/json"
	"errors"
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
