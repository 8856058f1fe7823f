// Display serves lists that take long to make, from several replicas behind a load balancer. The
// first replica that gets a request for a list asks a slow source to compute it. Replicas that get
// requests meanwhile wait for the list. Replicas that get requests later read it from memcached.
// The program uses package locking alone, without a scheduler.
//
//	display -listen ADDRESS -memcached ADDRESS -source URL    a replica
//	display source -listen ADDRESS -takes 3s                  a slow source to try it with
package main
