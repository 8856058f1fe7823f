package jobstest

var modelRules []rule
