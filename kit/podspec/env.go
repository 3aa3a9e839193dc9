package podspec

import (
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"howdah.dev/kit/check"
)

func portName(name string) []string { return validation.IsValidPortName(name) }

// The fields of a pod that its containers can be told by environment, and by file.
var (
	envFields = []string{
		"metadata.name", "metadata.namespace", "metadata.uid", "spec.nodeName", "spec.serviceAccountName",
		"status.hostIP", "status.hostIPs", "status.podIP", "status.podIPs",
	}
	fileFields = []string{"metadata.annotations", "metadata.labels", "metadata.name", "metadata.namespace", "metadata.uid"}
)

func (s *scope) validateEnv(vars []corev1.EnvVar, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	for i := range vars {
		v := &vars[i]
		// Most are right, so a path is made only where it is needed: pods have dozens of variables.
		if v.Name == "" {
			errs = append(errs, field.Required(path.Index(i).Child("name"), ""))
		} else if wrong := validation.IsRelaxedEnvVarName(v.Name); len(wrong) > 0 {
			errs = append(errs, check.Each(wrong, v.Name, path.Index(i).Child("name"))...)
		}
		if v.ValueFrom != nil {
			errs = append(errs, s.validateEnvSource(v, path.Index(i).Child("valueFrom"))...)
		}
	}
	return errs
}

func (s *scope) validateEnvSource(v *corev1.EnvVar, path *field.Path) field.ErrorList {
	from := v.ValueFrom
	var errs field.ErrorList
	sources := 0
	if from.FieldRef != nil {
		sources++
		errs = append(errs, validateFieldRef(from.FieldRef, envFields, path.Child("fieldRef"))...)
	}
	if from.ResourceFieldRef != nil {
		sources++
		errs = append(errs, validateResourceRef(from.ResourceFieldRef, false, path.Child("resourceFieldRef"))...)
	}
	if r := from.ConfigMapKeyRef; r != nil {
		sources++
		errs = append(errs, validateKeyRef(r.Name, r.Key, path.Child("configMapKeyRef"))...)
	}
	if r := from.SecretKeyRef; r != nil {
		sources++
		errs = append(errs, validateKeyRef(r.Name, r.Key, path.Child("secretKeyRef"))...)
	}
	if from.FileKeyRef != nil {
		sources++
		errs = append(errs, validateFileKeyRef(from.FileKeyRef, path.Child("fileKeyRef"))...)
	}
	switch {
	case sources == 0:
		errs = append(errs, field.Invalid(path, "", "must specify one of: `fieldRef`, `resourceFieldRef`, `configMapKeyRef`, `secretKeyRef` or `fileKeyRef`"))
	case v.Value != "":
		errs = append(errs, field.Invalid(path, "", "may not be specified when `value` is not empty"))
	case sources > 1:
		errs = append(errs, field.Invalid(path, "", "may not have more than one field specified at a time"))
	}
	return errs
}

func validateKeyRef(name, key string, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	errs = append(errs, check.Subdomain(name, path.Child("name"))...)
	if key == "" {
		return append(errs, field.Required(path.Child("key"), ""))
	}
	return append(errs, check.Each(validation.IsConfigMapKey(key), key, path.Child("key"))...)
}

func validateFieldRef(f *corev1.ObjectFieldSelector, allowed []string, path *field.Path) field.ErrorList {
	if f.APIVersion == "" {
		return field.ErrorList{field.Required(path.Child("apiVersion"), "")}
	}
	if f.FieldPath == "" {
		return field.ErrorList{field.Required(path.Child("fieldPath"), "")}
	}
	at := path.Child("fieldPath")
	if f.APIVersion != "v1" {
		return field.ErrorList{field.Invalid(at, f.FieldPath, "error converting fieldPath: unsupported pod version: "+f.APIVersion)}
	}
	if name, key, ok := subscript(f.FieldPath); ok {
		return validateSubscript(name, key, f.FieldPath, path)
	}
	if slices.Contains(allowed, f.FieldPath) {
		return nil
	}
	if slices.Contains(envFields, f.FieldPath) || slices.Contains(fileFields, f.FieldPath) || f.FieldPath == "status.phase" {
		return field.ErrorList{field.NotSupported(at, f.FieldPath, slices.Sorted(slices.Values(allowed)))}
	}
	return field.ErrorList{field.Invalid(at, f.FieldPath, "error converting fieldPath: field label not supported: "+f.FieldPath)}
}

// subscript splits metadata.labels['key'].
func subscript(p string) (name, key string, ok bool) {
	name, rest, found := strings.Cut(p, "['")
	if !found {
		return "", "", false
	}
	key, ok = strings.CutSuffix(rest, "']")
	return name, key, ok
}

func validateSubscript(name, key, whole string, path *field.Path) field.ErrorList {
	switch name {
	case "metadata.annotations":
		key = strings.ToLower(key) // so it is told, too
		return check.Each(validation.IsQualifiedName(key), key, path)
	case "metadata.labels":
		return check.Each(validation.IsQualifiedName(key), key, path)
	}
	return field.ErrorList{field.Invalid(path.Child("fieldPath"), whole, fmt.Sprintf("error converting fieldPath: field label does not support subscript: %s", name))}
}

var containerFields = []string{
	"limits.cpu", "limits.ephemeral-storage", "limits.memory",
	"requests.cpu", "requests.ephemeral-storage", "requests.memory",
}

// validateResourceRef checks a reference to a container's resources; in a
// volume the container must be named.
func validateResourceRef(r *corev1.ResourceFieldSelector, volume bool, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	if volume && r.ContainerName == "" {
		return append(errs, field.Required(path.Child("containerName"), ""))
	}
	if r.Resource == "" {
		return append(errs, field.Required(path.Child("resource"), ""))
	}
	_, name, _ := strings.Cut(r.Resource, ".")
	if !slices.Contains(containerFields, r.Resource) && !hugePages(corev1.ResourceName(name)) {
		errs = append(errs, field.NotSupported(path.Child("resource"), r.Resource, containerFields))
	}
	return append(errs, validateDivisor(r.Resource, corev1.ResourceName(name), r.Divisor, path)...)
}

var (
	cpuDivisors    = []string{"1m", "1"}
	cpuList        = "1m and 1"
	memoryDivisors = []string{"1", "1k", "1M", "1G", "1T", "1P", "1E", "1Ki", "1Mi", "1Gi", "1Ti", "1Pi", "1Ei"}
	memoryList     = strings.Join(memoryDivisors, ", ")
)

func validateDivisor(whole string, name corev1.ResourceName, divisor resource.Quantity, path *field.Path) field.ErrorList {
	unset := divisor.IsZero()
	for _, rule := range []struct {
		applies bool
		what    string
		allowed []string
		list    string
	}{
		{name == corev1.ResourceCPU, "cpu resource", cpuDivisors, cpuList},
		{name == corev1.ResourceMemory, "memory resource", memoryDivisors, memoryList},
		{name == corev1.ResourceEphemeralStorage, "local ephemeral storage resource", memoryDivisors, memoryList},
		{hugePages(name), "hugepages resource", memoryDivisors, memoryList},
	} {
		if rule.applies && !unset && !slices.Contains(rule.allowed, divisor.String()) {
			return field.ErrorList{field.Invalid(path.Child("divisor"), whole,
				fmt.Sprintf("only divisor's values %s are supported with the %s", rule.list, rule.what))}
		}
	}
	return nil
}

func validateEnvFrom(sources []corev1.EnvFromSource, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	for i, s := range sources {
		at := path.Index(i)
		if s.Prefix != "" {
			errs = append(errs, check.Each(validation.IsRelaxedEnvVarName(s.Prefix), s.Prefix, at.Child("prefix"))...)
		}
		n := 0
		if s.ConfigMapRef != nil {
			n++
			errs = append(errs, validateObjectName(s.ConfigMapRef.Name, at.Child("configMapRef", "name"))...)
		}
		if s.SecretRef != nil {
			n++
			errs = append(errs, validateObjectName(s.SecretRef.Name, at.Child("secretRef", "name"))...)
		}
		switch {
		case n == 0:
			errs = append(errs, field.Invalid(path, "", "must specify one of: `configMapRef` or `secretRef`"))
		case n > 1:
			errs = append(errs, field.Invalid(path, "", "may not have more than one field specified at a time"))
		}
	}
	return errs
}

// validateObjectName checks the name of a ConfigMap or Secret.
func validateObjectName(name string, path *field.Path) field.ErrorList {
	if name == "" {
		return field.ErrorList{field.Required(path, "")}
	}
	return check.Subdomain(name, path)
}

func validateFileKeyRef(r *corev1.FileKeySelector, path *field.Path) field.ErrorList {
	errs := need(path, "key", r.Key)
	if r.Key != "" {
		errs = append(errs, check.Each(validation.IsRelaxedEnvVarName(r.Key), r.Key, path.Child("key"))...)
	}
	if r.VolumeName == "" {
		errs = append(errs, field.Required(path.Child("volumeName"), ""))
	} else {
		errs = append(errs, check.Label(r.VolumeName, path.Child("volumeName"))...)
	}
	if r.Path == "" {
		return append(errs, field.Required(path.Child("path"), ""))
	}
	return append(errs, check.NoBacksteps(r.Path, path.Child("path"))...)
}

// validateEnvFiles checks what the variables of all containers come from, in whose order Kubernetes looks: those that start first, first.
func (s *scope) validateEnvFiles(path *field.Path) field.ErrorList {
	volumes := map[string]*corev1.Volume{}
	for i := range s.spec.Volumes { // also those in which something else is wrong
		volumes[s.spec.Volumes[i].Name] = &s.spec.Volumes[i]
	}
	var errs field.ErrorList
	each := func(list string, i int, vars []corev1.EnvVar) {
		if len(vars) > 0 {
			errs = append(errs, validateEnvVolumes(vars, volumes, path.Child(list).Index(i).Child("env"))...)
		}
	}
	for i := range s.spec.InitContainers {
		each("initContainers", i, s.spec.InitContainers[i].Env)
	}
	for i := range s.spec.Containers {
		each("containers", i, s.spec.Containers[i].Env)
	}
	for i := range s.spec.EphemeralContainers {
		each("ephemeralContainers", i, s.spec.EphemeralContainers[i].Env)
	}
	return errs
}

// validateEnvVolumes checks that the files that variables come from are in volumes that containers can write.
func validateEnvVolumes(vars []corev1.EnvVar, volumes map[string]*corev1.Volume, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	for i, v := range vars {
		if v.ValueFrom == nil || v.ValueFrom.FileKeyRef == nil {
			continue
		}
		name, at := v.ValueFrom.FileKeyRef.VolumeName, path.Index(i).Child("valueFrom", "fileKeyRef", "volumeName")
		switch volume := volumes[name]; {
		case volume == nil:
			errs = append(errs, field.NotFound(at, name))
		case volume.EmptyDir == nil:
			errs = append(errs, field.Invalid(at, name, "referenced volume must be of type emptyDir"))
		}
	}
	return errs
}
