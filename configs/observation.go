package configs

// Metrics is what Prometheus may read at /metrics of the page.
type Metrics struct {
	// Names is how many jobs, and how many resources, have series of their own;
	// all others share those of "other".
	Names int `yaml:"names" min:"0" max:"10000"`
}

// Tracing says where spans of runs are sent, by OTLP over HTTP.
type Tracing struct {
	// Endpoint is the collector's URL. Without a path, /v1/traces is meant.
	Endpoint string `yaml:"endpoint"`
	// Sample is the share of runs that are traced, 0 to 1.
	Sample      float64  `yaml:"sample" min:"0" max:"1"`
	ServiceName string   `yaml:"service_name"`
	Headers     []Header `yaml:"headers"`
	// Link is where people see a trace, with {trace_id} in it; "": nowhere.
	Link string `yaml:"link"`
}

// start makes t what a tracing section starts as.
func (t *Tracing) start(*Config) { *t = Tracing{Sample: 1, ServiceName: "holdfast"} }
