// Package manifest reads the pods that a node runs without being asked by the API: from files, and from a URL.
package manifest

import (
	"bufio"
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	serializer "k8s.io/apimachinery/pkg/runtime/serializer/json"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation/field"
	yamlreader "k8s.io/apimachinery/pkg/util/yaml"
	"sigs.k8s.io/yaml"

	"howdah.dev/kit/object"
	"howdah.dev/kit/podspec"
	"howdah.dev/nodeagent/internal/pod"
)

// largest is how long a manifest may be.
const largest = 10 << 20

// Names of the sources, as the annotation tells them.
const (
	File = "file"
	HTTP = "http"
)

// Origin is where a manifest comes from.
type Origin struct {
	Source string // File or HTTP
	Place  string // the path, or the URL
	Node   string
	Seen   time.Time
}

// Read returns the pod that a manifest holds, or the pods of a list where the source may tell of many. They are complete and valid, as the
// API server would have made them: nobody else looks at them before they run.
func Read(data []byte, o Origin) ([]*corev1.Pod, error) {
	text, err := document(data)
	if err != nil {
		return nil, err
	}
	var kind metav1.TypeMeta
	if err := json.Unmarshal(text, &kind); err != nil {
		return nil, err
	}
	raw := []json.RawMessage{text}
	if o.Source == HTTP && kind.APIVersion == "v1" && (kind.Kind == "PodList" || kind.Kind == "List") {
		var list struct{ Items []json.RawMessage }
		if err := json.Unmarshal(text, &list); err != nil {
			return nil, err
		}
		raw = list.Items
	} else if kind.APIVersion != "v1" || kind.Kind != "Pod" {
		return nil, fmt.Errorf("it holds %q of %q, not a Pod of v1", kind.Kind, kind.APIVersion)
	}
	pods := make([]*corev1.Pod, 0, len(raw))
	names := map[types.NamespacedName]bool{}
	for _, one := range raw {
		p, err := read(one, o)
		if err != nil {
			return nil, err
		}
		name := types.NamespacedName{Namespace: p.Namespace, Name: p.Name}
		if names[name] {
			return nil, fmt.Errorf("it has pod %s twice", name)
		}
		names[name] = true
		pods = append(pods, p)
	}
	return pods, nil
}

// document returns the one document of a manifest, as JSON.
func document(data []byte) ([]byte, error) {
	if len(data) > largest {
		return nil, fmt.Errorf("it is longer than %d bytes", largest)
	}
	var found []byte
	for reader := yamlreader.NewYAMLReader(bufio.NewReader(bytes.NewReader(data))); ; {
		part, err := reader.Read()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return nil, err
		}
		text, err := yaml.YAMLToJSON(part)
		switch {
		case err != nil:
			return nil, err
		case string(text) == "null": // comments
		case found != nil:
			return nil, errors.New("it has more than one document")
		default:
			found = text
		}
	}
	if found == nil {
		return nil, errors.New("it is empty")
	}
	return found, nil
}

var decoder = serializer.NewSerializerWithOptions(serializer.DefaultMetaFactory, object.Scheme, object.Scheme, serializer.SerializerOptions{})

func read(text []byte, o Origin) (*corev1.Pod, error) {
	p := &corev1.Pod{}
	gvk := object.Pod.GVK
	got, _, err := decoder.Decode(text, &gvk, p)
	if err != nil {
		return nil, err
	}
	if got != runtime.Object(p) {
		return nil, fmt.Errorf("it holds a %T, not a pod", got)
	}
	hash, err := hashOf(text, o)
	if err != nil {
		return nil, err
	}
	complete(p, hash, o)
	return p, check(p)
}

// hashOf is the pod's identity: another manifest, or the same elsewhere, is another pod. White space and comments make no difference, and
// neither does a release of the agent that knows more fields.
func hashOf(text []byte, o Origin) (string, error) {
	var content any
	numbers := json.NewDecoder(bytes.NewReader(text))
	numbers.UseNumber()
	if err := numbers.Decode(&content); err != nil {
		return "", err
	}
	canonical, err := json.Marshal(content)
	if err != nil {
		return "", err
	}
	h := sha256.New()
	fmt.Fprintf(h, "%s\x00%s\x00%s\x00", o.Source, o.Place, o.Node)
	h.Write(canonical)
	return hex.EncodeToString(h.Sum(nil)[:16]), nil
}

// complete makes of what a manifest says the pod that this node runs.
func complete(p *corev1.Pod, hash string, o Origin) {
	annotations := map[string]string{}
	for k, v := range p.Annotations {
		annotations[k] = v
	}
	delete(annotations, pod.MirrorAnnotation)
	annotations[pod.SourceAnnotation] = o.Source
	annotations[pod.HashAnnotation] = hash
	annotations[pod.SeenAnnotation] = o.Seen.UTC().Format(time.RFC3339Nano)
	name := p.Name
	if name != "" { // without one it is refused for that
		name += "-" + strings.ToLower(o.Node)
	}
	p.ObjectMeta = metav1.ObjectMeta{
		Name: name, Namespace: p.Namespace, UID: types.UID(hash), Labels: p.Labels, Annotations: annotations,
	}
	if p.Namespace == "" {
		p.Namespace = metav1.NamespaceDefault
	}
	p.Spec.NodeName = o.Node
	// It ends with its manifest, not because of what is wrong with the node.
	stays := corev1.Toleration{Operator: corev1.TolerationOpExists, Effect: corev1.TaintEffectNoExecute}
	if !slices.Contains(p.Spec.Tolerations, stays) {
		p.Spec.Tolerations = append(p.Spec.Tolerations, stays)
	}
	podspec.DefaultPod(&p.Spec)
	podspec.AppArmorFields(&p.ObjectMeta, &p.Spec)
	p.Status = corev1.PodStatus{Phase: corev1.PodPending}
}

// check refuses what the API server would, and what refers to it: the pod is to run without.
func check(p *corev1.Pod) error {
	errs := apivalidation.ValidateObjectMeta(&p.ObjectMeta, true, apivalidation.NameIsDNSSubdomain, field.NewPath("metadata"))
	errs = append(errs, podspec.ValidatePod(&p.Spec, &p.ObjectMeta, field.NewPath("spec"))...)
	errs = append(errs, podspec.ValidatePodCreate(&p.Spec, &p.ObjectMeta, field.NewPath("spec"))...)
	if err := errs.ToAggregate(); err != nil {
		return fmt.Errorf("invalid pod: %w", err)
	}
	if what := referred(&p.Spec); what != "" {
		return fmt.Errorf("static pods may not reference %s", what)
	}
	return nil
}

// referred names the first sort of API object without which the pod would not start, "" where there is none.
func referred(spec *corev1.PodSpec) string {
	if what := podspec.Referred(spec); what != "" {
		return what
	}
	for _, v := range spec.Volumes {
		if v.Ephemeral != nil {
			return "persistentvolumeclaims"
		}
		if v.Projected != nil && slices.ContainsFunc(v.Projected.Sources, func(s corev1.VolumeProjection) bool { return s.ServiceAccountToken != nil }) {
			return "a service account"
		}
	}
	return ""
}
