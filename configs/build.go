package configs

import (
	"errors"
	"fmt"
	"path/filepath"
	"reflect"
)

// ErrNotBegun reports a configuration that was not begun with Defaults, Load or Parse. Build cannot
// know which of its zero values are meant.
var ErrNotBegun = errors.New("not begun with configs.Defaults(), Load or Parse")

// beginning is how a Config began.
type beginning int

const (
	notBegun beginning = iota
	byDefaults
	byParse
)

// Build completes and checks a configuration that Go code made: it returns what Parse would return
// for a file with the same values and jobs. The configuration begins with [Defaults], or with what
// Load or Parse returned. In a job that Go code made, a zero value means the default. If the
// configuration began with Defaults, a zero value also means the default in an element of a list,
// such as Webhooks, and behind a pointer, such as Tracing. In all other places a zero value means
// zero. Paths of calendar files are relative to the folder of the file that Load or Parse read, or
// else to the working directory.
//
// Build returns all mistakes at once, as *Errors, without lines and columns.
func Build(config Config, opts ...Option) (*Config, error) {
	if config.begun == notBegun {
		return nil, fmt.Errorf("configuration: %w", ErrNotBegun)
	}
	o := newOptions(opts)
	var jobs []BuiltJob
	for _, j := range config.Jobs {
		jobs = append(jobs, NewBuiltJob(j))
	}
	o.built = append(jobs, o.built...)
	folder, name := config.folder, config.Replica
	if tls := config.Admin.TLS; tls != nil { // relative to the working directory by now
		var err error
		absolute := *tls
		if absolute.CertFile, err = filepath.Abs(tls.CertFile); err == nil {
			absolute.KeyFile, err = filepath.Abs(tls.KeyFile)
		}
		if err != nil {
			return nil, fmt.Errorf("configuration: %w", err)
		}
		config.Admin.TLS = &absolute
	}
	config.Jobs = nil
	e := &encoder{forParse: true, sparse: config.begun == byDefaults}
	if err := e.encodeStruct(reflect.ValueOf(config)); err != nil {
		return nil, fmt.Errorf("configuration: %w", err)
	}
	d := newDocument("configuration")
	d.built = true
	built, err := d.parseConfig(e.out.Bytes(), folder, o)
	if err != nil {
		return nil, err
	}
	if built.Replica.Name == name.Name {
		built.Replica.Drawn = name.Drawn
	}
	return built, nil
}
