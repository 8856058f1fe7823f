// Package words puts numbers, times and the states of runs into words for the page.
package words
