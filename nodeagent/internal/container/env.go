package container

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"sort"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/util/validation"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"howdah.dev/nodeagent/internal/envfile"
)

// Objects reads what environment variables refer to.
type Objects interface {
	ConfigMap(ctx context.Context, namespace, name string) (*corev1.ConfigMap, error)
	Secret(ctx context.Context, namespace, name string) (*corev1.Secret, error)
	// Services returns the services of a namespace, and of "default" the API's own.
	Services(namespace string) []*corev1.Service
}

// environment returns the variables of a container in the order of their
// first mention: services, envFrom, env; later values win.
func (b *Builder) environment(ctx context.Context, run Run) ([]*runtimeapi.KeyValue, error) {
	e := &variables{values: map[string]string{}}
	links := map[string]string{}
	b.serviceVariables(links)
	names := make([]string, 0, len(links))
	for name := range links {
		names = append(names, name)
	}
	sort.Strings(names)
	for _, name := range names {
		e.set(name, links[name])
	}
	for _, from := range run.Container.EnvFrom {
		if err := b.envFrom(ctx, e, from); err != nil {
			return nil, err
		}
	}
	for _, v := range run.Container.Env {
		value, ok, err := b.value(ctx, run, v, e)
		if err != nil {
			return nil, err
		}
		if ok {
			e.set(v.Name, value)
		}
	}
	out := make([]*runtimeapi.KeyValue, 0, len(e.order))
	for _, name := range e.order {
		out = append(out, &runtimeapi.KeyValue{Key: name, Value: []byte(e.values[name])})
	}
	return out, nil
}

type variables struct {
	order  []string
	values map[string]string
}

func (e *variables) set(name, value string) {
	if _, ok := e.values[name]; !ok {
		e.order = append(e.order, name)
	}
	e.values[name] = value
}

func (e *variables) look(name string) (string, bool) {
	v, ok := e.values[name]
	return v, ok
}

func (b *Builder) envFrom(ctx context.Context, e *variables, from corev1.EnvFromSource) error {
	data := map[string]string{}
	switch {
	case from.ConfigMapRef != nil:
		cm, err := b.Objects.ConfigMap(ctx, b.Pod.Namespace, from.ConfigMapRef.Name)
		if err != nil {
			return optional(err, from.ConfigMapRef.Optional)
		}
		data = cm.Data
	case from.SecretRef != nil:
		secret, err := b.Objects.Secret(ctx, b.Pod.Namespace, from.SecretRef.Name)
		if err != nil {
			return optional(err, from.SecretRef.Optional)
		}
		for k, v := range secret.Data {
			data[k] = string(v)
		}
	}
	keys := make([]string, 0, len(data))
	for k := range data {
		keys = append(keys, k)
	}
	sort.Strings(keys)
	for _, k := range keys {
		if len(validation.IsRelaxedEnvVarName(from.Prefix+k)) == 0 {
			e.set(from.Prefix+k, data[k])
		}
	}
	return nil
}

// optional forgives an object that is missing where that is allowed.
func optional(err error, allowed *bool) error {
	if allowed != nil && *allowed && apierrors.IsNotFound(err) {
		return nil
	}
	return err
}

// value returns one variable; ok is false for an optional one that is missing.
func (b *Builder) value(ctx context.Context, run Run, v corev1.EnvVar, e *variables) (_ string, ok bool, _ error) {
	from := v.ValueFrom
	switch {
	case from == nil:
		return Expand(v.Value, e.look), true, nil
	case from.FieldRef != nil:
		value, err := Field(b.Pod, from.FieldRef.FieldPath, b.Status)
		return value, true, err
	case from.ResourceFieldRef != nil:
		value, err := Resource(b.Pod, run.Container, from.ResourceFieldRef, b.Node.Allocatable)
		return value, true, err
	case from.ConfigMapKeyRef != nil:
		ref := from.ConfigMapKeyRef
		cm, err := b.Objects.ConfigMap(ctx, b.Pod.Namespace, ref.Name)
		if err != nil {
			return "", false, optional(err, ref.Optional)
		}
		value, ok := cm.Data[ref.Key]
		if !ok && (ref.Optional == nil || !*ref.Optional) {
			return "", false, fmt.Errorf("couldn't find key %v in ConfigMap %v/%v", ref.Key, b.Pod.Namespace, ref.Name)
		}
		return value, ok, nil
	case from.SecretKeyRef != nil:
		ref := from.SecretKeyRef
		secret, err := b.Objects.Secret(ctx, b.Pod.Namespace, ref.Name)
		if err != nil {
			return "", false, optional(err, ref.Optional)
		}
		value, ok := secret.Data[ref.Key]
		if !ok && (ref.Optional == nil || !*ref.Optional) {
			return "", false, fmt.Errorf("couldn't find key %v in Secret %v/%v", ref.Key, b.Pod.Namespace, ref.Name)
		}
		return string(value), ok, nil
	case from.FileKeyRef != nil:
		return fromFile(run.Volumes, from.FileKeyRef)
	}
	return "", false, fmt.Errorf("environment variable %s has an empty valueFrom", v.Name)
}

// fromFile returns the variable that a container has written to a file of a volume; an empty one counts as missing, as in Kubernetes.
func fromFile(volumes Volumes, ref *corev1.FileKeySelector) (_ string, ok bool, _ error) {
	folder, onNode := volumes.Mounts[ref.VolumeName]
	if !onNode {
		return "", false, fmt.Errorf("cannot find the volume %q referenced by FileKeyRef", ref.VolumeName)
	}
	forgiven := ref.Optional != nil && *ref.Optional
	value, err := envfile.Read(folder, ref.Path, ref.Key)
	switch {
	case errors.Is(err, fs.ErrNotExist) && forgiven:
		return "", false, nil
	case err != nil:
		return "", false, fmt.Errorf("couldn't parse env file %q of volume %q: %w", ref.Path, ref.VolumeName, err)
	case value == "" && !forgiven:
		return "", false, fmt.Errorf("environment variable key %q not found in file %q of volume %q", ref.Key, ref.Path, ref.VolumeName)
	}
	return value, value != "", nil
}

// serviceVariables adds the variables by which pods find services without DNS:
// those of the API always, those of the pod's namespace where the pod wants them.
func (b *Builder) serviceVariables(into map[string]string) {
	for _, s := range b.Objects.Services(corev1.NamespaceDefault) {
		if s.Name == "kubernetes" {
			describeService(s, into)
		}
	}
	if b.Pod.Spec.EnableServiceLinks != nil && !*b.Pod.Spec.EnableServiceLinks {
		return
	}
	for _, s := range b.Objects.Services(b.Pod.Namespace) {
		describeService(s, into)
	}
}

func describeService(s *corev1.Service, into map[string]string) {
	ip := s.Spec.ClusterIP
	if ip == "" || ip == corev1.ClusterIPNone || len(s.Spec.Ports) == 0 {
		return
	}
	prefix := strings.ToUpper(strings.ReplaceAll(s.Name, "-", "_"))
	into[prefix+"_SERVICE_HOST"] = ip
	into[prefix+"_SERVICE_PORT"] = strconv.Itoa(int(s.Spec.Ports[0].Port))
	for i, p := range s.Spec.Ports {
		port, protocol := strconv.Itoa(int(p.Port)), string(p.Protocol)
		if protocol == "" {
			protocol = "TCP"
		}
		if p.Name != "" {
			into[prefix+"_SERVICE_PORT_"+strings.ToUpper(strings.ReplaceAll(p.Name, "-", "_"))] = port
		}
		url := strings.ToLower(protocol) + "://" + net.JoinHostPort(ip, port)
		if i == 0 {
			into[prefix+"_PORT"] = url
		}
		each := prefix + "_PORT_" + port + "_" + strings.ToUpper(protocol)
		into[each] = url
		into[each+"_PROTO"] = strings.ToLower(protocol)
		into[each+"_PORT"] = port
		into[each+"_ADDR"] = ip
	}
}
