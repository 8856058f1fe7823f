package admin

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/holdfast-dev/holdfast/admin/internal/cluster"
	"github.com/holdfast-dev/holdfast/admin/internal/param"
	"github.com/holdfast-dev/holdfast/admin/internal/words"
	"github.com/holdfast-dev/holdfast/jobs/storage"
)

// specView describes a job to be added, changed or removed.
type specView struct {
	Job    string
	Spec   *storage.Spec    // nil for a new job, and for a job that was not added at run time
	Active []storage.Record // its waiting and running runs, oldest first
}

// exampleJob is the initial text of the form for a new job.
const exampleJob = `name: 
schedule: "*/5 * * * *"
handler: 
tables: []
params: {}
`

// addPage adds a job at run time.
func (s jobPages) addPage(w http.ResponseWriter, r *http.Request) {
	answerAction(s.base, w, r, actionPage[specView]{
		template: "spec.html", section: "/jobs", title: "Add a job",
		fields: []string{"job", "version"},
		load: func(context.Context, cluster.Snapshot) (specView, error) {
			return specView{}, nil
		},
		form: func(f *form, _ *specView) {
			f.Button, f.Back = "Add job", "/jobs"
			f.text("job", "The job", "A job as in the configuration, in YAML or JSON.", exampleJob,
				16, true)
			if errors.Is(f.err, storage.ErrConflict) && !errors.Is(f.err, storage.ErrKeyUsed) {
				f.Advice = "Nothing was done. A job with this name was already added: choose " +
					"another name, or change that job on its own page."
			}
		},
		do: func(ctx context.Context, a storage.Action, sent url.Values) (outcome, error) {
			spec, err := s.options.Operations.PutJob(ctx, a, specText(sent), 0)
			return outcome{param.JobPath(spec.Job),
				fmt.Sprintf("%s was added. Replicas fire it within about a second.",
					words.Cut(spec.Job, 100))}, err
		},
	})
}

// changePage changes a job that was added at run time.
func (s jobPages) changePage(w http.ResponseWriter, r *http.Request) {
	name := r.PathValue("name")
	answerAction(s.base, w, r, actionPage[specView]{
		template: "spec.html", section: "/jobs", title: "Change " + words.Cut(name, 100),
		fields: []string{"job", "version"},
		load: func(ctx context.Context, _ cluster.Snapshot) (specView, error) {
			return s.reader.specView(ctx, name)
		},
		form: func(f *form, known *specView) {
			f.Button, f.Back = "Change job", param.JobPath(name)
			current, version := "", f.typed("version", "0")
			if known != nil && known.Spec != nil {
				current, version = words.Indented(known.Spec.Text), fmt.Sprint(known.Spec.Version)
				f.Outdated = f.sent != nil && f.sent.Get("version") != version
			}
			f.Moot = known != nil && known.Spec == nil
			f.text("job", "The job", "A job as in the configuration, in JSON or YAML. "+
				"Its name can't be changed.", current, 20, true)
			f.hidden("version", version)
		},
		do: func(ctx context.Context, a storage.Action, sent url.Values) (outcome, error) {
			version, err := readVersion(sent.Get("version"))
			if err != nil {
				return outcome{}, err
			}
			_, err = s.options.Operations.ChangeJob(ctx, a, name, specText(sent), version)
			return outcome{param.JobPath(name),
				fmt.Sprintf("%s was changed. Replicas fire the new version within about a second.",
					words.Cut(name, 100))}, err
		},
	})
}

// removePage removes a job that was added at run time.
func (s jobPages) removePage(w http.ResponseWriter, r *http.Request) {
	name := r.PathValue("name")
	answerAction(s.base, w, r, actionPage[specView]{
		template: "remove.html", section: "/jobs", title: "Remove " + words.Cut(name, 100),
		fields: []string{"version"},
		load: func(ctx context.Context, _ cluster.Snapshot) (specView, error) {
			return s.reader.specView(ctx, name)
		},
		form: func(f *form, known *specView) {
			f.Button, f.Bad, f.Back = "Remove job", true, param.JobPath(name)
			version := f.typed("version", "0")
			if known != nil && known.Spec != nil {
				version = fmt.Sprint(known.Spec.Version)
			}
			f.Moot = known != nil && known.Spec == nil
			f.hidden("version", version)
		},
		do: func(ctx context.Context, a storage.Action, sent url.Values) (outcome, error) {
			version, err := readVersion(sent.Get("version"))
			if err != nil {
				return outcome{}, err
			}
			return outcome{"/jobs", fmt.Sprintf("%s was removed. No replica fires it any more.",
				words.Cut(name, 100))}, s.options.Operations.RemoveJob(ctx, a, name, version)
		},
	})
}

// specText returns the submitted definition.
func specText(sent url.Values) []byte {
	return []byte(strings.ReplaceAll(sent.Get("job"), "\r\n", "\n"))
}

func readVersion(text string) (int64, error) {
	version, err := strconv.ParseInt(text, 10, 64)
	if err != nil || version < 1 {
		return 0, param.Errorf("version is %q, expected the version of the job that "+
			"the form showed", words.Cut(text, 100))
	}
	return version, nil
}

// spec returns an added job, or nil if there is none with that name.
func (r *reader) spec(ctx context.Context, name string) (*storage.Spec, error) {
	if r.ops == nil {
		return nil, nil
	}
	specs, err := r.ops.Specs(ctx)
	ofJob := func(spec storage.Spec) bool { return spec.Job == name }
	if at := slices.IndexFunc(specs, ofJob); at >= 0 {
		return &specs[at], err
	}
	return nil, err
}

func (r *reader) specView(ctx context.Context, name string) (v specView, err error) {
	v.Job = name
	if !storable(name) {
		return v, fmt.Errorf("job %q: %w", words.Cut(name, 200), storage.ErrNotFound)
	}
	if v.Spec, err = r.spec(ctx, name); err != nil {
		return v, err
	}
	if v.Spec == nil {
		_, err = r.Store.Job(ctx, name)
		if err != nil {
			err = fmt.Errorf("job %q: %w", words.Cut(name, 200), err)
		}
		return v, err
	}
	v.Active, err = r.Active(ctx, name)
	return v, err
}
