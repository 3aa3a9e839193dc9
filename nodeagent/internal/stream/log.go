package stream

import (
	"context"
	"fmt"
	"io"
	"net/url"
	"path/filepath"
	"strconv"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"howdah.dev/nodeagent/internal/container"
	"howdah.dev/nodeagent/internal/cri"
	"howdah.dev/nodeagent/internal/logs"
	podspec "howdah.dev/nodeagent/internal/pod"
	apiv1 "howdah.dev/proto/gen/howdah/api/v1"
)

func (s *Server) log(ctx context.Context, c *conn, pod *corev1.Pod, query url.Values) error {
	write, err := s.Log(ctx, pod, query)
	if err != nil {
		return err
	}
	if err := c.accept(0, &apiv1.Header{Name: "Content-Type", Value: "text/plain"}); err != nil {
		return err
	}
	return write(ctx, channel{c, stdout})
}

// Log opens a container's log as the query of a pod's log asks for it. write copies it, and returns at its end, or that of its context.
func (s *Server) Log(ctx context.Context, pod *corev1.Pod, query url.Values) (write func(ctx context.Context, to io.Writer) error, err error) {
	options, err := logOptions(query, s.cfg.Clock.Now())
	if err != nil {
		return nil, err
	}
	name, err := containerOf(pod, query)
	if err != nil {
		return nil, err
	}
	previous, _ := strconv.ParseBool(query.Get("previous"))
	run, err := s.loggedRun(ctx, pod, name, previous)
	if err != nil {
		return nil, err
	}
	path := run.LogPath
	if path == "" {
		path = filepath.Join(container.LogDirectory(s.cfg.LogDir, pod.Namespace, pod.Name, string(pod.UID)), name, strconv.Itoa(int(run.Attempt))+".log")
	}
	alive := func(ctx context.Context) bool {
		observed, err := s.observer.Observe(ctx, pod.UID)
		if err != nil {
			return true // not known; asked again
		}
		for i := range observed.Containers {
			if observed.Containers[i].ID == run.ID {
				return observed.Containers[i].State == cri.Running
			}
		}
		return false
	}
	return func(ctx context.Context, to io.Writer) error { return s.cfg.Logs.Read(ctx, path, options, to, alive) }, nil
}

// loggedRun returns the run whose log is asked for: the newest, or the one before.
func (s *Server) loggedRun(ctx context.Context, pod *corev1.Pod, name string, previous bool) (*cri.Container, error) {
	observed, err := s.observer.Observe(ctx, pod.UID)
	if err != nil {
		return nil, err
	}
	runs := observed.Runs(name)
	if previous {
		// A container that waits for its restart has ended before: that run is the previous one.
		if len(runs) > 0 && runs[0].State == cri.Exited && waits(pod, name) {
			return runs[0], nil
		}
		if len(runs) < 2 {
			return nil, apierrors.NewBadRequest(fmt.Sprintf("previous terminated container %q in pod %q not found", name, pod.Name))
		}
		return runs[1], nil
	}
	if len(runs) == 0 || runs[0].State == cri.Created {
		return nil, apierrors.NewBadRequest(fmt.Sprintf("container %q in pod %q is waiting to start: %s", name, pod.Name, waitingReason(pod, name)))
	}
	return runs[0], nil
}

func waits(pod *corev1.Pod, name string) bool {
	told := podspec.ToldStatus(pod, name)
	return told != nil && told.State.Waiting != nil
}

func waitingReason(pod *corev1.Pod, name string) string {
	told := podspec.ToldStatus(pod, name)
	if told == nil || told.State.Waiting == nil {
		return "ContainerCreating"
	}
	switch reason := told.State.Waiting.Reason; reason {
	case "ImagePullBackOff", "ErrImagePull", "ErrImageNeverPull":
		return "trying and failing to pull image"
	case "InvalidImageName":
		return "image can't be pulled"
	default:
		return reason
	}
}

func logOptions(query url.Values, now time.Time) (logs.Options, error) {
	var o logs.Options
	o.Follow, _ = strconv.ParseBool(query.Get("follow"))
	o.Timestamps, _ = strconv.ParseBool(query.Get("timestamps"))
	o.Stream = query.Get("stream")
	number := func(name string) (*int64, error) {
		text := query.Get(name)
		if text == "" {
			return nil, nil
		}
		n, err := strconv.ParseInt(text, 10, 64)
		if err != nil || n < 0 {
			return nil, apierrors.NewBadRequest(fmt.Sprintf("%s: %q is not a number of 0 or more", name, text))
		}
		return &n, nil
	}
	var err error
	if o.Tail, err = number("tailLines"); err != nil {
		return o, err
	}
	if o.Limit, err = number("limitBytes"); err != nil {
		return o, err
	}
	seconds, err := number("sinceSeconds")
	if err != nil {
		return o, err
	}
	if seconds != nil {
		o.Since = now.Add(-time.Duration(*seconds) * time.Second)
	}
	if text := query.Get("sinceTime"); text != "" {
		if o.Since, err = time.Parse(time.RFC3339, text); err != nil {
			return o, apierrors.NewBadRequest("sinceTime: " + err.Error())
		}
	}
	return o, nil
}
