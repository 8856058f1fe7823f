// Command embed is the command line of scheduler with two Go jobs added by
// [cli.Main]; that is all there is to it:
//
//	go run ./examples/embed run -c examples/embed/holdfast.yaml
//	go run ./examples/embed validate -c examples/embed/holdfast.yaml
//	go run ./examples/embed runs -c examples/embed/holdfast.yaml
//
// The jobs are in package sales; holdfast.yaml names their handlers in the same way as built-in
// handlers. The folder service shows the same jobs in a program that has a main of its own.
package main
