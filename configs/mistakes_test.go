package configs

import (
	"errors"
	"fmt"
	"strings"
	"testing"
)

// job returns a file with one job and further keys.
func job(keys string) string { return "jobs:\n  - {name: a, handler: sql, " + keys + "}\n" }

func TestMistakes(t *testing.T) {
	const head = "c.yaml:"
	for _, test := range []struct{ name, text, want string }{
		// Shape and types.
		{"unknown key", "worker: 3", `1:1: worker: unknown key; did you mean "workers"?`},
		{"unknown key, nothing near", "log: {colour: red}", `1:7: log.colour: unknown key; expected one of level, format`},
		{"wrong type", "workers: [1]", `1:10: workers: found a list, expected a whole number, 1 to 10000`},
		{"number for text", job("description: 5"), `2:42: jobs[0].description: found 5, expected text; put it in quotes`},
		{"text for a mapping", "log: debug", `1:6: log: found text, expected a mapping of keys to values`},
		{"a mapping for a list", "jobs: {a: 1}", `1:7: jobs: found a mapping, expected a list`},
		{"a list for a file", "- a", `1:1: found a list, expected a mapping of keys to values`},
		{"no value", "log:\nworkers: 1", `1:1: log: found nothing, expected a mapping of keys to values; a key that is left out has its default`},
		{"fraction", "workers: 1.5", `1:10: workers: found 1.5, expected a whole number, 1 to 10000`},
		{"huge number", "workers: 99999999999999999999", `1:10: workers: found 99999999999999999999, expected a whole number, 1 to 10000`},
		{"quoted number", `workers: "3"`, `1:10: workers: found "3", expected a whole number, 1 to 10000`},
		{"duplicate key", "workers: 1\nlog: {level: info, level: warn}", `2:20: log.level: found the key a second time, expected it once; the first is in line 2`},
		{"duplicate job", "jobs:\n  - {name: a, handler: sql}\n  - {name: a, handler: sql}", `3:12: jobs[1].name: found "a" a second time, expected each job once; the first is in line 2`},
		{"unknown handler", "jobs: [{name: a, handler: comand}]", `1:27: jobs[0].handler: unknown handler "comand"; did you mean "command"?`},
		{"disabled handler", "handlers: {disabled: [http, command]}\njobs: [{name: a, handler: command}]", `2:27: jobs[0].handler: found "command", which handlers.disabled names, expected another handler`},
		{"disabled handler of another name", "handlers: {disabled: [shell]}", `1:23: handlers.disabled[0]: found "shell", expected one of sql, http, command`},
		{"no handler", "jobs: [{name: a}]", `1:8: jobs[0].handler: found nothing, expected the name of a handler`},
		{"refused params", job("params: {statemnt: SELECT 1}"), `2:38: jobs[0].params.statemnt: unknown key`},
		{"params that are no mapping", job("params: [1]"), `2:37: jobs[0].params: found a list, expected a mapping of the handler's params`},
		{"endless param", job("params: {args: [.inf]}"), `2:45: jobs[0].params.args[0]: found .inf, expected a finite number; in quotes it is text`},

		{"30 February", job(`schedule: "0 0 30 2 *"`), `2:39: jobs[0].schedule: found "0 0 30 2 *": never fires: no date matches day of month 30 in month 2, expected one that does; a job without a schedule is only triggered`},
		{"empty schedule", job(`schedule: ""`), `2:39: jobs[0].schedule: found an empty schedule, expected a cron expression; a job without the key is only triggered`},
		{"zero interval", job("schedule: {every: 0s}"), `2:47: jobs[0].schedule.every: found "0s", expected whole seconds, at least 1s`},
		{"no kind of schedule", job("schedule: {}"), `2:39: jobs[0].schedule: found none, expected one of cron, quartz, every, at, after`},
		{"two schedules", job(`schedule: {every: 9s, cron: "@daily"}`), `2:39: jobs[0].schedule: found every and cron, expected one of cron, quartz, every, at, after`},
		{"empty kind", job(`schedule: {quartz: ""}`), `2:48: jobs[0].schedule.quartz: found an empty schedule, expected an expression`},
		{"bad time", job("schedule: {at: tomorrow}"), `2:44: jobs[0].schedule.at: found "tomorrow", expected a time such as 2026-01-31T09:00:00Z`},
		{"empty dependencies", job("schedule: {after: []}"), `2:39: jobs[0].schedule: found "after:": after: found no jobs, expected at least one`},
		{"job depends on itself", job("schedule: {after: [a]}"), `2:48: jobs[0].schedule.after[0]: found the job itself, expected others`},
		{"unknown dependency", job("schedule: {after: [b]}"), `2:48: jobs[0].schedule.after[0]: unknown job "b"`},
		{"mistyped dependency", "jobs:\n  - {name: extract, handler: " +
			"sql, schedule: \"@daily\"}\n  - {name: load, handler: sql, schedule: {after: " +
			"[extrct]}}",
			`3:51: jobs[1].schedule.after[0]: unknown job "extrct"; did you mean "extract"?`},
		{"dependency without a schedule", "jobs:\n  - {name: extract, handler: " +
			"sql}\n  - {name: load, handler: sql, schedule: after:extract}",
			`3:42: jobs[1].schedule: found job "extract", which has no schedule: it is only triggered, and has no scheduled times for dependents`},
		{"dependency with a wrong schedule", "jobs:\n  - {name: extract, handler: " +
			"sql, schedule: \"@dayly\"}\n  - {name: load, handler: sql, schedule: after:extract}",
			`2:45: jobs[0].schedule: found "@dayly": unknown descriptor: expected @yearly, @annually, @monthly, @weekly, @daily, @midnight, @hourly, @every and a duration; did you mean "@daily"?`},
		{"repeated dependency", job("schedule: {after: [b, b]}"), `2:39: jobs[0].schedule: found "after:b,b": after: found "b" a second time, expected each job once`},
		{"a circle", "jobs:\n  - {name: a, handler: sql, schedule: {after: [b, d]}}\n  - {name: " +
			"b, handler: sql, schedule: {after: [c]}}\n  - {name: c, handler: sql, schedule: " +
			"'after:d,b'}\n  - {name: d, handler: sql, schedule: '@daily'}",
			`3:47: jobs[1].schedule.after: found jobs that wait for each other: b after c after b, expected no cycle`},
		{"Quartz", job(`schedule: {quartz: "0 0 25 ? * MNO"}`), `2:39: jobs[0].schedule: found "quartz:0 0 25 ? * MNO": hour: found 25, expected 0 to 23; weekday: found the name "MNO"; did you mean "mon"?`},
		{"a date that Quartz takes and never fires on", job(`schedule: {quartz: "0 0 9 30 2 ?"}`), `2:39: jobs[0].schedule: found "quartz:0 0 9 30 2 ?": never fires: no date matches day of month 30, month 2, weekday ?, year *, expected one that does; a job without a schedule is only triggered`},
		{"a unit", job("schedule: {every: 1 mont}"), `2:47: jobs[0].schedule.every: found the unit "mont"; did you mean "month"?`},
		{"a time of day without days", job("schedule: {every: 20m, at: 02:30}"), `2:56: jobs[0].schedule.at: found "02:30" with every 20m: it goes with days, weeks, months or years`},
		{"days without every", job("schedule: {on: mon}"), `2:44: jobs[0].schedule.on: found on without every, expected both, or one of cron, quartz, every, at, after`},
		{"days of cron", job(`schedule: {cron: "@daily", on: mon}`), `2:60: jobs[0].schedule.on: found on with cron, expected it with every`},
		{"weekdays of a single time", job("schedule: {at: 2026-01-31T09:00:00Z, on: mon}"), `2:70: jobs[0].schedule.on: found on with at, expected it with every`},
		{"a weekday by number", job("schedule: {every: 1 week, on: 1}"), `2:59: jobs[0].schedule.on: found "1", expected the day's name, such as mon: 1 is Monday in cron and Sunday in Quartz`},
		{"a list of days", job("schedule: {every: 1 week, on: [mon]}"), `2:59: jobs[0].schedule.on: found a list, expected text`},
		{"an unknown key of a schedule", job("schedule: {evry: 5m}"), `2:40: jobs[0].schedule.evry: unknown key; did you mean "every"?`},
		{"words", job("schedule: every 20m betwen 09:00 and 17:00"), `2:39: jobs[0].schedule: found "every 20m betwen 09:00 and 17:00": every: found "betwen" after it; did you mean "between"?`},
		{"words that go wrong later", job("schedule: every 20m between 09:00 and 25:00"), `2:39: jobs[0].schedule: found "every 20m between 09:00 and 25:00": between: found "25:00", expected a time of day such as 02:30 or 02:30:15`},
		{"words from a variable", job(`schedule: "every ${SET}"`), `2:39: jobs[0].schedule: found "every ${SET}" (its value is not shown), expected cron with 5 or 6 fields, @every 90s or @daily that fires at some time`},
		{"a part from a variable", job(`schedule: {every: 1 month, at: "${SET}"}`), `2:60: jobs[0].schedule.at: found "${SET}" (its value is not shown), expected a value that is valid with every`},
		{"Quartz from a variable", job(`schedule: {quartz: "${SET}"}`), `2:39: jobs[0].schedule: found "${SET}" (its value is not shown), expected cron with 5 or 6 fields, @every 90s or @daily that fires at some time`},
		{"a job from a variable", job(`schedule: {after: ["${SET}"]}`), `2:48: jobs[0].schedule.after[0]: unknown job "${SET}" (its value is not shown)`},
		{"clock changes", job("clock_changes: {gap: skp, overlap: twice}"),
			"2:50: jobs[0].clock_changes.gap: found \"skp\", expected one of run, skip; did you " +
				"mean \"skip\"?\n" +
				`c.yaml:2:64: jobs[0].clock_changes.overlap: found "twice", expected one of first, both`},
		{"jitter", job("jitter: 25h"), `2:37: jobs[0].jitter: found "25h", expected 0s to 24h`},

		{"an unknown calendar", "calendars: [{name: holidays, exclude: {weekdays: [sat]}}]\n" + job("calendars: [holiday]"), `3:41: jobs[0].calendars[0]: unknown calendar "holiday"; did you mean "holidays"?`},
		{"no calendars", job("calendars: [holidays]"), `2:41: jobs[0].calendars[0]: unknown calendar "holidays"`},
		{"a calendar twice", "calendars: [{name: h, exclude: {weekdays: [sat]}}]\n" + job("calendars: [h, h]"), `3:44: jobs[0].calendars[1]: found "h" a second time, expected each calendar once`},
		{"two calendars of a name", "calendars:\n  - {name: h, exclude: {weekdays: [sat]}}\n  - {name: h, exclude: {weekdays: [sun]}}", `3:12: calendars[1].name: found "h" a second time, expected each calendar once; the first is in line 2`},
		{"a calendar without a name", "calendars: [{exclude: {weekdays: [sat]}}]", `1:13: calendars[0].name: found nothing, expected the calendar's name`},
		{"an empty calendar", "calendars: [{name: h}]", `1:13: calendars[0]: found neither exclude nor only, expected one of them with dates, weekdays, windows, cron or files`},
		{"an unknown key of a calendar", "calendars: [{name: h, exclude: {days: [sat]}}]", `1:33: calendars[0].exclude.days: unknown key; expected one of dates, weekdays, windows, cron, files`},
		{"a calendar's zone", "calendars: [{name: h, timezone: Mars, exclude: {weekdays: [sat]}}]", `1:33: calendars[0].timezone: found "Mars", expected a zone by its IANA name, such as UTC or Europe/Berlin`},
		{"a calendar's items", "calendars: [{name: h, exclude: {weekdays: [satt], windows: " +
			"[9-17]}, only: {cron: ['* * * *']}}]",
			"1:44: calendars[0].exclude.weekdays[0]: found \"satt\"; did you mean \"sat\"?\n" +
				"c.yaml:1:61: calendars[0].exclude.windows[0]: found \"9\", expected a time of " +
				"day such as 02:30 or 02:30:15\n" +
				`c.yaml:1:83: calendars[0].only.cron[0]: found "* * * *": found 4 fields, expected 5 (minute, hour, day of month, month, weekday) or 6 (second first)`},
		{"a date from a variable", `calendars: [{name: h, exclude: {dates: ["${SET}"]}}]`, `1:41: calendars[0].exclude.dates[0]: found "${SET}" (its value is not shown), expected what a calendar has there`},
		{"a missing file, and all else",
			"calendars: [{name: h, exclude: {dates: [soon], files: [none.ics]}}]",
			"1:41: calendars[0].exclude.dates[0]: found \"soon\", expected a date such as " +
				"2026-12-24, one of each year such as 12-24, or a range such as " +
				"2026-12-24..2027-01-02\n" +
				`c.yaml:1:56: calendars[0].exclude.files[0]: found "none.ics": no such file or directory, expected a file of dates`},
		{"a folder for a file", "calendars: [{name: h, exclude: {files: [testdata]}}]", `1:41: calendars[0].exclude.files[0]: found "testdata": is a directory, expected a file of dates`},
		{"a malformed list", "calendars: [{name: h, exclude: {files: [testdata/wrong.txt]}}]", "testdata/wrong.txt:3:1: calendars[0].exclude.files[0]: found \"24.12.2026\", expected a date such as 2026-12-24, one of each year such as 12-24, or a range such as 2026-12-24..2027-01-02"},
		{"a malformed iCalendar", "calendars: [{name: h, exclude: {files: " +
			"[testdata/wrong.ics]}}]\n\n\n\n\nworkers: 0",
			"6:10: workers: found 0, expected a whole number, 1 to 10000\n" +
				`testdata/wrong.ics:4:1: calendars[0].exclude.files[0]: DTSTART: found "24.12.2026", expected a date such as 20261224 or a time such as 20261224T090000Z`},
		{"calendars that leave nothing", "calendars: [{name: h, exclude: {weekdays: [sat-sun]}}]\n" + job(`schedule: "0 9 * * sat", calendars: [h]`), `3:65: jobs[0].calendars: found calendars that exclude every scheduled time, expected some to be left`},

		{"unknown zone", job("timezone: Europe/Brelin"), `2:39: jobs[0].timezone: found "Europe/Brelin", expected a zone by its IANA name, such as UTC or Europe/Berlin`},
		{"this machine's zone", "timezone: Local", `1:11: timezone: found "Local", expected a zone by its IANA name, such as UTC or Europe/Berlin`},

		{"short lease", "locking: {lease: 9s}", `1:18: locking.lease: found "9s", expected 10s to 24h`},
		{"long lease", "locking: {lease: 25h}", `1:18: locking.lease: found "25h", expected 10s to 24h`},
		{"broken lease", "locking: {lease: 10500ms}", `1:18: locking.lease: found 10.5s, expected whole seconds`},
		{"no unit", "locking: {lease: 30}", `1:18: locking.lease: found 30, expected a duration such as 90s or 1h30m, 10s to 24h`},
		{"memcached with SQLite", "locking: {memcached: {servers: [\"a:1\"]}}", `1:11: locking.memcached: found memcached with a sqlite:// database, expected postgres://: replicas that share locks must share history, and a SQLite file belongs to one process`},
		{"no servers", pg + "locking: {memcached: {timeout: 1s}}", `2:22: locking.memcached.servers: found no servers, expected at least one host:port`},
		{"username without a password", pg + "locking: {memcached: {servers: [\"a:1\"], username: u}}", `2:51: locking.memcached.username: found a username without a password, expected both or neither`},
		{"password without a username", pg + "locking: {memcached: {servers: [\"a:1\"], password: hunter2}}", `2:51: locking.memcached.password: found a password without a username, expected both or neither`},
		{"username with a colon", pg + "locking: {memcached: {servers: [\"a:1\"], username: \"a:b\", password: hunter2}}", `2:51: locking.memcached.username: found "a:b", expected a name without colons, spaces and control characters`},
		{"password with a space", pg + "locking: {memcached: {servers: [\"a:1\"], username: u, password: \"hunter2 x\"}}", `2:64: locking.memcached.password: found a password with a space or a control character, expected one without`},
		{"long password", pg + "locking: {memcached: {servers: [\"a:1\"], username: u, password: " + strings.Repeat("hunter2", 40) + "}}", `2:64: locking.memcached.password: found a username and a password of 281 bytes together, expected at most 250`},
		{"watched too often", pg + "locking: {memcached: {servers: [\"a:1\"], watch_every: 50ms}}", `2:54: locking.memcached.watch_every: found "50ms", expected 100ms to 1m`},
		{"CA that is none", pg + "locking: {memcached: {servers: [\"a:1\"], tls: {ca: hunter2}}}", `2:51: locking.memcached.tls.ca: found no certificate, expected at least one in PEM`},
		{"key without a certificate", pg + "locking: {memcached: {servers: [\"a:1\"], tls: {key: hunter2}}}", `2:52: locking.memcached.tls.key: found a key without a certificate, expected both or neither`},
		{"certificate without a key", pg + "locking: {memcached: {servers: [\"a:1\"], tls: {cert: hunter2}}}", `2:53: locking.memcached.tls.cert: found a certificate without its key, expected both or neither`},
		{"certificate and key that are no pair", pg + "locking: {memcached: {servers: [\"a:1\"], tls: {cert: hunter2, key: hunter2}}}", `2:53: locking.memcached.tls.cert: found a certificate and a key that are no pair, expected both in PEM: tls: failed to find any PEM data in certificate input`},
		{"TLS with a socket", pg + "locking: {memcached: {servers: [/run/memcached.sock], tls: {}}}", `2:33: locking.memcached.servers[0]: found the path of a socket with TLS, expected tls.server_name, the name that the server proves`},
		{"TLS as a flag", pg + "locking: {memcached: {servers: [\"a:1\"], tls: true}}", `2:46: locking.memcached.tls: found true, expected a mapping of keys to values`},
		{"runs of triggers kept for too short", "history: {keep_triggered: 10m}", `1:27: history.keep_triggered: found 10m, expected 1h to 720h (history.keep), or 0s for the same time`},
		{"runs of triggers kept for longer", "history: {keep: 2h, keep_triggered: 3h}", `1:37: history.keep_triggered: found 3h, expected 1h to 2h (history.keep), or 0s for the same time`},
		{"session too short", "session: {heartbeat: 10s}", `1:22: session.heartbeat: found a session that expires after 15s with a heartbeat every 10s, expected at least 3 heartbeats: 30s or more`},
		{"endless attempts", "locking: {wait: {attempts: 0}}", `1:28: locking.wait.attempts: found 0, expected 1 or more, or a limit by elapsed`},
		{"hot loop", "locking: {wait: {delay: 0s}}", `1:25: locking.wait.delay: found 0s, expected 10ms or more`},
		{"delay above its limit", "locking: {wait: {delay: 10s}}", `1:25: locking.wait.delay: found a delay of 10s with a max_delay of 5s, expected max_delay to be as long or 0s`},
		{"a delay without attempts", job("retry: {delay: 30s}"), `2:37: jobs[0].retry.delay: found delay without attempts, expected attempts too: the default is 1, so no attempt would follow`},
		{"misspelt attempts", job("retry: {delay: 30s, attemps: 3}"), `2:49: jobs[0].retry.attemps: unknown key; did you mean "attempts"?`},
		{"a timeout in nanoseconds", job("timeout: 30ns"), `2:38: jobs[0].timeout: found "30ns", expected 0s, or 1ms or more`},
		{"unknown backoff", job("retry: {backoff: linear}"), `2:46: jobs[0].retry.backoff: found "linear", expected one of constant, exponential, reverse_exponential`},
		{"misfire", job("misfire: fire_now"), `2:38: jobs[0].misfire: found "fire_now", expected one of run_once, skip, run_all`},

		{"control character", job(`tables: ["a\u0007"]`), `2:38: jobs[0].tables[0]: found a name that cannot be locked: table name "public/a\a" has a control character at byte 8, expected table, schema.table or a path without control characters`},
		{"read and written", job("tables: [Orders], read_tables: [public.orders]"), `2:61: jobs[0].read_tables[0]: found "public.orders" here and "Orders" in tables (line 2), which is the same table public/orders; expected it in one of them: a job that writes a table may also read it`},
		{"no schema", "default_schema: ''\n" + job("tables: [t]"), `1:17: default_schema: found "", expected the name of one schema`},
		{"two schemas", "default_schema: a.b\n" + job("tables: [t]"), `1:17: default_schema: found "a.b", expected the name of one schema`},
		{"unknown placeholder", job(`tables: ["e_{acount}"], params: {statement: x}`), `2:38: jobs[0].tables[0]: unknown placeholder {acount}, expected one of the job's params: statement`},
		{"placeholder without params", job(`tables: ["e_{a}"]`), `2:38: jobs[0].tables[0]: unknown placeholder {a}, expected one of the job's params, which has none`},
		{"two segments", job(`tables: ["e_{statement}"], params: {statement: a/b}`), `2:38: jobs[0].tables[0]: found the placeholder {statement} for the param "a/b", expected one segment: not empty, without / . " or control characters, and not . or ..`},
		{"direction of text in a segment", job(`tables: ["e_{statement}"], params: {statement: "a\u2067b"}`), `2:38: jobs[0].tables[0]: found the placeholder {statement} for the param "a\u2067b", expected one segment: not empty, without / . " or control characters, and not . or ..`},
		{"placeholder for a list", job(`tables: ["e_{args}"], params: {args: [1]}`), `2:38: jobs[0].tables[0]: found the placeholder {args} for a param that is a list, expected one with text, a number or true or false`},
		{"lone brace", job(`tables: ["e_{a"]`), `2:38: jobs[0].tables[0]: found "e_{a" with a brace that has no match, expected {param}`},
		{"slots differ", "jobs:\n  - {name: a, handler: sql, resources: [{name: v, slots: 2}]}\n  - {name: b, handler: sql, resources: [{name: v}]}", `3:48: jobs[1].resources[0].name: found "v" with no slots, expected 2 slots as in line 2: all who name a resource must mean the same`},
		{"overlap of exclusive runs", job("tables: [t], overlap: allow"), `2:51: jobs[0].overlap: found allow with an exclusive lock on public/t, expected skip or queue: its runs could not overlap`},
		{"control character in a name", `jobs: [{name: "a\nb", handler: sql}]`, `1:15: jobs[0].name: found "a\nb", expected a name of 1 to 200 bytes without control characters or spaces around it, and between slashes no empty, "." or ".." part`},
		{"direction of text in a name", `jobs: [{name: "a\u202eb", handler: sql}]`, `1:15: jobs[0].name: found "a\u202eb", expected a name of 1 to 200 bytes without control characters or spaces around it, and between slashes no empty, "." or ".." part`},

		{"beyond loopback", `admin: {listen: ":8080"}`, `1:17: admin.listen: found ":8080" without admin.users, expected an address on loopback such as 127.0.0.1:8080, or users`},
		{"no port", "admin: {listen: localhost}", `1:17: admin.listen: found "localhost", expected host:port, or "" for no page`},
		{"plain password", "admin: {users: [{name: a, password_hash: hunter2}]}", `1:42: admin.users[0].password_hash: found something else, expected an argon2id hash of 7 to 256 MiB as ` + hashCommand + ` prints it, or a bcrypt hash of cost 15 at most`},
		{"no password", "admin: {users: [{name: a}]}", `1:17: admin.users[0].password_hash: found nothing, expected an argon2id hash of 7 to 256 MiB as ` + hashCommand + ` prints it, or a bcrypt hash of cost 15 at most`},

		{"huge argon2id", "admin: {users: [{name: a, password_hash: '$argon2id$v=19$m=4194304,t=1,p=1$c29tZXNhbHQ$CTFhFdXPJO1aFaMaO6Mm5c8y7cJHAph8ArZWb2GRPPc'}]}", `1:42: admin.users[0].password_hash: found something else, expected an argon2id hash of 7 to 256 MiB as ` + hashCommand + ` prints it, or a bcrypt hash of cost 15 at most`},
		{"role without permissions", "admin: {roles: [{name: a}]}", `1:17: admin.roles[0].permissions: found no permissions, expected some of view, view_output, view_params, view_metrics, trigger, pause, cancel, release, drain, edit_jobs, reload`},
		{"role twice", "admin: {roles: [{name: viewer, permissions: [view]}]}", `1:24: admin.roles[0].name: found "viewer" a second time, expected each role once; viewer, trigger, operator, metrics are predefined`},
		{"unknown permission", "admin: {roles: [{name: a, permissions: [veiw]}]}", `1:41: admin.roles[0].permissions[0]: found "veiw", expected one of view, view_output, view_params, view_metrics, trigger, pause, cancel, release, drain, edit_jobs, reload`},
		{"unknown included role", "admin: {roles: [{name: a, include: [veiwer]}]}", `1:37: admin.roles[0].include[0]: unknown role "veiwer"; did you mean "viewer"?`},
		{"role in a circle", "admin: {roles: [{name: a, include: [viewer, a]}]}", `1:27: admin.roles[0].include: found roles that include "a" again, expected no cycle`},
		{"unknown role", "admin: {users: [{name: a, role: admin, password_hash: '" + hash + "'}]}", `1:33: admin.users[0].role: unknown role "admin"; expected one of viewer, trigger, operator`},
		{"same user", "admin:\n  users:\n    - {name: a, password_hash: '" + hash + "'}\n    - {name: a, password_hash: '" + hash + "'}", `4:14: admin.users[1].name: found "a" a second time, expected each user once`},
		{"plain token", "admin: {tokens: [{name: a, token_hash: hunter2}]}", `1:40: admin.tokens[0].token_hash: found something else, expected the SHA-256 of a token: 64 hexadecimal digits, as ` + "`scheduler hash-password --token`" + ` prints them`},
		{"no token", "admin: {tokens: [{name: a}]}", `1:18: admin.tokens[0].token_hash: found nothing, expected the SHA-256 of a token: 64 hexadecimal digits, as ` + "`scheduler hash-password --token`" + ` prints them`},
		{"same token", "admin:\n  tokens:\n    - {name: a, token_hash: '" + sum + "'}\n    - {name: b, token_hash: '" + strings.ToUpper(sum) + "'}", `4:29: admin.tokens[1].token_hash: found the hash of a token above, expected each token once`},
		{"same token name", "admin:\n  tokens:\n    - {name: a, token_hash: '" + sum + "'}\n    - {name: a, token_hash: '" + sum[1:] + "0'}", `4:14: admin.tokens[1].name: found "a" a second time, expected each token once`},
		{"token with empty limits", "admin:\n  tokens:\n    - {name: a, token_hash: '" + sum + "', permissions: [], jobs: []}", `3:110: admin.tokens[0].permissions: found an empty list, which does not limit the token, expected at least one entry, or no key` + "\n" + head + `3:120: admin.tokens[0].jobs: found an empty list, which does not limit the token, expected at least one entry, or no key`},
		{"role with empty limits", "admin:\n  roles:\n    - {name: a, permissions: [view], groups: [g], jobs: [], resources: []}", `3:57: admin.roles[0].jobs: found an empty list, which does not limit the role, expected at least one entry, or no key` + "\n" + head + `3:72: admin.roles[0].resources: found an empty list, which does not limit the role, expected at least one entry, or no key`},
		{"token with a user's name", "admin:\n  users:\n    - {name: a, password_hash: '" + hash + "'}\n  tokens:\n    - {name: a, token_hash: '" + sum + "'}", `5:14: admin.tokens[0].name: found "a", which is the name of a user too, expected another name: they would be one actor in the audit log`},
		{"operator with a token's name", "admin:\n  tokens:\n    - {name: a, token_hash: '" + sum + "'}\n  trusted_proxy: {networks: [10.1.0.0/16], user_header: X-User, operators: [b, a]}", `4:80: admin.trusted_proxy.operators[1]: found "a", which is the name of a token too, expected another name: they would be one actor in the audit log`},
		{"operator twice", "admin: {trusted_proxy: {networks: [10.1.0.0/16], user_header: X-User, operators: [b, b]}}", `1:86: admin.trusted_proxy.operators[1]: found "b" a second time, expected each operator of the trusted proxy once`},
		{"token file", "admin: {tokens: [{name: a, token_hash_file: none}]}", `1:45: admin.tokens[0].token_hash_file: found "none": no such file or directory, expected a file with the value`},
		{"host with a port", "admin: {hosts: ['a.example:8080']}", `1:17: admin.hosts[0]: found "a.example:8080", expected a host's name such as scheduler.example.com, without scheme, port or *`},
		{"any host", "admin: {hosts: ['*.example']}", `1:17: admin.hosts[0]: found "*.example", expected a host's name such as scheduler.example.com, without scheme, port or *`},
		{"no networks", "admin: {trusted_proxy: {user_header: X-User}}", `1:24: admin.trusted_proxy.networks: found no networks, expected those that the proxy asks from, such as 10.1.0.0/16`},
		{"no network", "admin: {trusted_proxy: {networks: [proxy]}}", `1:36: admin.trusted_proxy.networks[0]: found "proxy", expected a network such as 10.1.0.0/16 or fd00::/8, or one address`},
		{"address within a network", "admin: {trusted_proxy: {networks: [10.1.2.3/16]}}", `1:36: admin.trusted_proxy.networks[0]: found "10.1.2.3/16", expected 10.1.0.0/16: the address of the network, not of one within it`},
		{"everybody", "admin: {trusted_proxy: {networks: ['::/0']}}", `1:36: admin.trusted_proxy.networks[0]: found "::/0", expected the proxy's own network: this one is everybody`},
		{"no header's name", "admin: {trusted_proxy: {networks: [10.1.0.0/16], user_header: 'X User'}}", `1:63: admin.trusted_proxy.user_header: found "X User", expected a header that the proxy sets and clients do not, such as X-Forwarded-User`},
		{"client's header", "admin: {trusted_proxy: {networks: [10.1.0.0/16], user_header: Cookie}}", `1:63: admin.trusted_proxy.user_header: found "Cookie", expected a header that the proxy sets and clients do not, such as X-Forwarded-User`},
		{"operators without a user header", "admin: {trusted_proxy: {networks: [10.1.0.0/16], operators: [a]}}", `1:50: admin.trusted_proxy.operators: found operators without user_header, expected the header that names them`},
		{"secret without a header", "admin: {trusted_proxy: {networks: [10.1.0.0/16], secret: " + sum + "}}", `1:50: admin.trusted_proxy.secret: found a secret without secret_header, expected the header that has it`},
		{"header without a secret", "admin: {trusted_proxy: {networks: [10.1.0.0/16], secret_header: X-S}}", `1:24: admin.trusted_proxy.secret: found 0 bytes, expected a random secret of at least 32, such as ` + "`openssl rand -base64 48`" + ` prints`},
		{"short secret", "admin: {trusted_proxy: {networks: [10.1.0.0/16], secret_header: X-S, secret: hunter2}}", `1:78: admin.trusted_proxy.secret: found 7 bytes, expected a random secret of at least 32, such as ` + "`openssl rand -base64 48`" + ` prints`},
		{"secret with a space", "admin: {trusted_proxy: {networks: [10.1.0.0/16], secret_header: X-S, secret: " + sum + " a}}", `1:78: admin.trusted_proxy.secret: found a secret with other bytes than printable ASCII without spaces, expected one that a header can have`},
		{"secret in a client's header", "admin: {trusted_proxy: {networks: [10.1.0.0/16], secret_header: Origin, secret: " + sum + "}}", `1:65: admin.trusted_proxy.secret_header: found "Origin", expected a header that the proxy sets and clients do not, such as X-Proxy-Secret`},
		{"secret as the user", "admin: {trusted_proxy: {networks: [10.1.0.0/16], user_header: X-S, secret_header: x-s, secret: " + sum + "}}", `1:83: admin.trusted_proxy.secret_header: found "x-s", which names the user, expected a header of its own`},
		{"names without an authority", "admin: {trusted_proxy: {networks: [10.1.0.0/16], client_names: [a]}}", `1:50: admin.trusted_proxy.client_names: found names without client_ca, expected the certificate of the authority that signs the proxy's certificate`},
		{"no authority", "admin: {trusted_proxy: {networks: [10.1.0.0/16], client_ca: hunter2}}", `1:61: admin.trusted_proxy.client_ca: found no certificate, expected at least one in PEM`},
		{"no authority file", "admin: {trusted_proxy: {networks: [10.1.0.0/16], client_ca_file: none}}", `1:66: admin.trusted_proxy.client_ca_file: found "none": no such file or directory, expected a file with the value`},
		{"proxy without a user header", "admin: {listen: ':80', trusted_proxy: {networks: [10.1.0.0/16]}}", `1:17: admin.listen: found ":80" without admin.users, expected an address on loopback such as 127.0.0.1:8080, or users`},
		{"a schema in capitals", "database: {url: 'postgres://h/d', schema: Jobs}", `1:43: database.schema: found "Jobs", expected lower-case letters, digits and _, at most 63, without pg_ at the beginning`},
		{"a schema of PostgreSQL", "database: {url: 'postgres://h/d', schema: pg_jobs}", `1:43: database.schema: found "pg_jobs", expected lower-case letters, digits and _, at most 63, without pg_ at the beginning`},
		{"a schema in SQLite", "database: {schema: jobs}", `1:20: database.schema: found "jobs" with a sqlite:// database, expected none: SQLite has no schemas`},
		{"a prefix without a slash", "admin: {prefix: holdfast}", `1:17: admin.prefix: found "holdfast", expected a path such as /holdfast/`},
		{"a prefix with an escape", "admin: {prefix: '/a b/'}", `1:17: admin.prefix: found "/a b/", expected a path such as /holdfast/`},
		{"a prefix above the root", "admin: {prefix: '/../a'}", `1:17: admin.prefix: found "/../a", expected a path such as /holdfast/`},
		{"provider without cookie keys", "admin: {oidc: {issuer: 'https://a.b', client_id: x, client_secret: y, redirect_url: 'https://c.d/login/oidc/callback', role: viewer, domains: [e.f]}, hosts: [c.d]}", `1:15: admin.oidc: found no admin.cookie_keys, expected a key that signs the cookies`},
		{"a redirect beside the prefix", "admin: {prefix: /ops/, cookie_keys: [{key: " + sum + "}], oidc: {issuer: 'https://a.b', client_id: x, client_secret: y, redirect_url: 'https://c.d/login/oidc/callback', role: viewer, domains: [e.f]}}", `1:188: admin.oidc.redirect_url: found "https://c.d/login/oidc/callback", expected the https URL of the page with the path /ops/login/oidc/callback`},
		{"provider that admits nobody", "admin: {cookie_keys: [{key: " + sum + "}], oidc: {issuer: 'https://a.b', client_id: x, client_secret: y, redirect_url: 'https://c.d/login/oidc/callback'}, hosts: [c.d]}", `1:103: admin.oidc: found neither groups nor a role, expected one, or nobody may sign in`},
		{"unknown roles of a provider", "admin: {roles: [{name: billing, permissions: [view]}], cookie_keys: [{key: " + sum + "}], oidc: {issuer: 'https://a.b', client_id: x, client_secret: y, redirect_url: 'https://c.d/login/oidc/callback', role: biling, groups: [{name: g, role: billing}, {name: h, role: none}], domains: ['*']}, hosts: [c.d]}", `1:261: admin.oidc.role: unknown role "biling"; did you mean "billing"?` + "\n" + head + `1:320: admin.oidc.groups[1].role: unknown role "none"; expected one of viewer, trigger, operator, billing`},
		{"provider without TLS", "admin: {cookie_keys: [{key: " + sum + "}], oidc: {issuer: 'http://a.b', client_id: x, client_secret: y, redirect_url: 'https://c.d/login', role: viewer, domains: ['@e.f']}}", `1:112: admin.oidc.issuer: found "http://a.b", expected the https URL of the provider, without user and fragment` + "\n" + head + `1:172: admin.oidc.redirect_url: found "https://c.d/login", expected the https URL of the page with the path /login/oidc/callback` + "\n" + head + `1:217: admin.oidc.domains[0]: found "@e.f", expected a domain such as example.com`},
		{"provider that admits everybody", "admin: {cookie_keys: [{key: " + sum + "}], oidc: {issuer: 'https://a.b', client_id: x, client_secret: y, redirect_url: 'https://c.d/login/oidc/callback', role: viewer}, hosts: [C.D]}", `1:103: admin.oidc: found the role viewer for everybody who has an account at the provider, expected domains, or "*" among them for all`},
		{"provider that leads to another host", "admin: {cookie_keys: [{key: " + sum + "}], oidc: {issuer: 'https://a.b', client_id: x, client_secret: y, redirect_url: 'https://c.d/login/oidc/callback', role: viewer, domains: [e.f]}, hosts: [c.e]}", `1:173: admin.oidc.redirect_url: found "https://c.d/login/oidc/callback", expected a host that admin.hosts has, because the page is shown under no other`},
		{"a redirect without a scheme beside a wrong prefix", "admin: {prefix: holdfast, cookie_keys: [{key: " + sum + "}], oidc: {issuer: 'https://a.b', client_id: x, client_secret: y, redirect_url: '127.0.0.1:8080/login/oidc/callback', role: viewer, domains: [e.f]}}", `1:17: admin.prefix: found "holdfast", expected a path such as /holdfast/`},
		{"a password in URLs of a provider", "admin: {cookie_keys: [{key: " + sum + "}], oidc: {issuer: 'https://bob:hunter2@a.b', client_id: x, client_secret: y, redirect_url: 'https://bob:hunter2@c.d/login/oidc/callback', role: viewer, domains: [e.f]}}", `1:112: admin.oidc.issuer: found a value with @, ? or # (it is not shown), expected the https URL of the provider, without user and fragment` + "\n" + head + `1:185: admin.oidc.redirect_url: found a value with @, ? or # (it is not shown), expected the https URL of the page with the path /login/oidc/callback`},
		{"a proxy's secret of one byte", "admin: {trusted_proxy: {networks: [10.1.0.0/16], secret_header: X-S, secret: h}}", `1:78: admin.trusted_proxy.secret: found 1 byte, expected a random secret of at least 32, such as ` + "`openssl rand -base64 48`" + ` prints`},
		{"short cookie key", "admin: {cookie_keys: [{key: hunter2}]}", `1:29: admin.cookie_keys[0].key: found 7 bytes, expected a random secret of at least 32, such as ` + "`openssl rand -base64 48`" + ` prints`},
		{"a cookie key of one byte", "admin: {cookie_keys: [{key: h}]}", `1:29: admin.cookie_keys[0].key: found 1 byte, expected a random secret of at least 32, such as ` + "`openssl rand -base64 48`" + ` prints`},
		{"no cookie key", "admin: {cookie_keys: [{}]}", `1:23: admin.cookie_keys[0].key: found 0 bytes, expected a random secret of at least 32, such as ` + "`openssl rand -base64 48`" + ` prints`},
		{"same cookie key", "admin: {cookie_keys: [{key: " + sum + "}, {key: " + sum + "}]}", `1:102: admin.cookie_keys[1].key: found a key a second time, expected each once`},
		{"no certificate", "admin: {tls: {key_file: none}}", `1:14: admin.tls.cert_file: found nothing, expected the name of a file in PEM`},
		{"no certificate's file", "admin: {tls: {cert_file: none, key_file: nor}}", `1:26: admin.tls.cert_file: found "none": no such file or directory, expected a file in PEM` + "\n" + head + `1:42: admin.tls.key_file: found "nor": no such file or directory, expected a file in PEM`},

		{"misfire policy", job("misfire: run_onse"), `2:38: jobs[0].misfire: found "run_onse", expected one of run_once, skip, run_all; did you mean "run_once"?`},
		{"misfire of a kind", job("misfire: 3"), `2:38: jobs[0].misfire: found 3, expected one of run_once, skip, run_all, or a mapping of causes to them`},
		{"misfire cause", job("misfire: {pause: skip, lock_held: skp}"), `2:39: jobs[0].misfire.pause: unknown key; did you mean "paused"?` + "\n" + head + `2:63: jobs[0].misfire.lock_held: found "skp", expected one of run_once, skip, run_all; did you mean "skip"?`},
		{"misfire limits", job("misfire: {limit: 1001, max_age: -1s}"), `2:46: jobs[0].misfire.limit: found 1001, expected a whole number, 1 to 1000` + "\n" + head + `2:61: jobs[0].misfire.max_age: found "-1s", expected 0s to 24000h`},
		{"priority", job("priority: 10"), `2:39: jobs[0].priority: found 10, expected a whole number, 1 to 9`},
		{"deadline", job("deadline: soon"), `2:39: jobs[0].deadline: found "soon", expected a duration such as 90s or 1h30m, 0s to 168h`},
		{"deadline within the jitter", job("deadline: 10s, jitter: 60s"), `2:39: jobs[0].deadline: found 10s with a jitter of 1m, expected more than the jitter, or 0s for no deadline`},
		{"deadline at the end of the jitter", job("jitter: 10s, deadline: 10s"), `2:52: jobs[0].deadline: found 10s with a jitter of 10s, expected more than the jitter, or 0s for no deadline`},
		{"deadline with a jitter that is no duration", job("deadline: 10s, jitter: soon"), `2:52: jobs[0].jitter: found "soon", expected a duration such as 90s or 1h30m, 0s to 24h`},
		{"overridable misspelt", job("overridable: [arg]"), `2:43: jobs[0].overridable[0]: unknown param "arg"; did you mean "args"?`},
		{"overridable twice", job("overridable: [args, args]"), `2:49: jobs[0].overridable[1]: found "args" a second time, expected each param once`},
		{"group with a slash", job("group: a/b"), `2:36: jobs[0].group: found "a/b", expected a name of 1 to 200 bytes without control characters or spaces around it, and without slashes`},
		{"misspelled group", job("group: nihgt") + "\ngroups: [{name: night}]", `2:36: jobs[0].group: found "nihgt", which is not among groups; did you mean "night"?`},
		{"group twice", "groups: [{name: night}, {name: night}]", `1:32: groups[1].name: found "night" a second time, expected each group once; the first is in line 1`},
		{"group without a name", "groups: [{per_cluster: 1001}]", `1:10: groups[0].name: found nothing, expected the group's name` + "\n" + head + `1:24: groups[0].per_cluster: found 1001, expected a whole number, 0 to 1000`},
		{"more workers than there are", "{workers: 4, catch_up: {workers: 5}}", `1:34: catch_up.workers: found 5 of 4 workers, expected 0 for a quarter of them, or 1 to 4`},
		{"more workers than the only one", "{workers: 1, catch_up: {workers: 2}}", `1:34: catch_up.workers: found 2 of 1 worker, expected 0 for a quarter of them, or 1 to 1`},

		{"empty URL", `database: {url: ""}`, `1:17: database.url: found nothing, expected sqlite://path or a postgres:// URL`},
		{"other database", "database: {url: \"mysql://a:hunter2@h/d\"}", `1:17: database.url: found something else (it is not shown), expected sqlite://path or a postgres:// URL, special characters in its password percent-encoded`},
		{"malformed URL", "database: {url: \"postgres://a:hunter2%zz@h/d\"}", `1:17: database.url: found something else (it is not shown), expected sqlite://path or a postgres:// URL, special characters in its password percent-encoded`},
		{"SQLite without a path", "database: {url: \"sqlite://\"}", `1:17: database.url: found a sqlite:// URL without a path or with options, expected sqlite:// and the path of a file`},
		{"a URL where a section belongs", "database: postgres://a:hunter2@h/d", `1:11: database: found text, expected a mapping of keys to values`},
		{"a list for a secret", "database: {url: [hunter2]}", `1:17: database.url: found a list, expected text`},

		{"unset variable", "replica: {name: \"x ${NONE} y\"}", `1:20: replica.name: environment variable NONE is not set, expected a value for it or a default: ${NONE:-default}`},
		{"unset variable in a block", "database:\n  url: |\n    $${NONE}\n    a${NONE}\n", `4:6: database.url: environment variable NONE is not set, expected a value for it or a default: ${NONE:-default}`},
		{"unclosed variable", "replica: {name: \"${NONE\"}", `1:18: replica.name: found ${ without a variable's name and }, expected ${NAME} or ${NAME:-default}; a literal ${ is written $${`},
		{"nested default", "replica: {name: \"${A:-${B}}\"}", `1:18: replica.name: found a variable within the default of ${A}, expected plain text`},
		{"variable that does not fit", "workers: ${SET}", `1:10: workers: found "${SET}" (its value is not shown), expected a whole number, 1 to 10000`},
		{"variable as a schedule", job(`schedule: "${SET}"`), `2:39: jobs[0].schedule: found "${SET}" (its value is not shown), expected cron with 5 or 6 fields, @every 90s or @daily that fires at some time`},
		{"variable as a table", job(`tables: ["${SET}\t"]`), `2:38: jobs[0].tables[0]: found a name that cannot be locked: "${SET}\t" (its value is not shown), expected table, schema.table or a path without control characters`},
		{"url and url_file", "database: {url: \"sqlite://a\", url_file: b}", `1:31: database.url_file: found both url and url_file, expected one of them`},
		{"no such file", "database: {url_file: none}", `1:22: database.url_file: found "none": no such file or directory, expected a file with the value`},

		{"unclosed bracket", "workers: [1", `1:10: not valid YAML: sequence end token ']' not found`},
		{"unquoted cron", "jobs:\n  - schedule: * * * * *", `2:23: not valid YAML: undefined alias name; a value that begins with * or @ needs quotes`},
		{"unquoted variable in brackets", "replica: {name: ${A}}", `1:18: not valid YAML: ',' or '}' must be specified; inside { } and [ ] a value with ${…} needs quotes`},
		{"tab", "log:\n\tlevel: info", `2:1: not valid YAML: found character '	' that cannot start any token; indent with spaces`},
		{"two documents", "workers: 1\n---\nworkers: 2", `3:1: found a second document, expected one a file`},
		{"tag", "workers: !!int 3", `1:10: workers: found the tag !!int, expected a value without a tag`},
		{"unknown alias", "workers: *many", `1:10: workers: found the alias *many, expected an anchor &many before it; text that begins with * needs quotes`},
		{"alias within itself", job("params: &p {a: *p}"), `2:44: jobs[0].params.a: found the alias *p within its own anchor, expected an end`},
		{"merge of no mapping", "log: {<<: [1]}", `1:12: log: found a number to merge, expected an alias of a mapping`},
		{"not UTF-8", "log: {level: \"\xff\"}", `1:15: found a byte that is not UTF-8, expected a text file in UTF-8`},
	} {
		t.Run(test.name, func(t *testing.T) {
			env := func(name string) (string, bool) { return "hunter2", name == "SET" }
			_, err := parse(test.text, WithEnv(env))
			var all *Errors
			if !errors.As(err, &all) {
				t.Fatalf("got %v, want *Errors", err)
			}
			want := strings.ReplaceAll(test.want, "\t", " ")
			if !strings.HasPrefix(want, "testdata/") {
				want = head + want
			}
			if got := err.Error(); got != want {
				t.Errorf("got\n%s\nwant\n%s", got, want)
			}
			if strings.Contains(err.Error(), "hunter2") {
				t.Error("message: got one with a secret, want it redacted")
			}
		})
	}
}

const (
	hashCommand = "`scheduler hash-password`"
	sum         = "6ff1ec2d8ff29bd9c4e9bd43f3bb7b2a46e0d1a7d6f2b9ad8c1e2f3a4b5c6d7e"
)

const pg = "database: {url: \"postgres://a@h/d\"}\n"

func TestProblemsAreSortedAndComplete(t *testing.T) {
	var text strings.Builder
	text.WriteString("jobs:\n")
	for i := range 50 {
		fmt.Fprintf(&text, "  - {name: \"j %d\", hndler: sql}\n", i)
	}
	_, err := parse(text.String())
	var all *Errors
	if !errors.As(err, &all) {
		t.Fatalf("got %v, want *Errors", err)
	}
	const each = 2 // unknown key, no handler
	if len(all.Problems) != 50*each {
		t.Errorf("got %d problems, want %d", len(all.Problems), 50*each)
	}
	for i, p := range all.Problems {
		if p.Line != 2+i/each || p.File != "c.yaml" {
			t.Errorf("problem %d: got %s", i, p)
		}
	}
}
