package crontab

import (
	"fmt"
	"path"
	"regexp"
	"slices"
	"strings"
)

// maxName is the length of the longest name that is made of a command.
const maxName = 60

var (
	assignment = regexp.MustCompile(`^\w+=`)
	noName     = regexp.MustCompile(`[^a-zA-Z0-9]+`)
	separator  = regexp.MustCompile(`\s*(?:&&|\|\||;|\|)\s*`)
)

// wrapperArguments returns whether a program starts another one, and the number of its own
// arguments that are no options.
func wrapperArguments(program string) (n int, wrapper bool) {
	switch program {
	case "nice", "ionice", "nohup", "env", "sudo", "exec", "time", "chronic", "setsid":
		return 0, true
	case "timeout", "flock":
		return 1, true
	}
	return 0, false
}

// hasValue reports whether an option of a wrapper takes the next word as its value.
func hasValue(program, option string) bool {
	if program == "flock" {
		return option == "-w" || option == "-E"
	}
	return slices.Contains([]string{"-n", "-c", "-u", "-k", "-s", "-p"}, option)
}

// name returns a name for the job of a command, which no other entry has.
func (r *reader) name(command string, line int) string {
	name := strings.Trim(noName.ReplaceAllString(programOf(command), "-"), "-")
	if name == "" {
		name = fmt.Sprintf("line-%d", line)
	}
	name = strings.Trim(strings.ToLower(name[:min(len(name), maxName)]), "-")
	unique := name
	for r.names[unique] > 0 {
		r.names[name]++
		unique = fmt.Sprintf("%s-%d", name, r.names[name])
	}
	r.names[unique] = max(r.names[unique], 1)
	return unique
}

// programOf returns the base name of the program that a command is about, without its extension.
func programOf(command string) string {
	for _, part := range separator.Split(command, -1) {
		words := strings.Fields(part)
		for len(words) > 0 {
			word := strings.Trim(words[0], `"'(){}[]!`)
			program := path.Base(word)
			own, wrapper := wrapperArguments(program)
			switch {
			case words[0] == "[", words[0] == "[[":
				words = nil
			case assignment.MatchString(word), word == "", word[0] == '-':
				words = words[1:]
			case wrapper:
				words = afterOptions(program, words[1:])
				words = words[min(own, len(words)):]
			case word == "cd", word == ".", word == "test", word == "export",
				word == "umask", word == "set":
				words = nil
			default:
				return strings.TrimSuffix(program, path.Ext(program))
			}
		}
	}
	return ""
}

// afterOptions returns the words after the options of a wrapper.
func afterOptions(program string, words []string) []string {
	for len(words) > 0 && strings.HasPrefix(words[0], "-") {
		value := hasValue(program, words[0])
		words = words[1:]
		if value && len(words) > 0 {
			words = words[1:]
		}
	}
	return words
}
