package configs

import (
	"reflect"
	"strconv"
	"time"
)

// The tags min and max always parse. A missing tag means no bound.

func inDurations(value time.Duration, rules reflect.StructTag) bool {
	low, errLow := time.ParseDuration(rules.Get("min"))
	high, errHigh := time.ParseDuration(rules.Get("max"))
	return (errLow != nil || value >= low) && (errHigh != nil || value <= high)
}

func inNumbers(value float64, rules reflect.StructTag) bool {
	low, errLow := strconv.ParseFloat(rules.Get("min"), 64)
	high, errHigh := strconv.ParseFloat(rules.Get("max"), 64)
	return (errLow != nil || value >= low) && (errHigh != nil || value <= high)
}

// bounds describes the bounds of the rules min and max, or returns "".
func bounds(rules reflect.StructTag) string {
	low, high := rules.Get("min"), rules.Get("max")
	switch {
	case low != "" && high != "":
		return low + " to " + high
	case low != "":
		return low + " or more"
	case high != "":
		return "at most " + high
	}
	return ""
}

// within adds the bounds to the description of a type.
func within(words string, rules reflect.StructTag) string {
	if text := bounds(rules); text != "" {
		return words + ", " + text
	}
	return words
}
