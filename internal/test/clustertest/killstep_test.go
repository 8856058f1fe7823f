package clustertest

import (
	"bytes"
	"encoding/binary"
	"strconv"
	"strings"
	"time"
)

// killStep is a step between the gate of a firing and the removal of its locks. One request of the
// replica to a server identifies it.
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
	{name: "locks added", request: locksAdd, answered: true},
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
	{name: "locks not removed", request: locksRemoval},
	{name: "locks removed, reply lost", request: locksRemoval, answered: true, unlocked: true},
}

func gateAdd(v *victim, piece []byte) bool {
	_, found := command(piece, "add", func(line commandLine) bool {
		return strings.Contains(line[1], ":gate:"+v.job()+"@")
	})
	return found
}

// gateTime returns the scheduled time in the add of a gate: its key ends with
// @microseconds@version.
func gateTime(v *victim, piece []byte) time.Time {
	line, _ := command(piece, "add", func(line commandLine) bool {
		return strings.Contains(line[1], ":gate:"+v.job()+"@")
	})
	key := strings.Split(line[1], "@")
	micros, err := strconv.ParseInt(key[len(key)-2], 10, 64)
	if err != nil {
		panic(err) // the names of gates have changed
	}
	return time.UnixMicro(micros)
}

// locksAdd is the request that adds the locks on the victim's tables.
func locksAdd(v *victim, piece []byte) bool {
	_, found := command(piece, "add", v.isTable)
	return found
}

// locksRemoval is the request that removes the locks by an expiry in the past.
func locksRemoval(v *victim, piece []byte) bool {
	_, found := command(piece, "cas", func(line commandLine) bool {
		return v.isTable(line) && line[3] == "-1"
	})
	return found
}

// isTable reports whether a command is about a lock on one of the victim's tables.
func (v *victim) isTable(line commandLine) bool {
	return strings.Contains(line[1], "/"+v.name+"_")
}

// commandLine is the verb, key, flags and lifetime of a memcached command. Missing parts are empty.
type commandLine [4]string

// command returns the first command of a piece with the verb that matches. Values are in the piece
// too, each on a line of its own.
func command(piece []byte, verb string, matches func(commandLine) bool) (commandLine, bool) {
	for text := range bytes.SplitSeq(piece, []byte("\r\n")) {
		var line commandLine
		copy(line[:], strings.Fields(string(text)))
		if line[0] == verb && matches(line) {
			return line, true
		}
	}
	return commandLine{}, false
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
