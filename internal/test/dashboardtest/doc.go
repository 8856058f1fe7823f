// Package dashboardtest checks that deploy/grafana/holdfast.json is a complete dashboard by the
// schema of Grafana. It is a module of its own, so that users of Holdfast do not get Grafana's
// library. Other packages test that the queries of the dashboard are right.
package dashboardtest
