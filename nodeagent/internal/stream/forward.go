package stream

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	apiv1 "howdah.dev/proto/gen/howdah/api/v1"
)

// maxForwards bounds the connections of one stream.
const maxForwards = 1000

// podCheck is how often a stream without connections looks whether its pod
// is still there.
const podCheck = time.Second

// forward joins channel pairs to connections in the pod.
func (s *Server) forward(ctx context.Context, c *conn, pod *corev1.Pod) error {
	observed, err := s.observer.Observe(ctx, pod.UID)
	if err != nil {
		return apierrors.NewInternalError(err)
	}
	sandbox := observed.Sandbox()
	if sandbox == nil || !sandbox.Ready {
		return apierrors.NewBadRequest(fmt.Sprintf("unable to forward port because pod is not running. Current status=%v", pod.Status.Phase))
	}
	namespace, err := s.namespace(ctx, sandbox.ID)
	if err != nil {
		return apierrors.NewInternalError(err)
	}
	if err := c.accept(0); err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	f := &forwarder{ctx: ctx, c: c, pod: pod, namespace: namespace, open: map[uint32]*io.PipeWriter{}}
	go s.awaitEnd(ctx, pod, cancel)
	received := make(chan error, 1)
	go func() { received <- f.receive() }() // ends with the call's stream
	select {
	case err = <-received:
		if errors.Is(err, io.EOF) { // the caller says no more; what is open goes on
			err = nil
			f.wg.Wait()
		}
	case <-ctx.Done():
	}
	f.closeAll()
	cancel()
	f.wg.Wait()
	return err
}

// awaitEnd ends a stream whose pod has gone.
func (s *Server) awaitEnd(ctx context.Context, pod *corev1.Pod, cancel func()) {
	for {
		timer := s.cfg.Clock.NewTimer(podCheck)
		select {
		case <-ctx.Done():
			timer.Stop()
			return
		case <-timer.C():
		}
		now, ok := s.cfg.Pod(pod.Namespace, pod.Name)
		if !ok || now.UID != pod.UID || now.Status.Phase == corev1.PodSucceeded || now.Status.Phase == corev1.PodFailed {
			cancel()
			return
		}
	}
}

type forwarder struct {
	ctx       context.Context
	c         *conn
	pod       *corev1.Pod
	namespace string
	wg        sync.WaitGroup

	mu   sync.Mutex
	open map[uint32]*io.PipeWriter // by data channel; towards the pod
}

func (f *forwarder) receive() error {
	for {
		frame, err := f.c.receive()
		if err != nil {
			return err
		}
		number := frame.GetChannel()
		if number%2 == 1 {
			continue // the caller closes its error channel; nothing is ever said there
		}
		f.mu.Lock()
		writer := f.open[number]
		if writer == nil && frame.GetPort() != 0 {
			if len(f.open) >= maxForwards {
				f.mu.Unlock()
				return apierrors.NewTooManyRequests("too many forwarded connections", 1)
			}
			var reader *io.PipeReader
			reader, writer = io.Pipe()
			f.open[number] = writer
			f.wg.Go(func() { f.serve(number, frame.GetPort(), reader) })
		}
		f.mu.Unlock()
		if writer == nil {
			continue // of a connection that has ended
		}
		if len(frame.GetData()) > 0 {
			_, _ = writer.Write(frame.GetData()) // the connection's end is told by its channel
		}
		if frame.GetClose() {
			_ = writer.Close()
		}
	}
}

// serve carries one connection.
func (f *forwarder) serve(number, port uint32, in *io.PipeReader) {
	err := f.carry(number, port, in)
	f.mu.Lock()
	delete(f.open, number)
	f.mu.Unlock()
	_ = in.Close()
	failure := &apiv1.ConnectFrame{Channel: number + 1, Close: true}
	if err != nil && f.ctx.Err() == nil {
		failure.Data = fmt.Appendf(nil, "error forwarding port %d to pod %s, uid : %v", port, f.pod.Name, err)
	}
	_ = f.c.send(failure) // an error means that the caller has gone
	_ = channel{f.c, number}.close()
}

func (f *forwarder) carry(number, port uint32, in io.Reader) error {
	if port > 65535 {
		return fmt.Errorf("%d is not a port", port)
	}
	target, err := dial(f.ctx, f.namespace, port)
	if err != nil {
		return err
	}
	defer target.Close()
	stop := context.AfterFunc(f.ctx, func() { _ = target.Close() })
	defer stop()
	f.wg.Go(func() {
		_, _ = io.Copy(target, in) // the answer's side tells what went wrong
		if tcp, ok := target.(*net.TCPConn); ok {
			_ = tcp.CloseWrite()
		}
	})
	_, err = io.Copy(channel{f.c, number}, target)
	if errors.Is(err, net.ErrClosed) {
		return nil
	}
	return err
}

func (f *forwarder) closeAll() {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, w := range f.open {
		_ = w.Close()
	}
}
