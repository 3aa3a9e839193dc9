// Package kubeletconfig reads a kubelet's configuration file (https://kubernetes.io/docs/reference/config-api/kubelet-config.v1beta1/) as settings of the node
// agent. What the agent has no setting for is refused, unless the file asks for what the agent does anyway.
package kubeletconfig

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	kubeletv1beta1 "k8s.io/kubelet/config/v1beta1"
	"sigs.k8s.io/yaml"
)

// File is a file with a KubeletConfiguration.
type File struct {
	Name string
	Data []byte
}

// Read returns the settings of a configuration, by the names of the agent's flags. What later files say goes before what earlier ones do, field by field; a
// list goes before a whole list. All that is wrong with what they say together is reported at once.
func Read(files ...File) (map[string]string, error) {
	all := map[string]any{}
	for _, file := range files {
		written, err := decode(file.Data)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", file.Name, err)
		}
		merge(all, written)
	}
	delete(all, "kind")
	delete(all, "apiVersion")
	out, err := settings("", all)
	if look, ok := out["node-status-update-frequency"]; ok && out["node-status-report-frequency"] == "" {
		out["node-status-report-frequency"] = look // as the reference has it
	}
	return out, err
}

func decode(data []byte) (map[string]any, error) {
	var typed kubeletv1beta1.KubeletConfiguration
	if err := yaml.UnmarshalStrict(data, &typed); err != nil {
		return nil, err
	}
	if typed.Kind != "KubeletConfiguration" || typed.APIVersion != kubeletv1beta1.SchemeGroupVersion.String() {
		return nil, fmt.Errorf("it is a %s of %s, not a KubeletConfiguration of %s", typed.Kind, typed.APIVersion, kubeletv1beta1.SchemeGroupVersion)
	}
	var written map[string]any
	return written, yaml.Unmarshal(data, &written)
}

// merge puts what one object says over what another does, as a JSON merge patch (RFC 7386).
func merge(into, over map[string]any) {
	for name, value := range over {
		object, ok := value.(map[string]any)
		if !ok {
			into[name] = value
			continue
		}
		below, ok := into[name].(map[string]any)
		if !ok {
			below = map[string]any{}
		}
		merge(below, object)
		into[name] = below
	}
}

// Settings are the names of the agent's flags that a configuration sets.
func Settings() []string {
	var out []string
	for _, f := range flags {
		out = append(out, f.name)
	}
	return out
}

// settings reads the fields of an object, whose path begins the names in the tables.
func settings(path string, written map[string]any) (map[string]string, error) {
	out := map[string]string{}
	var problems []error
	for _, name := range slices.Sorted(maps.Keys(written)) {
		value, field := written[name], path+name
		if unset(value) {
			continue
		}
		if flag, ok := flags[field]; ok {
			text, err := flag.write(value)
			if err != nil {
				problems = append(problems, fmt.Errorf("%s: %w", field, err))
			}
			out[flag.name] = text
			continue
		}
		if fixed, ok := fixed[field]; ok {
			if !slices.Contains(fixed, fmt.Sprint(value)) {
				problems = append(problems, fmt.Errorf("%s: the node agent has %s alone, not %v", field, strings.Join(fixed, " or "), value))
			}
			continue
		}
		if below, ok := value.(map[string]any); ok && slices.Contains(objects, field) {
			more, err := settings(field+".", below)
			maps.Copy(out, more)
			problems = append(problems, err)
			continue
		}
		problems = append(problems, fmt.Errorf("%s: the node agent has no such setting", field))
	}
	return out, errors.Join(problems...)
}

// unset reports whether a value says as much as none.
func unset(value any) bool {
	switch v := value.(type) {
	case nil:
		return true
	case string:
		return v == "" || v == "0s"
	case []any:
		return len(v) == 0
	case map[string]any:
		return len(v) == 0
	}
	return false
}

// pairs writes an object as NAME SIGN VALUE, separated by commas, in the order of the names.
func pairs(sign string) func(any) (string, error) {
	return func(value any) (string, error) {
		object, _ := value.(map[string]any)
		var out []string
		for _, name := range slices.Sorted(maps.Keys(object)) {
			out = append(out, name+sign+fmt.Sprint(object[name]))
		}
		return strings.Join(out, ","), nil
	}
}

func plain(value any) (string, error) { return fmt.Sprint(value), nil }

// seconds writes a number of them as a duration.
func seconds(value any) (string, error) { return fmt.Sprint(value) + "s", nil }

// list separates items by commas.
func list(value any) (string, error) {
	var out []string
	items, _ := value.([]any)
	for _, item := range items {
		out = append(out, fmt.Sprint(item))
	}
	return strings.Join(out, ","), nil
}

// items writes each item of a list, which is an object, and separates them.
func items(separator string, write func(item map[string]any) string) func(any) (string, error) {
	return func(value any) (string, error) {
		var out []string
		all, _ := value.([]any)
		for _, item := range all {
			object, _ := item.(map[string]any)
			out = append(out, write(object))
		}
		return strings.Join(out, separator), nil
	}
}
