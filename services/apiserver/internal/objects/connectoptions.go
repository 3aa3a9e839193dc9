package objects

import (
	"net/url"
	"slices"
	"strconv"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// refuseDryRun refuses to try what cannot be tried: what a stream does is done by others. A log is only read.
func refuseDryRun(subresource, query string) error {
	values, _ := url.ParseQuery(query) // of a query that is not well formed what can be read
	if subresource != "log" && values.Has("dryRun") {
		return apierrors.NewBadRequest("dryRun is not supported")
	}
	return nil
}

// checkPorts refuses the query of a portforward whose ports are no numbers from 0 to 65535.
func checkPorts(query string) error {
	values, err := url.ParseQuery(query)
	if err != nil {
		return nil // what cannot be read of a query is left out
	}
	for _, port := range values["ports"] {
		if _, err := strconv.ParseUint(port, 10, 16); err != nil {
			return apierrors.NewBadRequest("cannot convert to []int32: " + err.Error())
		}
	}
	return nil
}

// logStreams are what a log can be asked for, where the feature gate PodLogsQuerySplitStreams is on.
var logStreams = []string{corev1.LogStreamAll, corev1.LogStreamStderr, corev1.LogStreamStdout}

// checkLogOptions refuses the query for the log of the pod name where it does not parse, or asks for what there is not; split says that it may ask for
// one stream.
func checkLogOptions(name, query string, split bool) error {
	values, err := url.ParseQuery(query)
	if err != nil {
		return nil
	}
	options, err := logOptions(values)
	if err != nil {
		return apierrors.NewBadRequest(err.Error())
	}
	if problems := validateLogOptions(options, split); len(problems) > 0 {
		return apierrors.NewInvalid(corev1.SchemeGroupVersion.WithKind("PodLogOptions").GroupKind(), name, problems)
	}
	return nil
}

// logOptions reads those options of a log whose values can be wrong.
func logOptions(values url.Values) (*corev1.PodLogOptions, error) {
	var (
		options corev1.PodLogOptions
		err     error
	)
	number := func(name string) *int64 {
		if err != nil || len(values[name]) == 0 {
			return nil
		}
		var n int64
		n, err = strconv.ParseInt(values.Get(name), 10, 64)
		return &n
	}
	options.SinceSeconds = number("sinceSeconds")
	if times := values["sinceTime"]; err == nil && len(times) > 0 {
		options.SinceTime = &metav1.Time{}
		err = options.SinceTime.UnmarshalQueryParameter(times[0])
	}
	options.TailLines = number("tailLines")
	options.LimitBytes = number("limitBytes")
	if streams := values["stream"]; len(streams) > 0 {
		options.Stream = &streams[0]
	}
	return &options, err
}

func validateLogOptions(o *corev1.PodLogOptions, split bool) field.ErrorList {
	var problems field.ErrorList
	if o.TailLines != nil && *o.TailLines < 0 {
		problems = append(problems, field.Invalid(field.NewPath("tailLines"), *o.TailLines, "must be greater than or equal to 0"))
	}
	if o.LimitBytes != nil && *o.LimitBytes < 1 {
		problems = append(problems, field.Invalid(field.NewPath("limitBytes"), *o.LimitBytes, "must be greater than 0"))
	}
	switch {
	case o.SinceSeconds != nil && o.SinceTime != nil:
		problems = append(problems, field.Forbidden(field.NewPath(""), "at most one of `sinceTime` or `sinceSeconds` may be specified"))
	case o.SinceSeconds != nil && *o.SinceSeconds < 1:
		problems = append(problems, field.Invalid(field.NewPath("sinceSeconds"), *o.SinceSeconds, "must be greater than 0"))
	}
	return append(problems, validateLogStream(o, split)...)
}

func validateLogStream(o *corev1.PodLogOptions, split bool) field.ErrorList {
	path := field.NewPath("stream")
	switch {
	case o.Stream == nil:
		return nil
	case !split:
		return field.ErrorList{field.Forbidden(path, "may not be specified")}
	}
	var problems field.ErrorList
	if !slices.Contains(logStreams, *o.Stream) {
		problems = append(problems, field.NotSupported(path, *o.Stream, logStreams))
	}
	if *o.Stream != corev1.LogStreamAll && o.TailLines != nil {
		problems = append(problems, field.Forbidden(field.NewPath(""), "`tailLines` and specific `stream` are mutually exclusive for now"))
	}
	return problems
}
