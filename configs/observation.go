package configs

// Metrics configures /metrics of the page for Prometheus.
type Metrics struct {
	// Names is the number of jobs, and of resources, with their own series. All others share the
	// series "other".
	Names int `yaml:"names" min:"0" max:"10000"`
}

// Tracing is the OTLP endpoint for the spans of runs, over HTTP.
type Tracing struct {
	// Endpoint is the collector's URL. The default path is /v1/traces.
	Endpoint string `yaml:"endpoint"`
	// Sample is the share of runs with traces, 0 to 1.
	Sample      float64  `yaml:"sample" min:"0" max:"1"`
	ServiceName string   `yaml:"service_name"`
	Headers     []Header `yaml:"headers"`
	// Link is the URL of a trace for people, with {trace_id} in it; "": none.
	Link string `yaml:"link"`
}

// start sets the defaults of a tracing section.
func (t *Tracing) start(*Config) { *t = Tracing{Sample: 1, ServiceName: "holdfast"} }
