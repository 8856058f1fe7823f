package metrics

import (
	"slices"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// Kind is the type of a metric.
type Kind string

// The kinds.
const (
	Counter   Kind = "counter"
	Gauge     Kind = "gauge"
	Histogram Kind = "histogram"
)

// Family is a metric with all its label values.
type Family struct {
	Name   string
	Kind   Kind
	Labels []string
	Help   string
}

// Unit returns the unit of the numbers.
func (f Family) Unit() string {
	switch {
	case strings.HasSuffix(f.Name, "_seconds"):
		return "seconds"
	case strings.HasSuffix(f.Name, "_info"):
		return "always 1"
	case slices.Contains([]string{"holdfast_ready", "holdfast_session", "holdfast_memcached_up",
		"holdfast_database_up", "holdfast_status", "holdfast_config_reload_success"}, f.Name):
		return "1 or 0"
	}
	return "count"
}

// How fine histograms are: classic buckets for who scrapes text, and native ones
// for who scrapes protobuf and keeps those.
const (
	nativeFactor  = 1.1 // from one bucket to the next
	nativeBuckets = 100
	nativeReset   = time.Hour
)

// The classic buckets, in seconds.
var (
	// before something happens
	waits     = []float64{0.01, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300, 900, 3600}
	works     = []float64{0.01, 0.05, 0.1, 0.5, 1, 5, 10, 30, 60, 300, 900, 1800, 3600, 14400}
	questions = []float64{0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5,
		5}
	requests = []float64{0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1,
		0.25, 0.5, 1}
)

// book registers families and remembers them.
type book struct {
	registry *prometheus.Registry
	families []Family
}

func (b *book) note(kind Kind, name, help string, labels []string) {
	b.families = append(b.families, Family{Name: name, Kind: kind, Labels: labels, Help: help})
}

func (b *book) counter(name, help string, labels ...string) *prometheus.CounterVec {
	b.note(Counter, name, help, labels)
	v := prometheus.NewCounterVec(prometheus.CounterOpts{Name: name, Help: help}, labels)
	b.registry.MustRegister(v)
	return v
}

func (b *book) gauge(name, help string, labels ...string) *prometheus.GaugeVec {
	b.note(Gauge, name, help, labels)
	v := prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: name, Help: help}, labels)
	b.registry.MustRegister(v)
	return v
}

func (b *book) histogram(buckets []float64, name, help string,
	labels ...string) *prometheus.HistogramVec {
	b.note(Histogram, name, help, labels)
	v := prometheus.NewHistogramVec(prometheus.HistogramOpts{
		Name: name, Help: help, Buckets: buckets,
		NativeHistogramBucketFactor: nativeFactor, NativeHistogramMaxBucketNumber: nativeBuckets,
		NativeHistogramMinResetDuration: nativeReset,
	}, labels)
	b.registry.MustRegister(v)
	return v
}

// state is a family whose values are read at each scrape.
type state struct {
	desc *prometheus.Desc
	kind prometheus.ValueType
}

func (b *book) state(kind Kind, name, help string, labels ...string) state {
	b.note(kind, name, help, labels)
	s := state{desc: prometheus.NewDesc(name, help, labels, nil), kind: prometheus.GaugeValue}
	if kind == Counter {
		s.kind = prometheus.CounterValue
	}
	return s
}

func (s state) of(value float64, labels ...string) prometheus.Metric {
	return prometheus.MustNewConstMetric(s.desc, s.kind, value, labels...)
}

func (s state) holds(is bool, labels ...string) prometheus.Metric {
	if is {
		return s.of(1, labels...)
	}
	return s.of(0, labels...)
}
