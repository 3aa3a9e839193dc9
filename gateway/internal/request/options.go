package request

import (
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/internalversion"
	"k8s.io/apimachinery/pkg/apis/meta/internalversion/validation"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// kind is how an option's text is read.
type kind int

const (
	text   kind = iota // the first value, verbatim
	number             // an integer
	unused             // an integer that has no effect, and still has to be one
	truth              // a boolean field
	maybe              // a boolean in a string field, where unset differs from false
	many               // every value
)

// options are the query options of each verb, by their name in the query,
// which is also the JSON name of the request message's field.
var options = map[string]map[string]kind{
	Get:              {"resourceVersion": text, "pretty": text, "includeObject": text},
	List:             merge(selection, paging, uninitialized, map[string]kind{"timeoutSeconds": number, "pretty": text, "includeObject": text}),
	Watch:            merge(selection, uninitialized, map[string]kind{"timeoutSeconds": number, "limit": unused, "allowWatchBookmarks": truth, "sendInitialEvents": maybe, "includeObject": text}),
	Create:           merge(writing, uninitialized),
	Update:           writing,
	Patch:            merge(writing, map[string]kind{"force": maybe}),
	Delete:           deletion,
	DeleteCollection: merge(deletion, selection, paging, map[string]kind{"timeoutSeconds": unused}),
}

var (
	selection = map[string]kind{"labelSelector": text, "fieldSelector": text, "resourceVersion": text, "resourceVersionMatch": text}
	paging    = map[string]kind{"limit": number, "continue": text}
	writing   = map[string]kind{"dryRun": many, "fieldManager": text, "fieldValidation": text, "pretty": text}
	// uninitialized shows what waits for initializers, which the admission plugin Initializers knows.
	uninitialized = map[string]kind{"includeUninitialized": truth}
	deletion      = map[string]kind{"dryRun": many, "gracePeriodSeconds": text, "propagationPolicy": text, "orphanDependents": maybe, "pretty": text}
)

func merge(parts ...map[string]kind) map[string]kind {
	all := map[string]kind{}
	for _, part := range parts {
		for name, k := range part {
			all[name] = k
		}
	}
	return all
}

// Options returns the fields of the request message that come from the
// query and the headers. Options that the verb does not know are left out, as
// Kubernetes ignores them. The error says which number does not parse, or what does not go together; the fields that are in order are returned
// beside it, for whoever has to judge more before that is told.
func (i Info) Options(query url.Values, header http.Header) (url.Values, error) {
	form := make(url.Values, 4)
	var wrong error
	for name, k := range options[i.Verb] {
		values, ok := query[name]
		if !ok || len(values) == 0 {
			continue
		}
		switch k {
		case text:
			form[name] = values[:1]
		case many:
			form[name] = values
		case number, unused:
			if _, err := strconv.ParseInt(values[0], 10, 64); err != nil {
				if wrong == nil || name == "timeoutSeconds" { // which is read before the others
					wrong = apierrors.NewBadRequest(numberError(err).Error())
				}
			} else if k == number {
				form[name] = values[:1]
			}
		case truth, maybe:
			form[name] = []string{strconv.FormatBool(parseBool(values))}
		}
	}
	if wrong == nil {
		wrong = i.invalid(query)
	}
	if exported, asked := query["export"]; asked && i.Verb == Get && parseBool(exported) {
		wrong = apierrors.NewBadRequest("the export parameter, deprecated since v1.14, is no longer supported")
	}
	if i.byPath {
		withoutInitialEvents(form)
	}
	if accept := header["Accept"]; len(accept) > 0 {
		form["accept"] = []string{strings.Join(accept, ", ")}
	}
	agent := header.Get("User-Agent")
	if _, takes := options[i.Verb]["pretty"]; takes && !query.Has("pretty") && Human(agent) {
		form["pretty"] = []string{"true"}
	}
	if contentType := header.Get("Content-Type"); contentType != "" && !i.ReadOnly() {
		form["contentType"] = []string{contentType}
	}
	return form, wrong
}

// numberError says of a number that does not parse what Kubernetes says.
func numberError(err error) error {
	if problem, ok := errors.AsType[*strconv.NumError](err); ok {
		return fmt.Errorf("strconv.ParseInt: parsing %q: %w", problem.Num, problem.Err)
	}
	return err
}

// invalid is the refusal of options that do not go together, where only the query tells: a list that is asked for what only a watch
// has (what a collection's deletion lists, too), and a watch that is told to go on with a list. Other refusals are the API server's.
func (i Info) invalid(query url.Values) error {
	initial, asked := query["sendInitialEvents"]
	switch {
	case (i.Verb == List || i.Verb == DeleteCollection) && asked, i.byPath, i.Verb == Watch && query.Get("continue") != "":
	default:
		return nil
	}
	o := internalversion.ListOptions{
		Watch: i.Verb == Watch && !i.byPath, Continue: query.Get("continue"), ResourceVersion: query.Get("resourceVersion"),
		ResourceVersionMatch: metav1.ResourceVersionMatch(query.Get("resourceVersionMatch")),
	}
	if asked {
		value := parseBool(initial)
		o.SendInitialEvents = &value
	}
	if o.Watch && !asked && o.ResourceVersionMatch == "" && (o.ResourceVersion == "" || o.ResourceVersion == "0") {
		value := true // it begins with the state, which counts as asked for
		o.SendInitialEvents, o.ResourceVersionMatch = &value, metav1.ResourceVersionMatchNotOlderThan
	}
	if errs := validation.ValidateListOptions(&o, true); len(errs) > 0 {
		if _, err := labels.Parse(query.Get("labelSelector")); err != nil { // which are read before
			return apierrors.NewBadRequest(err.Error())
		}
		if _, err := fields.ParseSelector(query.Get("fieldSelector")); err != nil {
			return apierrors.NewBadRequest(err.Error())
		}
		return apierrors.NewInvalid(schema.GroupKind{Group: metav1.GroupName, Kind: "ListOptions"}, "", errs)
	}
	return nil
}

// withoutInitialEvents leaves out what a watch by its path alone does not have: a match of the version, and the bookmark at the end of the
// state that it begins with.
func withoutInitialEvents(form url.Values) {
	form.Del("resourceVersionMatch")
	if rv := form.Get("resourceVersion"); rv == "" || rv == "0" {
		form.Del("allowWatchBookmarks")
	}
}

// parseBool reads a boolean as Kubernetes does: present means true, but for "false" and "0".
func parseBool(values []string) bool {
	return len(values) == 0 || values[0] != "0" && !strings.EqualFold(values[0], "false")
}

// Human reports whether a person is likely to read the answer as it is.
func Human(agent string) bool {
	return slices.ContainsFunc([]string{"curl", "Wget", "Mozilla/5.0"}, func(prefix string) bool {
		return strings.HasPrefix(agent, prefix)
	})
}
