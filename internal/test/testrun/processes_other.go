//go:build unix && !linux

package main

import "os"

// process is a process that a test left behind. On this system none is found.
type process struct{}

func bound(string) []string { return nil }

func bind([]string) error { return nil }

func adoptOrphans() error { return nil }

func reap([]int) (stop func()) { return func() {} }

func endDescendants([]int) ([]process, error) { return nil, nil }

func parentFolder() string { return os.TempDir() }
