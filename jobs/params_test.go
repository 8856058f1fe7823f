package jobs

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/netip"
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
		`{"limit": "5", "window": 5}`: "params: limit: found a string, expected a whole " +
			"number; window: found a number, expected a duration such as 90s or 1h30m",
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

// TestParamsOfAWrongTypeAreDescribedWithoutGo checks the errors for values of each type.
func TestParamsOfAWrongTypeAreDescribedWithoutGo(t *testing.T) {
	type params struct {
		Command []string
		Env     map[string]string
		Rows    [][]string
		Limits  map[string]int
		Small   int8
		Size    *uint16
		Share   float32
		Dry     bool
		Name    string
		Address netip.Addr
		From    struct{ Table string }
	}
	for raw, want := range map[string]string{
		`{"Command": "echo hi"}`: "Command: found a string, expected a list of strings, such as [a, b]",
		`{"Command": [1]}`:       "Command: found a number, expected a string",
		`{"Env": ["A=b"]}`:       "Env: found a list, expected a mapping of names to strings, such as {a: b}",
		`{"Rows": {}}`:           "Rows: found a mapping, expected a list",
		`{"Limits": true}`:       "Limits: found true or false, expected a mapping",
		`{"Small": 300}`:         "Small: found the number 300, expected a whole number from -128 to 127",
		`{"Small": 1.5}`:         "Small: found the number 1.5, expected a whole number",
		`{"Size": -1}`:           "Size: found the number -1, expected a whole number from 0 to 65535",
		`{"Share": "half"}`:      "Share: found a string, expected a number",
		`{"Share": 1e60}`:        "Share: found the number 1e60, expected a number of at most 32 bits",
		`{"Dry": 1}`:             "Dry: found a number, expected true or false",
		`{"Name": []}`:           "Name: found a list, expected a string",
		`{"Address": 5}`:         "Address: found a number, expected a string",
		`{"From": "orders"}`:     "From: found a string, expected a mapping of keys to values",
	} {
		names := paramNames(reflect.TypeFor[params]())
		err := decodeParams(json.RawMessage(raw), new(params), names)
		if got := text(err); got != "params: "+want {
			t.Errorf("%s: got %q, want %q", raw, got, want)
		}
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
