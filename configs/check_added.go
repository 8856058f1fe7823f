package configs

func (c *checker) checkAddedJobs() {
	for i, name := range c.config.AddedJobs.AllowedEnv {
		at := itemPath("added_jobs.allowed_env", i)
		if v, length := parseVariable(name + "}"); c.sound(at) &&
			(v.name != name || length != len(name)+1) {
			c.fail(at, "found %s, expected the name of an environment variable", c.foundAt(at))
		}
	}
}
