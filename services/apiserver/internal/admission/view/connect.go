package view

import (
	"fmt"
	"net/url"
	"reflect"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"howdah.dev/services/apiserver/internal/admission"
)

// connects are the options that a stream's query stands for, by resource and subresource.
var connects = map[string]func() runtime.Object{
	"pods/exec":        func() runtime.Object { return &corev1.PodExecOptions{} },
	"pods/attach":      func() runtime.Object { return &corev1.PodAttachOptions{} },
	"pods/portforward": func() runtime.Object { return &corev1.PodPortForwardOptions{} },
	"pods/log":         func() runtime.Object { return &corev1.PodLogOptions{} },
	"pods/proxy":       func() runtime.Object { return &corev1.PodProxyOptions{} },
	"services/proxy":   func() runtime.Object { return &corev1.ServiceProxyOptions{} },
	"nodes/proxy":      func() runtime.Object { return &corev1.NodeProxyOptions{} },
}

// connectOptions is the object of a CONNECT.
func connectOptions(a *admission.Attributes) (runtime.Object, schema.GroupVersionKind, error) {
	make := connects[a.Resource.GVR.Resource+"/"+a.Subresource]
	if make == nil {
		return nil, a.Resource.GVK, nil
	}
	options := make()
	query, err := url.ParseQuery(a.Query)
	if err != nil {
		return nil, schema.GroupVersionKind{}, fmt.Errorf("query: %w", err)
	}
	if a.Subresource == "proxy" {
		query = url.Values{"path": {a.Path}} // what else there is in it is for what is behind the proxy
	}
	set(reflect.ValueOf(options).Elem(), query)
	gvk := corev1.SchemeGroupVersion.WithKind(reflect.TypeOf(options).Elem().Name())
	options.GetObjectKind().SetGroupVersionKind(gvk)
	return options, gvk, nil
}

// set fills the fields of options from the query by their JSON names; what it does not understand it leaves, as the stream's own
// reader of the query refuses it.
func set(options reflect.Value, query url.Values) {
	for i := range options.NumField() {
		name, _, _ := strings.Cut(options.Type().Field(i).Tag.Get("json"), ",")
		values, given := query[name]
		if name == "" || !given || len(values) == 0 {
			continue
		}
		switch f := options.Field(i); f.Kind() {
		case reflect.Bool:
			f.SetBool(values[0] != "false" && values[0] != "0")
		case reflect.String:
			f.SetString(values[0])
		case reflect.Slice:
			fill(f, values)
		case reflect.Pointer:
			if n, err := strconv.ParseInt(values[0], 10, 64); err == nil && f.Type().Elem().Kind() == reflect.Int64 {
				f.Set(reflect.ValueOf(&n))
			}
		}
	}
}

func fill(f reflect.Value, values []string) {
	for _, v := range values {
		switch f.Type().Elem().Kind() {
		case reflect.String:
			f.Set(reflect.Append(f, reflect.ValueOf(v)))
		case reflect.Int32:
			for part := range strings.SplitSeq(v, ",") {
				if n, err := strconv.ParseInt(part, 10, 32); err == nil {
					f.Set(reflect.Append(f, reflect.ValueOf(int32(n))))
				}
			}
		}
	}
}
