// Command service has a main of its own: it serves its own address and, beside
// that, is a replica that fires the jobs of package sales. Both start together
// and stop together, on the first SIGINT or SIGTERM. Its callers may trigger and
// pause jobs.
//
//	go run ./examples/embed/service -c examples/embed/holdfast.yaml -listen 127.0.0.1:8000
package main
