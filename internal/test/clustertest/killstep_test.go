package clustertest

import (
	"bytes"
	"encoding/binary"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
)

// killStep is a step between the gate of a firing and the removal of its last lock. One request of
// the replica to a server identifies it.
type killStep struct {
	name     string
	store    bool                               // the request is to PostgreSQL, not to memcached
	request  func(v *victim, piece []byte) bool // reports whether the piece is that request
	answered bool                               // kill at the answer, not before the request
	running  bool                               // the history then shows the run as running
	unlocked bool                               // no lock is left behind
}

var killSteps = []killStep{
	{name: "gate added", request: gateAdd, answered: true, unlocked: true},
	{name: "first lock added", request: lockAdd("_a"), answered: true},
	{name: "last lock added", request: lockAdd("_c"), answered: true},
	{name: "start not received", store: true, request: start},
	{name: "start granted, reply lost", store: true, request: start, answered: true, running: true},
	{name: "start granted, handler called", store: true, request: carries("begin"), running: true},
	{
		name: "handler in an open transaction", store: true, request: carries("begin"),
		answered: true,
		running:  true,
	},
	{name: "finish not received", store: true, request: carries("succeeded"), running: true},
	{name: "finish recorded, reply lost", store: true, request: carries("succeeded"), answered: true},
	{name: "no lock removed", request: lockRemoval("_c")},
	{name: "one lock removed", request: lockRemoval("_b")},
}

func gateAdd(v *victim, piece []byte) bool {
	line := commandLine(piece)
	return line[0] == "add" && strings.Contains(line[1], ":gate:"+v.job()+"@")
}

// scheduledTimes are those of the firings whose gates the victim has added.
type scheduledTimes struct {
	mu    sync.Mutex
	times []time.Time
}

// add reads the scheduled time in the add of a gate: its key ends with @microseconds@version.
func (s *scheduledTimes) add(piece []byte) {
	key := strings.Split(commandLine(piece)[1], "@")
	micros, err := strconv.ParseInt(key[len(key)-2], 10, 64)
	if err != nil {
		panic(err) // the names of gates have changed
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	at := time.UnixMicro(micros)
	if !slices.ContainsFunc(s.times, at.Equal) {
		s.times = append(s.times, at)
	}
}

func (s *scheduledTimes) all() []time.Time {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.times)
}

// lockAdd is the add of the lock on one of the victim's tables.
func lockAdd(table string) func(*victim, []byte) bool {
	return func(v *victim, piece []byte) bool {
		line := commandLine(piece)
		return line[0] == "add" && strings.HasSuffix(line[1], "/"+v.name+table)
	}
}

// lockRemoval is the cas that removes the lock on one of the victim's tables by an expiry in the
// past.
func lockRemoval(table string) func(*victim, []byte) bool {
	return func(v *victim, piece []byte) bool {
		line := commandLine(piece)
		return line[0] == "cas" && strings.HasSuffix(line[1], "/"+v.name+table) && line[3] == "-1"
	}
}

// commandLine returns the verb, key, flags and lifetime of a memcached command. Missing parts are
// empty.
func commandLine(piece []byte) [4]string {
	line, _, _ := bytes.Cut(piece, []byte("\r\n"))
	var words [4]string
	copy(words[:], strings.Fields(string(line)))
	return words
}

// start is the request for the claim. It contains the lock on the job itself.
func start(v *victim, piece []byte) bool {
	return bytes.Contains(piece, pgParameter("job:"+v.job()))
}

// carries matches a request to PostgreSQL that has the text as a parameter.
func carries(text string) func(*victim, []byte) bool {
	return func(_ *victim, piece []byte) bool { return bytes.Contains(piece, pgParameter(text)) }
}

// pgParameter returns a text as PostgreSQL's protocol encodes it, alone or in a list.
func pgParameter(text string) []byte {
	return append(binary.BigEndian.AppendUint32(nil, uint32(len(text))), text...)
}
