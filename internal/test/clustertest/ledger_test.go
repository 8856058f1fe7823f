package clustertest

import (
	"fmt"
	"strings"
)

// audit compares the ledger with itself and with the history. It may be called while jobs run.
func (c *cluster) audit() {
	c.t.Helper()
	for _, rule := range ledgerRules {
		c.auditRule(rule)
	}
}

func (c *cluster) auditRule(rule ledgerRule) {
	c.t.Helper()
	type breach struct{ Text string }
	broken, err := ask[breach](c.ctx, c, rule.broken)
	if err != nil {
		c.t.Fatalf("%s: %v", rule.text, err)
	}
	var texts []string
	for _, b := range broken[:min(len(broken), 10)] {
		texts = append(texts, b.Text)
	}
	if len(broken) > 0 {
		c.t.Errorf("%s: broken %d times:\n%s", rule.text, len(broken), strings.Join(texts, "\n"))
	}
}

type ledgerRule struct{ text, broken string }

// ledgerRules hold at all times in every cluster. Each query returns one text for each violation of
// its rule.
var ledgerRules = []ledgerRule{
	{
		// The rows are in the order in which they were written. The rows of each token must be
		// consecutive and tokens must increase. If two runs used a table at the same time, their
		// rows would alternate. A later run has a larger token.
		"no two runs write to a table at the same time, and tokens grow", `
SELECT format('%s: %s of token %s (%s) at %s comes after %s of token %s (%s)', resource, step, token, job, at, last_step, last_token, last_job) FROM (
    SELECT *, lag(token) OVER w AS last_token, lag(step) OVER w AS last_step, lag(job) OVER w AS last_job
    FROM ledger WINDOW w AS (PARTITION BY resource ORDER BY at, id)
) l WHERE token < last_token OR token = last_token AND (last_step, step) <> ('begin', 'end')
    OR token > last_token AND step = 'end'`,
	},
	{
		"the last write of a run and its success are in one transaction", `
SELECT format('token %s of %s: in the ledger %s, in the history %s', coalesce(l.token, r.token), coalesce(l.job, r.job), l.token IS NOT NULL, r.state)
FROM (SELECT DISTINCT token, job, run FROM ledger WHERE step = 'end') l
FULL JOIN (SELECT * FROM holdfast.runs WHERE state = 'succeeded') r ON r.id = l.run AND r.token = l.token
WHERE l.token IS NULL AND EXISTS (SELECT FROM ledger k WHERE k.job = r.job) OR r.id IS NULL`,
	},
	{
		"no firing takes effect twice", `
SELECT format('%s scheduled_at %s: %s', l.job, l.scheduled_at, count(DISTINCT l.token)) FROM ledger l JOIN holdfast.runs r ON r.id = l.run
WHERE l.step = 'end' AND r.key = '' GROUP BY l.job, l.scheduled_at HAVING count(DISTINCT l.token) > 1`,
	},
	{
		"no run starts before the time for which it was triggered", `
SELECT format('run %s of %s: started at %s, triggered for %s', id, job, started_at, scheduled_at)
FROM holdfast.runs WHERE key <> '' AND started_at < scheduled_at`,
	},
	{
		"a firing has one first run, and recoveries only after lost runs", `
SELECT format('%s scheduled_at %s key %s recovery %s', r.job, r.scheduled_at, r.key, r.recovery) FROM holdfast.runs r
WHERE r.recovery > 0 AND NOT EXISTS (
    SELECT FROM holdfast.runs l WHERE (l.job, l.scheduled_at, l.key, l.recovery, l.state) = (r.job, r.scheduled_at, r.key, r.recovery - 1, 'lost'))
UNION ALL
SELECT format('%s scheduled_at %s key %s recovery %s: %s runs', job, scheduled_at, key, recovery, count(*)) FROM holdfast.runs
GROUP BY job, scheduled_at, key, recovery HAVING count(*) > 1`,
	},
	{
		"conflicting grants never exist at the same time", `
SELECT format('%s: tokens %s and %s', a.resource, a.token, b.token) FROM holdfast.grants a JOIN holdfast.grants b
ON a.resource = b.resource AND a.token < b.token WHERE a.mode = 'exclusive' OR b.mode = 'exclusive'`,
	},
	{
		"a grant has a claim, a claim a running run, and a running run a claim", `
SELECT format('grant of token %s', token) FROM holdfast.grants g WHERE NOT EXISTS (SELECT FROM holdfast.claims c WHERE c.token = g.token)
UNION ALL
SELECT format('claim %s', token) FROM holdfast.claims c
    WHERE NOT EXISTS (SELECT FROM holdfast.runs r WHERE r.id = c.run AND r.state = 'running' AND r.token = c.token)
UNION ALL
SELECT format('run %s of %s', id, job) FROM holdfast.runs r
    WHERE state = 'running' AND NOT EXISTS (SELECT FROM holdfast.claims c WHERE c.token = r.token)`,
	},
}

// ledgerJob returns the YAML of a job with the handler "ledger". Commas separate the tables. keys
// are further keys of the job, and params are further params of the handler.
func ledgerJob(name, tables, keys, params string) string {
	parts := []string{"name: " + name, "handler: ledger", "tables: [" + tables + "]"}
	if keys != "" {
		parts = append(parts, keys)
	}
	if params != "" {
		params = ", " + params
	}
	parts = append(parts, fmt.Sprintf("params: {tables: [%s]%s}", tables, params))
	return "  - {" + strings.Join(parts, ", ") + "}\n"
}
