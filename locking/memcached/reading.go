package memcached

import (
	"context"
	"fmt"
	"io"
	"strconv"
	"time"
)

// reading is one reply of a server about itself.
type reading struct {
	pid int64
	// By the server's clock, in seconds. With pid it identifies one process of the
	// server.
	started  int64
	uptime   time.Duration
	version  string
	usage    Usage
	counters map[counter]uint64
	settings map[string]string
}

// counter is one of the server's counters since its start or reset.
type counter int

const (
	flushes     counter = iota // including refused ones
	evictions                  // items evicted before their expiry
	reassigns                  // items dropped while memory was moved between slab classes
	outOfMemory                // items refused because the server was full
	refused                    // connections refused or delayed because there were too many
)

// counted has the statistics that make up each counter. Some are absent if an option
// disables them.
var counted = map[counter][]string{
	flushes:     {"cmd_flush"},
	evictions:   {"evictions"},
	reassigns:   {"slab_reassign_evictions_nomem", "slab_reassign_busy_deletes"},
	outOfMemory: {"store_no_memory"},
	refused:     {"rejected_connections", "listen_disabled_num"},
}

// statistics and settings are the names that are read from the two replies.
var (
	statistics = names("pid", "uptime", "time", "version", "curr_connections", "curr_items",
		"bytes", "limit_maxbytes",
		"cmd_flush", "evictions", "slab_reassign_evictions_nomem", "slab_reassign_busy_deletes",
		"store_no_memory",
		"rejected_connections", "listen_disabled_num")
	settingNames = names("evictions", "flush_enabled", "slab_reassign", "cas_enabled",
		"item_size_max", "maxconns",
		"auth_enabled_ascii", "temp_lru", "temporary_ttl", "idle_timeout", "udpport", "inter",
		"domain_socket")
)

func names(list ...string) map[string]bool {
	set := make(map[string]bool, len(list))
	for _, name := range list {
		set[name] = true
	}
	return set
}

// read reads a server's statistics and settings, on its own connection, at most
// until ctx ends.
func (d *dialer) read(ctx context.Context, address server) (reading, error) {
	conn, err := d.dial(ctx, address.Network(), address.String())
	if err != nil {
		return reading{}, err
	}
	defer conn.Close() //nolint:errcheck // nothing was written that Close could lose
	release := bound(ctx, conn)
	said, err := converse(conn)
	if ended := release(); ended != nil {
		err = ended
	}
	if err != nil {
		return reading{}, fmt.Errorf("memcached %s: %w", address, err)
	}
	return said, nil
}

func converse(conn io.ReadWriter) (reading, error) {
	if _, err := io.WriteString(conn, "stats\r\nstats settings\r\n"); err != nil {
		return reading{}, broken(err)
	}
	replies := newStatReader(conn)
	stats, err := replies.read("stats", statistics)
	if err != nil {
		return reading{}, err
	}
	settings, err := replies.read("stats settings", settingNames)
	if err != nil {
		return reading{}, err
	}
	return parse(stats, settings)
}

// parse returns an error for a reply that lacks a statistic of every memcached, or
// has text in place of a number.
func parse(stats, settings map[string]string) (reading, error) {
	p := parser{stats: stats}
	uptime := p.number("uptime", true)
	r := reading{
		pid: p.number("pid", true), started: p.number("time", true) - uptime,
		uptime:  time.Duration(min(uptime, maxUptime)) * time.Second,
		version: stats["version"], settings: settings, counters: map[counter]uint64{},
		usage: Usage{
			Connections: p.number("curr_connections", false), Items: p.number("curr_items", false),
			Bytes: p.number("bytes", false), LimitBytes: p.number("limit_maxbytes", false),
		},
	}
	for c, sum := range counted {
		for _, name := range sum {
			r.counters[c] += uint64(p.number(name, false))
		}
	}
	if p.err == nil && r.version == "" {
		p.err = &ReplyError{Command: "stats", Found: "no version"}
	}
	return r, p.err
}

const maxUptime = 1 << 32 // seconds

// parser parses numbers and records the first error.
type parser struct {
	stats map[string]string
	err   error
}

// number returns a statistic, or 0 if it is absent.
func (p *parser) number(name string, needed bool) int64 {
	text, found := p.stats[name]
	if !found && !needed {
		return 0
	}
	n, err := strconv.ParseInt(text, 10, 64)
	if (err != nil || n < 0) && p.err == nil {
		p.err = &ReplyError{Command: "stats",
			Found: fmt.Sprintf("%s %q, expected a number", name, text)}
	}
	return n
}
