package admin

import (
	"context"
	"errors"
	"mime"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/google/uuid"

	"github.com/holdfast-dev/holdfast/admin/internal/cluster"
	"github.com/holdfast-dev/holdfast/admin/internal/pages"
	"github.com/holdfast-dev/holdfast/admin/internal/param"
	"github.com/holdfast-dev/holdfast/admin/internal/words"
	"github.com/holdfast-dev/holdfast/jobs"
	"github.com/holdfast-dev/holdfast/jobs/operations"
	"github.com/holdfast-dev/holdfast/jobs/storage"
)

// actionPage is an action with a page. A GET describes the effect of the action and shows its form.
// A POST of the form runs the action and redirects to its target.
type actionPage[T any] struct {
	template string
	section  string
	title    string   // if the store did not answer
	params   []string // of the address
	lists    []string // params that may be repeated
	fields   []string // of the form, beside the common ones
	// load queries what the action would affect.
	load func(ctx context.Context, p cluster.Snapshot) (T, error)
	// form completes the form. Known is nil if the store did not answer.
	form func(f *form, known *T)
	do   func(ctx context.Context, a storage.Action, sent url.Values) (outcome, error)
	// unbounded says that do bounds its queries itself.
	unbounded bool
}

// outcome is the redirect after an action, and the notice to show there.
type outcome struct{ location, notice string }

// form is the form of an action. Its idempotency key is drawn when the form is first shown, so the
// action runs once however often the form is sent, and through any replicas.
type form struct {
	Title     string // if the template has no better one
	Action    string // the address of the page, to which the form is sent
	Key       string
	Fields    []field
	Button    string
	Bad       bool   // the action is destructive
	Back      string // address of the link that leaves the form
	Keep      string // text of that link; "": Go back
	Moot      bool   // there is nothing to do in the current state
	Idle      bool   // the form has no button to submit it
	Outdated  bool   // the input was written for another version than the current one
	Result    string // of a failed action: whether it was done
	ErrorText string
	Advice    string
	Problems  []operations.SpecProblem
	Results   []bulkResult // of a bulk action that was not done on all items

	sent url.Values // nil for a GET
	err  error      // why the action was not done
}

// field is an input of a form.
type field struct {
	Name, Label, Hint string
	Kind              string // line, text, check or hidden
	Value             string
	Required          bool
	Most              int  // characters
	Rows              int  // of a text
	Wrong             bool // the error is about this field
}

// actionView is the page of an action.
type actionView[T any] struct {
	pages.Frame
	Form form
	Page *T // nil if nothing is known
}

// answerAction answers the GET and the POST of an action.
func answerAction[T any](s base, w http.ResponseWriter, r *http.Request, d actionPage[T]) {
	if s.options.Operations == nil {
		s.Refuse(w, r, http.StatusNotImplemented, errNoActions.Error())
		return
	}
	if err := param.OnlyWith(r, d.lists, append(slices.Clip(d.params),
		"refresh")...); err != nil {
		s.Refuse(w, r, http.StatusBadRequest, err.Error())
		return
	}
	if r.Method != http.MethodPost {
		showAction(s, w, r, d, form{Key: uuid.NewString()}, 0)
		return
	}
	sent, err := readForm(r, d.fields)
	if err != nil {
		status, refused := refusedActionOf(err)
		s.Refuse(w, r, status, refused.Error)
		return
	}
	var done outcome
	run := s.Queries.Run
	if d.unbounded {
		run = func(ctx context.Context, do func(context.Context) error) error { return do(ctx) }
	}
	err = run(r.Context(), func(ctx context.Context) (err error) {
		action := s.acting(r, "page", sent.Get("reason"))
		action.Key = sent.Get("key")
		done, err = d.do(ctx, action, sent)
		return err
	})
	if err != nil {
		f, status := s.refusedForm(r, sent, err)
		showAction(s, w, r, d, f, status)
		return
	}
	s.StoreAnswered()
	s.SetNotice(w, r, done.location, done.notice)
	http.Redirect(w, r, done.location, http.StatusSeeOther)
}

// refusedForm returns the form again, with its input and the error.
func (s base) refusedForm(r *http.Request, sent url.Values, err error) (form, int) {
	if bulk := new(bulkError); errors.As(err, &bulk) {
		return s.refusedBulk(r, sent, bulk)
	}
	s.Guard.Denied(r, err)
	status, refused := refusedActionOf(err)
	if status == 0 {
		s.StoreFailed(r.Context(), err)
		status, refused.Error = http.StatusServiceUnavailable, pages.StoreError(err)
	}
	f := form{Key: sent.Get("key"), Result: "Not done", ErrorText: refused.Error,
		Problems: refused.Problems, Advice: adviceOn(err, status), sent: sent, err: err}
	f.ErrorText = withoutConflict(f.ErrorText)
	if len(f.Problems) > 0 {
		f.ErrorText = "the input is invalid"
	}
	if status == http.StatusServiceUnavailable && !errors.Is(err, pages.ErrBusy) {
		f.Result = "Result unknown"
	}
	return f, status
}

// withoutConflict returns the text of an error without the name of its kind, which says no more to
// people than the text before it.
func withoutConflict(text string) string {
	return strings.TrimSuffix(text, ": "+storage.ErrConflict.Error())
}

// keyUsedAdvice is for a form that was sent twice, the second time with other input.
const keyUsedAdvice = "This form was submitted before with other input, and that was done. " +
	"Open the form again for another action."

// adviceOn says what to do after an error.
func adviceOn(err error, status int) string {
	switch {
	case errors.Is(err, pages.ErrBusy):
		return "Nothing was done. Submit again."
	case status == http.StatusServiceUnavailable:
		return "The database did not answer, so the result is unknown. Submit again: the action " +
			"runs at most once."
	case status == http.StatusForbidden:
		return "Nothing was done. Ask for the permission."
	case errors.Is(err, storage.ErrKeyUsed):
		return keyUsedAdvice
	case errors.Is(err, storage.ErrPaused):
		return "Nothing was done. End the pause first, or tick the box below."
	case errors.Is(err, storage.ErrInTransaction):
		return "Nothing was done. The transaction may still commit. Tick the box below to end it."
	case errors.Is(err, storage.ErrFromConfig):
		return "Nothing was done. The job comes from the configuration. Change it there and deploy."
	case status == http.StatusConflict:
		return "Nothing was done. The state has changed. Check it below before you submit again."
	case status == http.StatusNotFound:
		return "Nothing was done. The target of the action does not exist any more."
	}
	return "Nothing was done. Correct the input and submit again."
}

// showAction writes the page of an action. f is the form that was sent, or a new one.
func showAction[T any](s base, w http.ResponseWriter, r *http.Request, d actionPage[T], f form,
	status int) {
	frame, err := s.Frame(r, d.section, d.title, false)
	if err != nil {
		s.Refuse(w, r, http.StatusBadRequest, err.Error())
		return
	}
	frame.SlowedSignIns = s.SlowedSignIns(r)
	known, asked, err := pages.QueryOrCached(s.Site, r.Context(), frame.Address, &frame, d.load)
	if err != nil && f.err == nil {
		// a form that was sent is shown again in any case
		code := http.StatusNotFound
		if bad := new(param.Error); errors.As(err, &bad) {
			code = http.StatusBadRequest
		}
		s.Refuse(w, r, code, err.Error())
		return
	}
	if status == 0 {
		status = asked
	}
	f.Title, f.Action = d.title, frame.Address
	f.Idle = f.Idle || known == nil && f.err == nil
	d.form(&f, known)
	f.Idle = f.Idle || f.Moot
	f.line("reason", "Reason", "Shown in the audit log.", storage.MaxReasonBytes)
	f.mark()
	if f.ErrorText != "" {
		frame.Title = f.Result + ": " + frame.Title
	}
	s.Write(w, status, d.template, actionView[T]{frame, f, known})
}

// readForm parses a form: the key, a reason and the fields, each at most once.
func readForm(r *http.Request, fields []string) (url.Values, error) {
	if kind, _, err := mime.ParseMediaType(r.Header.Get("Content-Type")); err != nil ||
		kind != "application/x-www-form-urlencoded" {
		return nil, param.Errorf(
			"The form can't be read: expected application/x-www-form-urlencoded.")
	}
	if err := r.ParseForm(); err != nil {
		var large *http.MaxBytesError
		if errors.As(err, &large) {
			return nil, err
		}
		return nil, param.Errorf("The form can't be read: %s", words.OneLine(err.Error(), 100))
	}
	known := append([]string{"key", "reason"}, fields...)
	for name, values := range r.PostForm {
		switch {
		case !slices.Contains(known, name):
			return nil, param.Errorf("field %q is unknown, expected some of %s",
				words.Cut(name, 100), strings.Join(known, ", "))
		case len(values) > 1:
			return nil, param.Errorf("%s is given %d times, expected once", name,
				len(values))
		}
	}
	if r.PostForm.Get("key") == "" {
		return nil, param.Errorf("key is missing: reload the page of the form")
	}
	return r.PostForm, nil
}

// typed returns the submitted value, or the proposed one for a new form.
func (f *form) typed(name, proposed string) string {
	if f.sent == nil {
		return proposed
	}
	return strings.ToValidUTF8(f.sent.Get(name), "\uFFFD")
}

// line adds a field of one line.
func (f *form) line(name, label, hint string, most int) {
	f.Fields = append(f.Fields, field{Name: name, Label: label, Hint: hint, Kind: "line",
		Value: f.typed(name, ""), Most: most})
}

// text adds a field of many lines.
func (f *form) text(name, label, hint, proposed string, rows int, required bool) {
	f.Fields = append(f.Fields, field{Name: name, Label: label, Hint: hint, Kind: "text",
		Value: f.typed(name, proposed), Rows: rows, Required: required})
}

// check adds a checkbox. A required checkbox is never preset.
func (f *form) check(name, label string, required bool) {
	f.Fields = append(f.Fields, field{Name: name, Label: label, Kind: "check", Required: required})
}

// hidden adds a value that the page has shown.
func (f *form) hidden(name, value string) {
	f.Fields = append(f.Fields, field{Name: name, Kind: "hidden", Value: value})
}

// renew draws another key, so that the next submission is a new action.
func (f *form) renew() { f.Key = uuid.NewString() }

// mark marks the fields that the error is about.
func (f *form) mark() {
	var wrong []string
	var params *jobs.ParamsError
	var spec *operations.SpecError
	var bad *storage.BadInputError
	switch {
	case errors.As(f.err, &params):
		wrong = append(wrong, "params")
	case errors.As(f.err, &spec):
		wrong = append(wrong, "job")
	case errors.As(f.err, &bad):
		wrong = append(wrong, bad.Field)
	}
	for i := range f.Fields {
		f.Fields[i].Wrong = slices.Contains(wrong, f.Fields[i].Name)
	}
}
