// Package crontab reads crontabs and writes their lines as jobs.
//
// It follows crontab(5) of Vixie cron and cronie. A line that Holdfast can't run becomes a comment
// in the output and a Warning. No line is dropped silently.
package crontab
