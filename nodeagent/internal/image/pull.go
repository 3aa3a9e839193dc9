// Package image brings images to the node: pulled with secrets, policies and
// back-off, or imported from an air-gap folder.
package image

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/distribution/reference"
	"github.com/prometheus/client_golang/prometheus"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
	"k8s.io/utils/clock"

	"howdah.dev/nodeagent/internal/container"
	"howdah.dev/nodeagent/internal/credential"
	"howdah.dev/nodeagent/internal/verify"
)

// pullTimeout bounds one pull. The runtime gives up much earlier on a pull
// that makes no progress.
const pullTimeout = 30 * time.Minute

// Back-off after failed pulls.
const (
	backoffBase = 10 * time.Second
	backoffMax  = 5 * time.Minute
)

// Secrets reads pull secrets.
type Secrets interface {
	Secret(ctx context.Context, namespace, name string) (*corev1.Secret, error)
}

// Events tells people of a pod's pulls; container is empty for a volume's.
type Events interface {
	Event(pod *corev1.Pod, container, kind, reason, message string)
}

// Records know with whose credentials the images of the node were pulled.
type Records interface {
	Begin(name, was string) error
	Came(name, id string, s verify.Source)
	Failed(name string)
	Lost(name string)
	May(ask verify.Ask) (bool, error)
	Would(ask verify.Ask) bool
}

// Providers have logins for images that all pods of the node may use; image is a full name without tag and digest.
type Providers interface {
	Logins(ctx context.Context, image string) []credential.Login
}

// PullerConfig is what a Puller needs; all of it but Providers and Registerer is required.
type PullerConfig struct {
	Images     runtimeapi.ImageServiceClient
	Secrets    Secrets
	Providers  Providers
	Records    Records
	Events     Events
	Clock      clock.PassiveClock
	Registerer prometheus.Registerer
	// Parallel is how many images are pulled at a time; 0 is no limit.
	Parallel int
}

// Puller makes sure that images are there.
type Puller struct {
	images    runtimeapi.ImageServiceClient
	secrets   Secrets
	providers Providers
	records   Records
	events    Events
	clock     clock.PassiveClock
	ensured   *prometheus.CounterVec
	seconds   *prometheus.HistogramVec
	slots     chan struct{} // one is taken for each pull; nil is no limit

	mu      sync.Mutex
	flights map[string]*flight
	failed  map[failKey]failure
}

type failKey struct {
	pod   types.UID
	image string
}

type failure struct {
	delay time.Duration
	at    time.Time
	err   error
}

// NewPuller returns a Puller.
func NewPuller(cfg PullerConfig) *Puller {
	p := &Puller{
		images: cfg.Images, secrets: cfg.Secrets, providers: cfg.Providers, records: cfg.Records, events: cfg.Events, clock: cfg.Clock,
		flights: map[string]*flight{}, failed: map[failKey]failure{},
		ensured: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "kubelet_image_manager_ensure_image_requests_total",
			Help: "Images that pods needed, by their policy, whether the image was on the node, and whether it had to be pulled.",
		}, []string{"pull_policy", "present_locally", "pull_required"}),
	}
	if cfg.Parallel > 0 {
		p.slots = make(chan struct{}, cfg.Parallel)
	}
	p.seconds = prometheus.NewHistogramVec(prometheus.HistogramOpts{
		Name: "kubelet_image_pull_duration_seconds", Help: "How long pulls took that succeeded, waiting included, by the size of the image.",
		Buckets: []float64{1, 5, 10, 20, 30, 60, 120, 180, 240, 300, 360, 480, 600, 900, 1200, 1800, 2700, 3600},
	}, []string{"image_size_in_bytes"})
	if cfg.Registerer != nil {
		cfg.Registerer.MustRegister(p.ensured, p.seconds)
	}
	return p
}

// Problem is why an image is not there, in the words of a waiting container.
type Problem struct {
	Reason, Message string
	Until           time.Time // nothing is tried before
}

func (p *Problem) Error() string { return p.Reason + ": " + p.Message }

// Image is an image that is there.
type Image struct {
	ID   string // by which the runtime knows it
	User container.ImageUser
	// Pulled says that it was not there, or not to be taken as it was.
	Pulled bool
}

// Want is an image that a pod needs: for a container, or for a volume.
type Want struct {
	Reference string
	Policy    corev1.PullPolicy // empty is the default, which depends on the tag
	Container string            // whose image it is; empty for a volume's
}

// ForContainer returns what a container wants.
func ForContainer(c *corev1.Container) Want { return Want{c.Image, c.ImagePullPolicy, c.Name} }

// ForVolume returns what an image volume wants.
func ForVolume(v *corev1.ImageVolumeSource) Want {
	return Want{Reference: v.Reference, Policy: v.PullPolicy}
}

// Ensure makes sure that an image is there, by its policy. The error is a
// *Problem, or that of a context that ended.
func (p *Puller) Ensure(ctx context.Context, pod *corev1.Pod, w Want) (Image, error) {
	name, err := Normalize(w.Reference)
	if err != nil {
		message := fmt.Sprintf("Failed to apply default image tag %q: couldn't parse image name %q: %v", w.Reference, w.Reference, err)
		p.events.Event(pod, w.Container, corev1.EventTypeWarning, "InspectFailed", message)
		return Image{}, &Problem{"InvalidImageName", message, p.clock.Now().Add(backoffMax)}
	}
	policy := policyOf(w.Policy, name)
	here, required := "unknown", "unknown" // the labels of the metric
	defer func() { p.ensured.WithLabelValues(strings.ToLower(string(policy)), here, required).Inc() }()
	logins := p.loginsOnce(ctx, pod, name)
	if policy == corev1.PullAlways {
		required = "true"
		return p.pull(ctx, pod, w, name, logins)
	}
	present, err := p.status(ctx, name)
	if err != nil {
		message := fmt.Sprintf("Failed to inspect image %q: %v", w.Reference, err)
		p.events.Event(pod, w.Container, corev1.EventTypeWarning, "InspectFailed", message)
		return Image{}, &Problem{"ImageInspectError", message, p.clock.Now().Add(backoffBase)}
	}
	here = strconv.FormatBool(present != nil)
	if present != nil {
		may, err := p.records.May(ask(w, name, present, logins))
		if err != nil {
			if ctx.Err() != nil {
				return Image{}, err
			}
			p.events.Event(pod, w.Container, corev1.EventTypeWarning, "Failed", fmt.Sprintf("Failed to find out whether image %q can be used: %v", w.Reference, err))
			return Image{}, &Problem{"ErrImagePull", err.Error(), p.clock.Now().Add(backoffBase)}
		}
		required = strconv.FormatBool(!may)
		if may {
			p.events.Event(pod, w.Container, corev1.EventTypeNormal, "Pulled",
				fmt.Sprintf("Container image %q already present on machine and can be accessed by the pod", w.Reference))
			return found(present), nil
		}
	}
	if policy == corev1.PullNever {
		// An image that the pod may not use is, to it, one that is not there.
		message := fmt.Sprintf("Container image %q is not present with pull policy of Never", w.Reference)
		p.events.Event(pod, w.Container, corev1.EventTypeWarning, "ErrImageNeverPull", message)
		return Image{}, &Problem{"ErrImageNeverPull", message, p.clock.Now().Add(backoffBase)}
	}
	required = "true"
	return p.pull(ctx, pod, w, name, logins)
}

// Present reports whether Ensure needs nothing from a registry: the image is there, the pod may use it, and by its policy that is enough.
func (p *Puller) Present(ctx context.Context, pod *corev1.Pod, w Want) bool {
	name, err := Normalize(w.Reference)
	if err != nil || policyOf(w.Policy, name) == corev1.PullAlways {
		return false
	}
	present, err := p.status(ctx, name)
	return err == nil && present != nil && p.records.Would(ask(w, name, present, p.loginsOnce(ctx, pod, name)))
}

// ask is the question whether a pod with these logins may use an image that is there.
func ask(w Want, name string, present *runtimeapi.Image, logins func() ([]login, error)) verify.Ask {
	return verify.Ask{Written: w.Reference, Name: name, ID: present.GetId(), Sources: func() ([]verify.Source, error) {
		all, err := logins()
		var out []verify.Source
		for _, l := range all {
			out = append(out, l.source)
		}
		return out, err
	}}
}

func (p *Puller) pull(ctx context.Context, pod *corev1.Pod, w Want, name string, logins func() ([]login, error)) (Image, error) {
	key := failKey{pod.UID, w.Reference}
	now := p.clock.Now()
	p.mu.Lock()
	last := p.failed[key]
	p.mu.Unlock()
	if until := last.at.Add(last.delay); until.After(now) {
		message := fmt.Sprintf("Back-off pulling image %q", w.Reference)
		p.events.Event(pod, w.Container, corev1.EventTypeNormal, "BackOff", message)
		return Image{}, &Problem{"ImagePullBackOff", fmt.Sprintf("%s: ErrImagePull: %v", message, last.err), until}
	}
	p.events.Event(pod, w.Container, corev1.EventTypeNormal, "Pulling", fmt.Sprintf("Pulling image %q", w.Reference))
	got, err := p.fetch(ctx, name, logins)
	if err != nil {
		if ctx.Err() != nil {
			return Image{}, err
		}
		err = said(err)
		delay := min(max(2*last.delay, backoffBase), backoffMax)
		p.mu.Lock()
		p.failed[key] = failure{delay, p.clock.Now(), err}
		p.mu.Unlock()
		p.events.Event(pod, w.Container, corev1.EventTypeWarning, "Failed", fmt.Sprintf("Failed to pull image %q: %v", w.Reference, err))
		// The error shows for a moment; the next round says that it backs off.
		return Image{}, &Problem{"ErrImagePull", err.Error(), p.clock.Now().Add(time.Second)}
	}
	p.mu.Lock()
	delete(p.failed, key)
	p.mu.Unlock()
	took := p.clock.Since(now).Truncate(time.Millisecond)
	p.seconds.WithLabelValues(sizeClass(got.image.GetSize())).Observe(took.Seconds())
	p.events.Event(pod, w.Container, corev1.EventTypeNormal, "Pulled",
		fmt.Sprintf("Successfully pulled image %q in %v (%v including waiting). Image size: %d bytes.", w.Reference,
			max(took-got.waited, 0).Truncate(time.Millisecond), took, got.image.GetSize()))
	out := found(got.image)
	out.Pulled = true
	return out, nil
}

// pulled is an image that has come.
type pulled struct {
	image *runtimeapi.Image
	// waited is how long others were pulled before it.
	waited time.Duration
}

// fetch pulls with each of the matching logins in turn, the pod's own before the node's, then without.
func (p *Puller) fetch(ctx context.Context, name string, logins func() ([]login, error)) (pulled, error) {
	own, err := logins()
	if err != nil {
		return pulled{}, err
	}
	all := slices.Concat(own, p.nodeLogins(ctx, name))
	var problems []error
	for i := range len(all) + 1 {
		var got pulled
		var err error
		if i < len(all) {
			got, err = p.request(ctx, name, all[i].auth, all[i].source)
		} else {
			got, err = p.share(ctx, name)
		}
		if err == nil || ctx.Err() != nil {
			return got, err
		}
		problems = append(problems, err)
	}
	return pulled{}, problems[0]
}

// flight is a pull that several pods may wait for.
type flight struct {
	done chan struct{}
	got  pulled
	err  error
}

// share pulls an image once for all that ask without a login of their own.
func (p *Puller) share(ctx context.Context, name string) (pulled, error) {
	p.mu.Lock()
	f, running := p.flights[name]
	if !running {
		f = &flight{done: make(chan struct{})}
		p.flights[name] = f
	}
	p.mu.Unlock()
	if !running {
		// Detached from the pod that came first: others wait for it too.
		go func() {
			f.got, f.err = p.request(context.WithoutCancel(ctx), name, nil, verify.Source{})
			p.mu.Lock()
			delete(p.flights, name)
			p.mu.Unlock()
			close(f.done)
		}()
	}
	select {
	case <-f.done:
		return f.got, f.err
	case <-ctx.Done():
		return pulled{}, ctx.Err()
	}
}

// turn waits until a pull may begin, and returns what ends it.
func (p *Puller) turn(ctx context.Context) (end func(), err error) {
	if p.slots == nil {
		return func() {}, nil
	}
	select {
	case p.slots <- struct{}{}:
		return func() { <-p.slots }, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// request pulls an image and has it recorded, before and after, whose login it was.
func (p *Puller) request(ctx context.Context, name string, auth *runtimeapi.AuthConfig, source verify.Source) (pulled, error) {
	began := p.clock.Now()
	end, err := p.turn(ctx)
	if err != nil {
		return pulled{}, err
	}
	defer end()
	waited := p.clock.Since(began)
	before, err := p.status(ctx, name)
	if err != nil {
		return pulled{}, err
	}
	if err := p.records.Begin(name, before.GetId()); err != nil {
		return pulled{}, err
	}
	pullCtx, cancel := context.WithTimeout(ctx, pullTimeout)
	defer cancel()
	answer, err := p.images.PullImage(pullCtx, &runtimeapi.PullImageRequest{Image: &runtimeapi.ImageSpec{Image: name}, Auth: auth})
	if err != nil {
		if unknown(err) {
			p.records.Lost(name)
		} else {
			p.records.Failed(name)
		}
		return pulled{}, err
	}
	// Not by its name: another pull, with another login, may have given that to another image since.
	image, err := p.status(context.WithoutCancel(ctx), cmp.Or(answer.GetImageRef(), name))
	switch {
	case err != nil:
		p.records.Lost(name)
		return pulled{}, err
	case image == nil:
		p.records.Failed(name)
		return pulled{}, errors.New("the image is gone right after its pull")
	}
	p.records.Came(name, image.GetId(), source)
	return pulled{image, waited}, nil
}

// unknown reports whether an error leaves open what becomes of the call: whoever made it has stopped waiting, or lost the runtime.
func unknown(err error) bool {
	switch status.Code(err) {
	case codes.Canceled, codes.DeadlineExceeded, codes.Unavailable:
		return true
	}
	return errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded)
}

// status returns the image, nil where it is not on the node.
func (p *Puller) status(ctx context.Context, name string) (*runtimeapi.Image, error) {
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	resp, err := p.images.ImageStatus(ctx, &runtimeapi.ImageStatusRequest{Image: &runtimeapi.ImageSpec{Image: name}})
	if err != nil {
		return nil, plain(err)
	}
	return resp.GetImage(), nil
}

// Forget drops what is remembered of a pod.
func (p *Puller) Forget(pod types.UID) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for key := range p.failed {
		if key.pod == pod {
			delete(p.failed, key)
		}
	}
}

func found(image *runtimeapi.Image) Image {
	return Image{ID: image.GetId(), User: container.ParseImageUser(image.GetUid(), image.GetUsername())}
}

// Normalize returns the full name of an image, with its registry and tag.
func Normalize(name string) (string, error) {
	named, err := reference.ParseNormalizedNamed(name)
	if err != nil {
		return "", err
	}
	return reference.TagNameOnly(named).String(), nil
}

// policyOf returns the pull policy; one that is not set depends on the tag.
func policyOf(set corev1.PullPolicy, name string) corev1.PullPolicy {
	if set != "" {
		return set
	}
	named, err := reference.ParseNormalizedNamed(name)
	if tagged, ok := named.(reference.Tagged); err == nil && ok && tagged.Tag() == "latest" {
		return corev1.PullAlways
	}
	return corev1.PullIfNotPresent
}
