package plugin

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
)

// enforceMountable is the annotation by which an account's pods may use only the secrets that it lists.
const enforceMountable = "kubernetes.io/enforce-mountable-secrets"

// mountable checks that a pod uses only the account's secrets.
func mountable(spec *corev1.PodSpec, account *corev1.ServiceAccount) error {
	listed := map[string]bool{}
	for _, s := range account.Secrets {
		listed[s.Name] = true
	}
	for i := range spec.Volumes {
		if s := spec.Volumes[i].Secret; s != nil && !listed[s.SecretName] {
			return fmt.Errorf("volume with secret.secretName=%q is not allowed because service account %s does not reference that secret", s.SecretName, account.Name)
		}
	}
	for _, sort := range []struct {
		what       string
		containers []corev1.Container
	}{{"init container", spec.InitContainers}, {"container", spec.Containers}} {
		for i := range sort.containers {
			c := &sort.containers[i]
			if err := mountableIn(sort.what, c.Name, c.Env, c.EnvFrom, listed, account.Name); err != nil {
				return err
			}
		}
	}
	if err := mountableEphemeral(spec, account, listed); err != nil {
		return err
	}
	pull := map[string]bool{}
	for _, s := range account.ImagePullSecrets {
		pull[s.Name] = true
	}
	for _, s := range spec.ImagePullSecrets {
		if !pull[s.Name] {
			return fmt.Errorf("imagePullSecret=%q is not allowed because service account %s does not reference that imagePullSecret", s.Name, account.Name)
		}
	}
	return nil
}

func mountableEphemeral(spec *corev1.PodSpec, account *corev1.ServiceAccount, listed map[string]bool) error {
	for i := range spec.EphemeralContainers {
		c := &spec.EphemeralContainers[i]
		if err := mountableIn("ephemeral container", c.Name, c.Env, c.EnvFrom, listed, account.Name); err != nil {
			return err
		}
	}
	return nil
}

func mountableIn(what, name string, env []corev1.EnvVar, from []corev1.EnvFromSource, listed map[string]bool, account string) error {
	for _, e := range env {
		if e.ValueFrom != nil && e.ValueFrom.SecretKeyRef != nil && !listed[e.ValueFrom.SecretKeyRef.Name] {
			return fmt.Errorf("%s %s with envVar %s referencing secret.secretName=%q is not allowed because service account %s does not reference that secret",
				what, name, e.Name, e.ValueFrom.SecretKeyRef.Name, account)
		}
	}
	for _, e := range from {
		if e.SecretRef != nil && !listed[e.SecretRef.Name] {
			return fmt.Errorf("%s %s with envFrom referencing secret.secretName=%q is not allowed because service account %s does not reference that secret",
				what, name, e.SecretRef.Name, account)
		}
	}
	return nil
}
