package admin

import (
	"github.com/holdfast-dev/holdfast/admin/internal/cluster"
	"github.com/holdfast-dev/holdfast/admin/internal/locks"
)

// The types of Options and of answers of the API that are about the cluster.
type (
	// Overview is the state of the cluster at one time.
	Overview = cluster.Overview
	// Status is the status of the cluster by the rules in docs/operations.md.
	Status = cluster.Status
	// Problem is a problem of the cluster, in one or two sentences.
	Problem = cluster.Problem
	// Severity is how urgent a problem is.
	Severity = cluster.Severity
	// Rules are the limits of the status that the configuration sets.
	Rules = cluster.Rules
	// Replica is a session and its state.
	Replica = cluster.Replica
	// ScheduledFiring is the next firing of a job, by the replica's cron table.
	ScheduledFiring = cluster.ScheduledFiring
	// Memcached reports the health of the memcached servers. *memcached.Watch implements it.
	Memcached = cluster.Memcached
	// JobDatabase is a database in which jobs have their tables, as one replica sees it.
	JobDatabase = cluster.JobDatabase
	// Database is a database in which jobs have their tables, as all live replicas see it.
	Database = cluster.Database
	// DatabaseView is a Database as one replica sees it.
	DatabaseView = cluster.DatabaseView
	// MemcachedView is the memcached servers as one replica sees them.
	MemcachedView = cluster.MemcachedView
)

// The states of a replica whose session is valid, and of a replica that ended its session.
const (
	ReplicaLive    = cluster.ReplicaLive
	ReplicaStopped = cluster.ReplicaStopped
)

// The severities, from the least to the most urgent.
const (
	Neutral = cluster.Neutral
	Amber   = cluster.Amber
	Red     = cluster.Red
)

// Severities returns all severities, from the least to the most urgent.
func Severities() []Severity { return cluster.Severities() }

// The types of Options and of answers of the API that are about locks.
type (
	// Advisory reads advisory locks. *locking.Locker implements it.
	Advisory = locks.Advisory
	// AdvisoryState compares the advisory lock in memcached with a lock that the store granted.
	AdvisoryState = locks.AdvisoryState
	// Lock is a resource that a run holds.
	Lock = locks.Lock
	// Resource is a resource that a job locks while it runs.
	Resource = locks.Resource
)

// The states of an advisory lock.
const (
	AdvisoryHeld    = locks.AdvisoryHeld
	AdvisoryMissing = locks.AdvisoryMissing
	AdvisoryOther   = locks.AdvisoryOther
	AdvisoryOff     = locks.AdvisoryOff
	AdvisoryUnknown = locks.AdvisoryUnknown
)
