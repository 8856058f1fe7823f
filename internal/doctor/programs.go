package doctor

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	"github.com/holdfast-dev/holdfast/internal/app"
	"github.com/holdfast-dev/holdfast/internal/plural"
)

// examinePrograms checks that this machine has the programs and directories of command jobs. What
// it lacks is a warning, because the replicas may run on other machines or as another user.
func (e *examiner) examinePrograms() {
	const name = "programs"
	users := make(map[string][]string) // jobs by what is missing
	missing, checked := []string{}, 0  // in the order of the configuration
	for _, job := range app.Jobs(e.config) {
		var params struct {
			Command []string `json:"command"`
			Dir     string   `json:"dir"`
		}
		if job.Handler != "command" || json.Unmarshal(job.Params, &params) != nil ||
			len(params.Command) == 0 {
			continue
		}
		checked++
		if err := findProgram(params.Command[0], params.Dir); err != nil {
			text := err.Error()
			if !slices.Contains(missing, text) {
				missing = append(missing, text)
			}
			users[text] = append(users[text], job.Name)
		}
	}
	for _, text := range missing {
		e.add(name, Warning, "install it where replicas run, or correct the params of the jobs",
			"%s; used by %s", text, strings.Join(users[text], ", "))
	}
	if checked > 0 && len(missing) == 0 {
		e.ok(name, "found the programs of %s", plural.Of(checked, "command job", "command jobs"))
	}
}

// findProgram returns an error if the handler "command" could not start a program in a directory,
// "" being that of this process.
func findProgram(program, dir string) error {
	if dir != "" {
		if info, err := os.Stat(dir); err != nil {
			return err
		} else if !info.IsDir() {
			return fmt.Errorf("%s is not a directory", dir)
		}
	}
	path := program
	if filepath.Base(program) != program && !filepath.IsAbs(program) {
		path = filepath.Join(dir, program)
		if !strings.ContainsRune(path, filepath.Separator) {
			path = "." + string(filepath.Separator) + path // Join removes it, as of ./program
		}
	}
	_, err := exec.LookPath(path)
	var wrapped *exec.Error
	if errors.As(err, &wrapped) {
		return fmt.Errorf("%s: %w", program, wrapped.Err)
	}
	return err
}
