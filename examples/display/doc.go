// Display serves lists that take long to make, from several replicas behind a
// load balancer. Whichever replica is asked first has a list computed, by a
// source that is slow; those that are asked meanwhile wait for it, and those
// that are asked later get it from memcached. It is package locking alone,
// without a scheduler.
//
//	display -listen ADDRESS -memcached ADDRESS -source URL    a replica
//	display source -listen ADDRESS -takes 3s                  a slow source to try it with
package main
