package nodestatus

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"howdah.dev/nodeagent/internal/cri"
)

const (
	// askTimeout is how long a report waits for the runtime's answer: that it hangs has to be told, too.
	askTimeout = 5 * time.Second
	// answerTimeout is how long the runtime has for its answer, as from a kubelet: what comes late says that it lives.
	answerTimeout = 2 * time.Minute
	// patience is for how long a node without its runtime's answers stays ready, as with a kubelet. One that is started anew is away for some
	// seconds, and its containers run on.
	patience = 30 * time.Second
)

// engine is what the container runtime last said of itself.
type engine struct {
	version string // "containerd://2.1.0"
	status  *runtimeapi.StatusResponse
	images  []corev1.ContainerImage
	at      time.Time // of its last answer
	err     error     // why the last question had none
}

var errSilent = errors.New("it has not answered yet")

// question is one that a runtime is asked.
type question struct {
	answered chan struct{} // closed once the rest is there
	answer   engine
	at       time.Time
}

// inquire asks a runtime. Its images are nil where it did not list them.
func inquire(ctx context.Context, client *cri.Client, images int) (e engine) {
	ctx, cancel := context.WithTimeout(ctx, answerTimeout)
	defer cancel()
	version, err := client.Runtime.Version(ctx, &runtimeapi.VersionRequest{})
	if err != nil {
		return engine{err: err}
	}
	if e.status, err = client.Runtime.Status(ctx, &runtimeapi.StatusRequest{}); err != nil {
		return engine{err: err}
	}
	e.version = version.GetRuntimeName() + "://" + strings.TrimPrefix(version.GetRuntimeVersion(), "v")
	listing, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	if all, err := client.Images.ListImages(listing, &runtimeapi.ListImagesRequest{}); err == nil {
		e.images = list(all.GetImages(), images)
	}
	return e
}

// then is what is known after another question, asked at now: a runtime that does not answer is what it was.
func (e engine) then(next engine, now time.Time) engine {
	if next.err != nil {
		e.err = next.err
		return e
	}
	next.at = now
	if next.images == nil {
		next.images = e.images
	}
	return next
}

// say says of a node what is known of its runtime.
func (e engine) say(s *corev1.NodeStatus) {
	if e.status == nil {
		return
	}
	s.NodeInfo.ContainerRuntimeVersion = e.version
	if e.images != nil {
		s.Images = e.images
	}
	s.RuntimeHandlers, s.Features = handlers(e.status.GetRuntimeHandlers()), nil
	if f := e.status.GetFeatures(); f != nil {
		groups := f.GetSupplementalGroupsPolicy()
		s.Features = &corev1.NodeFeatures{SupplementalGroupsPolicy: &groups}
	}
}

// problems says why the runtime cannot run pods.
func (e engine) problems(now time.Time) []string {
	if e.err != nil && now.Sub(e.at) >= patience {
		return []string{"container runtime is down: " + e.err.Error()}
	}
	var problems []string
	for _, c := range e.status.GetStatus().GetConditions() {
		if c.GetStatus() {
			continue
		}
		what := "container runtime not ready"
		if c.GetType() == runtimeapi.NetworkReady {
			what = "container runtime network not ready"
		} else if c.GetType() != runtimeapi.RuntimeReady {
			continue
		}
		problems = append(problems, fmt.Sprintf("%s: %s=false reason:%s message:%s", what, c.GetType(), c.GetReason(), c.GetMessage()))
	}
	return problems
}

// handlers describes the runtime's ways to run a pod, the default one without a name among them.
func handlers(all []*runtimeapi.RuntimeHandler) []corev1.NodeRuntimeHandler {
	var out []corev1.NodeRuntimeHandler
	for _, h := range all {
		recursive, users := h.GetFeatures().GetRecursiveReadOnlyMounts(), h.GetFeatures().GetUserNamespaces()
		out = append(out, corev1.NodeRuntimeHandler{
			Name: h.GetName(), Features: &corev1.NodeRuntimeHandlerFeatures{RecursiveReadOnlyMounts: &recursive, UserNamespaces: &users},
		})
	}
	slices.SortFunc(out, func(a, b corev1.NodeRuntimeHandler) int { return strings.Compare(a.Name, b.Name) })
	return out
}

// list names the largest images, which are the most worth knowing of: so many at most, or all where that is negative.
func list(images []*runtimeapi.Image, most int) []corev1.ContainerImage {
	slices.SortFunc(images, func(a, b *runtimeapi.Image) int {
		if a.GetSize() != b.GetSize() {
			return int(int64(b.GetSize()) - int64(a.GetSize()))
		}
		if a.GetId() < b.GetId() {
			return -1
		}
		return 1
	})
	if most >= 0 {
		images = images[:min(len(images), most)]
	}
	out := []corev1.ContainerImage{}
	for _, image := range images {
		names := append(slices.Clone(image.GetRepoDigests()), image.GetRepoTags()...)
		slices.Sort(names)
		if len(names) == 0 {
			continue
		}
		out = append(out, corev1.ContainerImage{Names: names[:min(len(names), 5)], SizeBytes: int64(image.GetSize())})
	}
	return out
}
