package carry

import (
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"howdah.dev/services/federation/api"
)

// strip returns a template as a user would have written it: without what the federation's own API put into it and each member decides for itself.
func strip(template *unstructured.Unstructured) *unstructured.Unstructured {
	o := &unstructured.Unstructured{Object: map[string]any{}}
	for key, value := range template.DeepCopy().Object {
		if key != "metadata" && key != "status" {
			o.Object[key] = value
		}
	}
	o.SetName(template.GetName())
	if template.GetNamespace() != "" {
		o.SetNamespace(template.GetNamespace())
	}
	o.SetLabels(kept(template.GetLabels()))
	o.SetAnnotations(kept(template.GetAnnotations()))
	if clean := kinds[o.GroupVersionKind().GroupKind().String()]; clean != nil {
		clean(o.Object)
	}
	return o
}

// dropped are labels and annotations that say something of the object here alone; a prefix ends in a slash.
var dropped = []string{
	"kubectl.kubernetes.io/last-applied-configuration", "deployment.kubernetes.io/", "pv.kubernetes.io/", "volume.kubernetes.io/selected-node",
	"volume.kubernetes.io/storage-provisioner", "volume.beta.kubernetes.io/storage-provisioner", "kubernetes.io/metadata.name", api.Group + "/",
}

func kept(all map[string]string) map[string]string {
	var out map[string]string
	for key, value := range all {
		drop := false
		for _, d := range dropped {
			drop = drop || key == d || strings.HasSuffix(d, "/") && strings.HasPrefix(key, d)
		}
		if !drop {
			if out == nil {
				out = map[string]string{}
			}
			out[key] = value
		}
	}
	return out
}

// kinds clean what is special about a kind.
var kinds = map[string]func(map[string]any){
	"Service":               cleanService,
	"ServiceAccount":        func(o map[string]any) { delete(o, "secrets") },
	"Namespace":             func(o map[string]any) { delete(o, "spec") },
	"PersistentVolumeClaim": func(o map[string]any) { unstructured.RemoveNestedField(o, "spec", "volumeName") },
	"Pod":                   cleanPod,
	"Job.batch":             cleanJob,
	"ClusterRole.rbac.authorization.k8s.io": func(o map[string]any) {
		if o["aggregationRule"] != nil {
			delete(o, "rules") // which every cluster gathers of its own
		}
	},
	"CustomResourceDefinition.apiextensions.k8s.io": cleanDefinition,
}

func cleanService(o map[string]any) {
	spec, _ := o["spec"].(map[string]any)
	if spec == nil {
		return
	}
	if spec["clusterIP"] != "None" {
		delete(spec, "clusterIP")
		delete(spec, "clusterIPs")
	}
	delete(spec, "ipFamilies")
	if spec["ipFamilyPolicy"] == "SingleStack" {
		delete(spec, "ipFamilyPolicy")
	}
	delete(spec, "healthCheckNodePort")
	ports, _ := spec["ports"].([]any)
	for _, p := range ports {
		if port, ok := p.(map[string]any); ok {
			delete(port, "nodePort")
		}
	}
}

// tokenVolume begins the names of the volumes that an API adds to pods, with the tokens of their accounts.
const tokenVolume = "kube-api-access-"

func cleanPod(o map[string]any) {
	spec, _ := o["spec"].(map[string]any)
	if spec == nil {
		return
	}
	for _, field := range []string{"nodeName", "serviceAccount", "priority", "preemptionPolicy"} {
		delete(spec, field)
	}
	spec["volumes"] = without(spec["volumes"])
	for _, field := range []string{"containers", "initContainers"} {
		list, _ := spec[field].([]any)
		for _, c := range list {
			if container, ok := c.(map[string]any); ok {
				container["volumeMounts"] = without(container["volumeMounts"])
				if container["volumeMounts"] == nil {
					delete(container, "volumeMounts")
				}
			}
		}
	}
	if spec["volumes"] == nil {
		delete(spec, "volumes")
	}
}

// without drops the items of a list that are named as volumes of tokens are; nil is an empty list.
func without(list any) any {
	items, _ := list.([]any)
	var out []any
	for _, i := range items {
		if item, ok := i.(map[string]any); ok {
			if name, _ := item["name"].(string); strings.HasPrefix(name, tokenVolume) {
				continue
			}
		}
		out = append(out, i)
	}
	if out == nil {
		return nil
	}
	return out
}

func cleanJob(o map[string]any) {
	if manual, _, _ := unstructured.NestedBool(o, "spec", "manualSelector"); manual {
		return
	}
	unstructured.RemoveNestedField(o, "spec", "selector")
	for _, label := range []string{"controller-uid", "job-name", "batch.kubernetes.io/controller-uid", "batch.kubernetes.io/job-name"} {
		unstructured.RemoveNestedField(o, "spec", "template", "metadata", "labels", label)
	}
}

func cleanDefinition(o map[string]any) {
	if strategy, _, _ := unstructured.NestedString(o, "spec", "conversion", "strategy"); strategy == "None" {
		unstructured.RemoveNestedField(o, "spec", "conversion")
	}
}
