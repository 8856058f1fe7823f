// Package deploytest has the tests of the files in deploy/. They run the files with the programs
// that read them: systemd, Prometheus and nginx.
package deploytest
