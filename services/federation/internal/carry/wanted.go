package carry

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"

	jsonpatch "gopkg.in/evanphx/json-patch.v4"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	utiljson "k8s.io/apimachinery/pkg/util/json"

	"howdah.dev/services/federation/api"
	"howdah.dev/services/federation/internal/place"
)

// Input is what an object in a member is made of.
type Input struct {
	Template *unstructured.Unstructured
	Cluster  *api.Cluster
	// Replicas are the cluster's share; nil leaves the template's.
	Replicas *int32
	// Policy is the one that is followed; nil for what goes along with others.
	Policy *api.PolicySpec
	// Federation is the uid of who carries.
	Federation string
}

// Wanted returns the object as it is applied in the member.
func Wanted(in Input) (*unstructured.Unstructured, error) {
	o := strip(in.Template)
	if in.Replicas != nil {
		if err := unstructured.SetNestedField(o.Object, int64(*in.Replicas), "spec", "replicas"); err != nil {
			return nil, fmt.Errorf("set the replicas: %w", err)
		}
	}
	if in.Policy != nil {
		var err error
		if o, err = override(o, in.Cluster, in.Policy.Overrides); err != nil {
			return nil, err
		}
	}
	labels, annotations := o.GetLabels(), o.GetAnnotations()
	if labels == nil {
		labels = map[string]string{}
	}
	if annotations == nil {
		annotations = map[string]string{}
	}
	labels[api.ManagedLabel] = "true"
	annotations[api.FederationAnnotation] = in.Federation
	if in.Policy != nil && in.Policy.PreserveOnDeletion {
		annotations[api.PreserveAnnotation] = "true"
	}
	o.SetLabels(labels)
	o.SetAnnotations(annotations)
	hash, err := digest(o)
	if err != nil {
		return nil, err
	}
	annotations[api.HashAnnotation] = hash
	annotations[api.GenerationAnnotation] = strconv.FormatInt(in.Template.GetGeneration(), 10)
	o.SetAnnotations(annotations)
	return o, nil
}

// digest is of all but the replicas, which a member may own.
func digest(o *unstructured.Unstructured) (string, error) {
	copied := o.DeepCopy()
	unstructured.RemoveNestedField(copied.Object, "spec", "replicas")
	data, err := json.Marshal(copied.Object) // with sorted keys
	if err != nil {
		return "", err
	}
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:8]), nil
}

// override applies the patches whose targets select the cluster, in order.
func override(o *unstructured.Unstructured, cluster *api.Cluster, overrides []api.Override) (*unstructured.Unstructured, error) {
	for i, over := range overrides {
		if !place.Selects(over.ClusterTarget, cluster) || !concerns(over, o) {
			continue
		}
		patch, err := decode(over.Patches)
		if err != nil {
			return nil, fmt.Errorf("override %d: %w", i, err)
		}
		data, err := json.Marshal(o.Object)
		if err != nil {
			return nil, err
		}
		if data, err = patch.Apply(data); err != nil {
			return nil, fmt.Errorf("override %d: %w", i, err)
		}
		next := &unstructured.Unstructured{}
		if err := utiljson.Unmarshal(data, &next.Object); err != nil {
			return nil, fmt.Errorf("override %d: %w", i, err)
		}
		if next.GroupVersionKind() != o.GroupVersionKind() || next.GetNamespace() != o.GetNamespace() || next.GetName() != o.GetName() {
			return nil, fmt.Errorf("override %d makes another object of it", i)
		}
		o = next
	}
	return o, nil
}

// concerns reports whether an override is for the object.
func concerns(over api.Override, o *unstructured.Unstructured) bool {
	return len(over.Resources) == 0 || slices.ContainsFunc(over.Resources, func(r api.OverriddenResource) bool {
		return r.Kind == o.GetKind() && (r.Name == "" || r.Name == o.GetName())
	})
}

// decode makes a patch that can be applied of patches.
func decode(patches []api.Patch) (jsonpatch.Patch, error) {
	for i, p := range patches {
		if (p.Op == "remove") != (p.Value == nil) {
			return nil, fmt.Errorf("patch %d: add and replace have a value, and remove has none", i)
		}
	}
	data, err := json.Marshal(patches)
	if err != nil {
		return nil, err
	}
	return jsonpatch.DecodePatch(data)
}

// CheckOverrides says what of overrides makes no sense.
func CheckOverrides(overrides []api.Override) error {
	for i, over := range overrides {
		if _, err := decode(over.Patches); err != nil {
			return fmt.Errorf("override %d: %w", i, err)
		}
	}
	return nil
}
