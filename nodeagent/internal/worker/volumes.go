package worker

import (
	"context"
	"errors"

	corev1 "k8s.io/api/core/v1"

	"howdah.dev/kit/obs"
	"howdah.dev/nodeagent/internal/container"
	"howdah.dev/nodeagent/internal/image"
	"howdah.dev/nodeagent/internal/pod"
	"howdah.dev/nodeagent/internal/volume"
)

// mountable is what the containers of one round may have, by the name of the volume.
type mountable struct {
	paths    container.Volumes                // on the node
	images   map[string]container.VolumeImage // that the runtime mounts
	problems map[string]*image.Problem        // why images are not there
}

func (w *worker) setupVolumes(ctx context.Context, p *corev1.Pod, s *corev1.PodStatus) (container.Volumes, bool) {
	spanCtx, span := w.tracer.start("volumes")
	paths, err := w.cfg.Volumes.Setup(join(ctx, spanCtx), p, s)
	obs.End(span, err)
	if err != nil {
		if ctx.Err() == nil {
			if why, ok := volume.Refusal(err); ok { // its owner makes another, for which the scheduler looks for a node that has room
				w.refuse(p, &pod.Failure{Reason: "VolumeAttachmentLimitExceeded", Message: why, Rejected: true})
				return container.Volumes{}, false
			}
			reason := volume.Reason(err)
			w.cfg.Events.Event(p, "", corev1.EventTypeWarning, reason, err.Error())
			w.memory.Volumes = w.later(w.memory.Volumes, reason, err)
		}
		return container.Volumes{}, false
	}
	w.memory.Volumes = pod.Trouble{}
	return paths, true
}

// pullVolumes adds the images of the pod's volumes, each asked for once before containers start, whether they mount it or not. An image that is not
// there is a trouble of the containers that mount it. It reports whether it came to the end: false is an interruption.
func (w *worker) pullVolumes(ctx context.Context, p *corev1.Pod, m *mountable) bool {
	m.images, m.problems = map[string]container.VolumeImage{}, map[string]*image.Problem{}
	for i := range p.Spec.Volumes {
		v := &p.Spec.Volumes[i]
		if v.Image == nil {
			continue
		}
		spanCtx, span := w.tracer.start("volume image pull")
		picture, err := w.ensure(join(ctx, spanCtx), p, image.ForVolume(v.Image))
		obs.End(span, err)
		if problem, ok := errors.AsType[*image.Problem](err); ok {
			m.problems[v.Name] = problem
		} else if err != nil {
			return false
		} else {
			m.images[v.Name] = container.VolumeImage{ID: picture.ID, Reference: v.Image.Reference}
		}
	}
	return true
}

// ensure makes sure that an image is there, and notes how long a pull of it has taken.
func (w *worker) ensure(ctx context.Context, p *corev1.Pod, want image.Want) (image.Image, error) {
	began := w.cfg.Clock.Now()
	picture, err := w.cfg.Images.Ensure(ctx, p, want)
	problem, failed := errors.AsType[*image.Problem](err)
	if picture.Pulled || failed && problem.Reason == "ErrImagePull" {
		w.cfg.Metrics.pulled(p.UID, w.cfg.Clock.Since(began))
	}
	return picture, err
}

// missingImage reports whether a container cannot have an image that it mounts, and tells why.
func (w *worker) missingImage(p *corev1.Pod, c *corev1.Container, m mountable) bool {
	missing := false
	for i := range c.VolumeMounts {
		if problem := m.problems[c.VolumeMounts[i].Name]; problem != nil {
			w.imageFailed(p, c, problem)
			missing = true
		}
	}
	return missing
}

// imageFailed tells that a container does not start without an image.
func (w *worker) imageFailed(p *corev1.Pod, c *corev1.Container, problem *image.Problem) {
	w.cfg.Events.Event(p, c.Name, corev1.EventTypeWarning, "Failed", "Error: "+problem.Reason)
	w.memory.Trouble[c.Name] = pod.Trouble{Reason: problem.Reason, Message: problem.Message, Until: problem.Until}
}
