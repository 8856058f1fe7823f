package dashboardtest

import (
	"os"
	"testing"

	"github.com/grafana/grafana-foundation-sdk/go/cog"
	"github.com/grafana/grafana-foundation-sdk/go/dashboard"
	"github.com/grafana/grafana-foundation-sdk/go/prometheus"
	"github.com/grafana/grafana-foundation-sdk/go/stat"
	"github.com/grafana/grafana-foundation-sdk/go/timeseries"
)

// TestDashboardHasGrafanasSchema reads the dashboard strictly: a field that is missing, is unknown
// or has another type is a mistake, also in the options of panels and in queries. The library does
// not check which of the allowed values a text has.
func TestDashboardHasGrafanasSchema(t *testing.T) {
	runtime := cog.NewRuntime()
	runtime.RegisterPanelcfgVariant(stat.VariantConfig())
	runtime.RegisterPanelcfgVariant(timeseries.VariantConfig())
	runtime.RegisterDataqueryVariant(prometheus.VariantConfig())
	text, err := os.ReadFile("../../../deploy/grafana/holdfast.json")
	if err != nil {
		t.Fatal(err)
	}
	var d dashboard.Dashboard
	// For a dashboard without mistakes, the library returns an error without text.
	if err := d.UnmarshalJSONStrict(text); err != nil && err.Error() != "" {
		t.Error(err)
	}
	if err := d.Validate(); err != nil {
		t.Error(err)
	}
	if len(d.Panels) == 0 {
		t.Error("got a dashboard without panels")
	}
}
