package plugin

import (
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"slices"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"

	"howdah.dev/kit/podspec"
	"howdah.dev/services/apiserver/internal/admission"
)

const (
	defaultAccount  = "default"
	tokenMountPath  = "/var/run/secrets/kubernetes.io/serviceaccount"
	tokenVolume     = "kube-api-access-"
	tokenSeconds    = 3607 // an hour, and a mark by which the node agent's own request is known
	rootCAConfigMap = "kube-root-ca.crt"
	// accountWait is how long a pod waits for the default account of a namespace that was made a moment ago.
	accountWait = time.Second
	accountPoll = 50 * time.Millisecond
)

// ServiceAccount gives every pod its service account, and mounts the account's token into its containers.
type ServiceAccount struct {
	Objects admission.Objects
	Clock   clock.Clock
}

// Name implements admission.Plugin.
func (*ServiceAccount) Name() string { return "ServiceAccount" }

// Handles implements admission.Plugin.
func (*ServiceAccount) Handles(a *admission.Attributes) bool {
	return podBegins(a) || a.Operation == admission.Update && a.Subresource == "ephemeralcontainers" && a.Is("", "pods")
}

// Admit implements admission.Mutator.
func (p *ServiceAccount) Admit(ctx context.Context, a *admission.Attributes) error {
	pod, ok := a.Object.(*corev1.Pod)
	if !ok || !podBegins(a) {
		return nil
	}
	if _, mirror := pod.Annotations[corev1.MirrorPodAnnotationKey]; mirror {
		return mirrorNeedsNothing(a, pod)
	}
	if pod.Spec.ServiceAccountName == "" {
		pod.Spec.ServiceAccountName = defaultAccount
	}
	pod.Spec.DeprecatedServiceAccount = pod.Spec.ServiceAccountName
	account, err := p.account(ctx, a.Namespace, pod.Spec.ServiceAccountName)
	if err != nil {
		return a.Forbidden(fmt.Errorf("error looking up service account %s/%s: %w", a.Namespace, pod.Spec.ServiceAccountName, err))
	}
	if automount(pod, account) {
		mountToken(pod, account.UID)
	}
	if len(pod.Spec.ImagePullSecrets) == 0 {
		pod.Spec.ImagePullSecrets = append([]corev1.LocalObjectReference(nil), account.ImagePullSecrets...)
	}
	return nil
}

// Validate implements admission.Validator: other plugins, as webhooks, may have changed the pod.
func (p *ServiceAccount) Validate(ctx context.Context, a *admission.Attributes) error {
	pod, ok := a.Object.(*corev1.Pod)
	if !ok {
		return nil
	}
	if _, mirror := pod.Annotations[corev1.MirrorPodAnnotationKey]; mirror {
		if a.Operation == admission.Update {
			return nil
		}
		return mirrorNeedsNothing(a, pod)
	}
	account, err := p.account(ctx, a.Namespace, pod.Spec.ServiceAccountName)
	if err != nil {
		return a.Forbidden(fmt.Errorf("error looking up service account %s/%s: %w", a.Namespace, pod.Spec.ServiceAccountName, err))
	}
	if enforced, err := strconv.ParseBool(account.Annotations[enforceMountable]); err != nil || !enforced {
		return nil
	}
	if a.Subresource == "" {
		err = mountable(&pod.Spec, account)
	} else {
		listed := map[string]bool{}
		for _, s := range account.Secrets {
			listed[s.Name] = true
		}
		err = mountableEphemeral(&pod.Spec, account, listed)
	}
	if err != nil {
		return a.Forbidden(err)
	}
	return nil
}

func mirrorNeedsNothing(a *admission.Attributes, pod *corev1.Pod) error {
	if pod.Spec.ServiceAccountName != "" {
		return a.Forbidden(errors.New("a mirror pod may not reference service accounts"))
	}
	if len(podspec.SecretsOf(&pod.Spec)) > 0 {
		return a.Forbidden(errors.New("a mirror pod may not reference secrets"))
	}
	for _, v := range pod.Spec.Volumes {
		if v.Projected == nil {
			continue
		}
		for _, source := range v.Projected.Sources {
			if source.ServiceAccountToken != nil {
				return a.Forbidden(errors.New("a mirror pod may not use ServiceAccountToken volume projections"))
			}
		}
	}
	return nil
}

// account looks the account up. The default one is made by a controller, right after its namespace: it is waited for.
func (p *ServiceAccount) account(ctx context.Context, namespace, name string) (*corev1.ServiceAccount, error) {
	if err := unaskable(name); err != nil {
		return nil, err
	}
	deadline := p.Clock.Now().Add(accountWait)
	for {
		obj, err := p.Objects.Get(ctx, "", "serviceaccounts", namespace, name)
		if account, ok := obj.(*corev1.ServiceAccount); ok && err == nil {
			return account, nil
		}
		if !apierrors.IsNotFound(err) || name != defaultAccount || !p.Clock.Now().Before(deadline) {
			if apierrors.IsNotFound(err) {
				err = apierrors.NewNotFound(corev1.Resource("serviceaccount"), name)
			}
			return nil, err
		}
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-p.Clock.After(accountPoll):
		}
	}
}

func automount(pod *corev1.Pod, account *corev1.ServiceAccount) bool {
	if pod.Spec.AutomountServiceAccountToken != nil {
		return *pod.Spec.AutomountServiceAccountToken
	}
	return account.AutomountServiceAccountToken == nil || *account.AutomountServiceAccountToken
}

// mountToken mounts the account's token into every container that has nothing else in its place.
func mountToken(pod *corev1.Pod, account types.UID) {
	name := ""
	for _, v := range pod.Spec.Volumes {
		if strings.HasPrefix(v.Name, tokenVolume) && v.Projected != nil {
			name = v.Name
		}
	}
	fresh := name == ""
	if fresh {
		name = freeName(pod, account)
	}
	mounted := false
	mount := func(containers []corev1.Container) {
		for i := range containers {
			if mountsAt(&containers[i], tokenMountPath) {
				continue
			}
			containers[i].VolumeMounts = append(containers[i].VolumeMounts, corev1.VolumeMount{
				Name: name, ReadOnly: true, MountPath: tokenMountPath,
			})
			mounted = true
		}
	}
	mount(pod.Spec.InitContainers)
	mount(pod.Spec.Containers)
	if mounted && fresh {
		pod.Spec.Volumes = append(pod.Spec.Volumes, tokenSource(name))
	}
}

func mountsAt(c *corev1.Container, path string) bool {
	for _, m := range c.VolumeMounts {
		if m.MountPath == path {
			return true
		}
	}
	return false
}

// freeName returns a name for the token's volume that no other volume of the pod has. Its end follows from the account and the pod's
// own volumes, where Kubernetes draws it: so the specs of pods that are made alike stay alike, which saves what is worked out from a
// spec, and kept of it, once a pod.
func freeName(pod *corev1.Pod, account types.UID) string {
	const alphabet = "bcdfghjklmnpqrstvwxz2456789"
	digest := fnv.New64a()
	_, _ = digest.Write([]byte(account)) // never fails
	for rest := digest.Sum64(); ; rest++ {
		b, n := []byte(tokenVolume), rest
		for range 5 {
			b = append(b, alphabet[n%uint64(len(alphabet))])
			n /= uint64(len(alphabet))
		}
		name := string(b)
		if !slices.ContainsFunc(pod.Spec.Volumes, func(v corev1.Volume) bool { return v.Name == name }) {
			return name
		}
	}
}

func tokenSource(name string) corev1.Volume {
	seconds, mode := int64(tokenSeconds), int32(0o644)
	return corev1.Volume{Name: name, VolumeSource: corev1.VolumeSource{Projected: &corev1.ProjectedVolumeSource{
		DefaultMode: &mode,
		Sources: []corev1.VolumeProjection{
			{ServiceAccountToken: &corev1.ServiceAccountTokenProjection{Path: "token", ExpirationSeconds: &seconds}},
			{ConfigMap: &corev1.ConfigMapProjection{
				LocalObjectReference: corev1.LocalObjectReference{Name: rootCAConfigMap},
				Items:                []corev1.KeyToPath{{Key: "ca.crt", Path: "ca.crt"}},
			}},
			{DownwardAPI: &corev1.DownwardAPIProjection{Items: []corev1.DownwardAPIVolumeFile{{
				Path: "namespace", FieldRef: &corev1.ObjectFieldSelector{APIVersion: "v1", FieldPath: "metadata.namespace"},
			}}}},
		},
	}}}
}
