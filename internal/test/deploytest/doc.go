// Package deploytest has the tests of the files in deploy/. They run the files with the programs
// that read them: systemd, Prometheus and nginx. The files of the image and of a release are only
// compared with the files that they name.
package deploytest
