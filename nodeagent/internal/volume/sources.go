package volume

import (
	"context"
	"fmt"
	"os"
	"reflect"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	utilerrors "k8s.io/apimachinery/pkg/util/errors"

	"howdah.dev/nodeagent/internal/container"
)

const defaultMode = 0o644

func mode(own, byDefault *int32) os.FileMode {
	if own != nil {
		return os.FileMode(*own)
	}
	if byDefault != nil {
		return os.FileMode(*byDefault)
	}
	return defaultMode
}

func is(flag *bool) bool { return flag != nil && *flag }

func (m *Manager) configMap(ctx context.Context, namespace, name string, items []corev1.KeyToPath, byDefault *int32, optional *bool) (Files, error) {
	cm, err := m.cfg.Objects.ConfigMap(ctx, namespace, name)
	if err != nil {
		if is(optional) && apierrors.IsNotFound(err) {
			return Files{}, nil
		}
		return nil, err
	}
	data := make(map[string][]byte, len(cm.Data)+len(cm.BinaryData))
	for k, v := range cm.Data {
		data[k] = []byte(v)
	}
	for k, v := range cm.BinaryData {
		data[k] = v
	}
	return choose(data, items, byDefault, optional, "configmap references non-existent config key: %s")
}

func (m *Manager) secret(ctx context.Context, namespace, name string, items []corev1.KeyToPath, byDefault *int32, optional *bool) (Files, error) {
	secret, err := m.cfg.Objects.Secret(ctx, namespace, name)
	if err != nil {
		if is(optional) && apierrors.IsNotFound(err) {
			return Files{}, nil
		}
		return nil, err
	}
	return choose(secret.Data, items, byDefault, optional, "references non-existent secret key: %s")
}

// choose maps keys to files: all of them, or those that items name.
func choose(data map[string][]byte, items []corev1.KeyToPath, byDefault *int32, optional *bool, missing string) (Files, error) {
	files := Files{}
	if len(items) == 0 {
		for k, v := range data {
			files[k] = File{Data: v, Mode: mode(nil, byDefault)}
		}
		return files, nil
	}
	for _, item := range items {
		value, ok := data[item.Key]
		if !ok {
			if is(optional) {
				continue
			}
			return nil, fmt.Errorf(missing, item.Key)
		}
		files[item.Path] = File{Data: value, Mode: mode(item.Mode, byDefault)}
	}
	return files, nil
}

func (m *Manager) downward(pod *corev1.Pod, status *corev1.PodStatus, items []corev1.DownwardAPIVolumeFile, byDefault *int32) (Files, error) {
	files := Files{}
	for _, item := range items {
		var value string
		var err error
		switch {
		case item.FieldRef != nil:
			value, err = container.Field(pod, item.FieldRef.FieldPath, status)
		case item.ResourceFieldRef != nil:
			value, err = container.Resource(pod, nil, item.ResourceFieldRef, m.cfg.Allocatable())
		}
		if err != nil {
			return nil, err
		}
		files[item.Path] = File{Data: []byte(value), Mode: mode(item.Mode, byDefault)}
	}
	return files, nil
}

func (m *Manager) projected(ctx context.Context, pod *corev1.Pod, status *corev1.PodStatus, volume string, p *corev1.ProjectedVolumeSource) (Files, error) {
	all := Files{}
	var problems []error
	for i, source := range p.Sources {
		var files Files
		var err error
		switch {
		case source.ConfigMap != nil:
			s := source.ConfigMap
			files, err = m.configMap(ctx, pod.Namespace, s.Name, s.Items, p.DefaultMode, s.Optional)
		case source.Secret != nil:
			s := source.Secret
			files, err = m.secret(ctx, pod.Namespace, s.Name, s.Items, p.DefaultMode, s.Optional)
		case source.DownwardAPI != nil:
			files, err = m.downward(pod, status, source.DownwardAPI.Items, p.DefaultMode)
		case source.ServiceAccountToken != nil:
			files, err = m.tokenFile(ctx, pod, source.ServiceAccountToken, mode(nil, p.DefaultMode))
		case source.ClusterTrustBundle != nil:
			files, err = m.trustFile(ctx, pod, source.ClusterTrustBundle, mode(nil, p.DefaultMode))
		case source.PodCertificate != nil:
			files, err = m.certificateFiles(ctx, pod, at{volume, i}, source.PodCertificate, mode(nil, p.DefaultMode))
		}
		if err != nil {
			problems = append(problems, err)
			continue
		}
		for path, file := range files {
			all[path] = file
		}
	}
	if err := utilerrors.NewAggregate(problems); err != nil {
		return nil, err
	}
	return all, nil
}

// hostPath checks, and for the OrCreate types makes, a path of the node.
func hostPath(source *corev1.HostPathVolumeSource) error {
	if source.Type == nil || *source.Type == corev1.HostPathUnset {
		return nil
	}
	path := source.Path
	info, err := os.Stat(path)
	exists := err == nil
	check := func(ok bool, what string) error {
		if !exists || !ok {
			return fmt.Errorf("hostPath type check failed: %s is not %s", path, what)
		}
		return nil
	}
	switch *source.Type {
	case corev1.HostPathDirectoryOrCreate:
		if !exists {
			return os.MkdirAll(path, 0o755)
		}
		return check(info.IsDir(), "a directory")
	case corev1.HostPathDirectory:
		return check(exists && info.IsDir(), "a directory")
	case corev1.HostPathFileOrCreate:
		if !exists {
			file, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL, 0o644)
			if err != nil {
				return err
			}
			return file.Close()
		}
		return check(info.Mode().IsRegular(), "a file")
	case corev1.HostPathFile:
		return check(exists && info.Mode().IsRegular(), "a file")
	case corev1.HostPathSocket:
		return check(exists && info.Mode()&os.ModeSocket != 0, "a socket file")
	case corev1.HostPathCharDev:
		return check(exists && info.Mode()&os.ModeCharDevice != 0, "a character device")
	case corev1.HostPathBlockDev:
		return check(exists && info.Mode()&os.ModeDevice != 0 && info.Mode()&os.ModeCharDevice == 0, "a block device")
	}
	return fmt.Errorf("unknown hostPath type %q", *source.Type)
}

// kind names the source of a volume, for people.
func kind(v *corev1.Volume) string { return source(v.VolumeSource) }

// source names the field of a struct of sources that is set.
func source(sources any) string {
	source := reflect.ValueOf(sources)
	for i := range source.NumField() {
		if !source.Field(i).IsNil() {
			name, _, _ := strings.Cut(source.Type().Field(i).Tag.Get("json"), ",")
			return name
		}
	}
	return "unknown"
}
