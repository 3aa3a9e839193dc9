package stream

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/remotecommand"
	utilexec "k8s.io/client-go/util/exec"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	podspec "howdah.dev/nodeagent/internal/pod"
	apiv1 "howdah.dev/proto/gen/howdah/api/v1"
)

// wishes are the streams that a caller of exec or attach wants.
type wishes struct{ stdin, stdout, stderr, tty bool }

func wishesOf(query url.Values) (wishes, error) {
	flag := func(name string) bool {
		v, _ := strconv.ParseBool(query.Get(name))
		return v
	}
	w := wishes{flag("stdin"), flag("stdout"), flag("stderr"), flag("tty")}
	if w.tty {
		w.stderr = false // a terminal has one output
	}
	if !w.stdin && !w.stdout && !w.stderr {
		return w, apierrors.NewBadRequest("you must specify at least 1 of stdin, stdout, stderr")
	}
	return w, nil
}

func (s *Server) exec(ctx context.Context, c *conn, pod *corev1.Pod, query url.Values) error {
	at, w, err := s.command(ctx, pod, query)
	if err != nil {
		return err
	}
	return s.terminal(ctx, c, at, w)
}

// command has the runtime run a command. at is where it serves its streams.
func (s *Server) command(ctx context.Context, pod *corev1.Pod, query url.Values) (at string, w wishes, err error) {
	if w, err = wishesOf(query); err != nil {
		return "", w, err
	}
	run, err := s.running(ctx, pod, query, notThere)
	if err != nil {
		return "", w, err
	}
	if len(query["command"]) == 0 {
		return "", w, apierrors.NewBadRequest("you must specify at least 1 command for the container")
	}
	callCtx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	resp, err := s.cfg.Runtime.Exec(callCtx, &runtimeapi.ExecRequest{
		ContainerId: run.ID, Cmd: query["command"], Tty: w.tty, Stdin: w.stdin, Stdout: w.stdout, Stderr: w.stderr,
	})
	if err != nil {
		return "", w, apierrors.NewInternalError(err)
	}
	return resp.GetUrl(), w, nil
}

func (s *Server) attach(ctx context.Context, c *conn, pod *corev1.Pod, query url.Values) error {
	at, w, err := s.attachment(ctx, pod, query)
	if err != nil {
		return err
	}
	return s.terminal(ctx, c, at, w)
}

// attachment is where the runtime serves the streams of a container's first process.
func (s *Server) attachment(ctx context.Context, pod *corev1.Pod, query url.Values) (at string, w wishes, err error) {
	if w, err = wishesOf(query); err != nil {
		return "", w, err
	}
	run, err := s.running(ctx, pod, query, notAttached)
	if err != nil {
		return "", w, err
	}
	if spec := podspec.Find(pod, run.Name); spec != nil { // the terminal is the container's, not the caller's to choose
		w.tty = spec.TTY
		w.stderr = w.stderr && !w.tty
	}
	callCtx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	resp, err := s.cfg.Runtime.Attach(callCtx, &runtimeapi.AttachRequest{
		ContainerId: run.ID, Tty: w.tty, Stdin: w.stdin, Stdout: w.stdout, Stderr: w.stderr,
	})
	if err != nil {
		return "", w, apierrors.NewInternalError(err)
	}
	return resp.GetUrl(), w, nil
}

// terminal joins the caller to a stream that the runtime serves at address.
func (s *Server) terminal(ctx context.Context, c *conn, address string, w wishes) error {
	u, err := url.Parse(address)
	if err != nil {
		return apierrors.NewInternalError(err)
	}
	executor, err := remotecommand.NewSPDYExecutor(&rest.Config{}, http.MethodPost, u)
	if err != nil {
		return apierrors.NewInternalError(err)
	}
	if err := c.accept(0); err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	in := newInput(ctx, c)
	options := remotecommand.StreamOptions{Tty: w.tty}
	if w.stdin {
		options.Stdin = in.reader
	}
	if w.stdout {
		options.Stdout = channel{c, stdout}
	}
	if w.stderr {
		options.Stderr = channel{c, stderr}
	}
	if w.tty {
		options.TerminalSizeQueue = in
	}
	go in.run(cancel) // ends with the caller's stream, which ends with this call
	in.awaitCaller()
	err = executor.StreamWithContext(ctx, options)
	in.close()
	if ctx.Err() != nil && c.stream.Context().Err() != nil {
		return nil // the caller has gone
	}
	data, err := json.Marshal(outcomeOf(err))
	if err != nil {
		return err
	}
	return c.send(&apiv1.ConnectFrame{Channel: outcome, Data: data, Close: true})
}

// outcomeOf is the Status that ends a command's stream.
func outcomeOf(err error) metav1.Status {
	s := metav1.Status{Status: metav1.StatusSuccess}
	if err == nil {
		return s
	}
	s.Status = metav1.StatusFailure
	if exit, ok := errors.AsType[utilexec.CodeExitError](err); ok {
		s.Reason, s.Message = "NonZeroExitCode", "command terminated with non-zero exit code: "+exit.Error()
		s.Details = &metav1.StatusDetails{Causes: []metav1.StatusCause{{Type: "ExitCode", Message: strconv.Itoa(exit.Code)}}}
		return s
	}
	s.Reason, s.Message, s.Code = metav1.StatusReasonInternalError, err.Error(), http.StatusInternalServerError
	return s
}

// input is what the caller sends: bytes for the command, and the size of the
// caller's terminal.
type input struct {
	ctx    context.Context
	c      *conn
	reader *io.PipeReader
	writer *io.PipeWriter
	sizes  chan remotecommand.TerminalSize
	begun  chan struct{} // closed when the caller has sent its first frame, or is gone
}

func newInput(ctx context.Context, c *conn) *input {
	r, w := io.Pipe()
	return &input{ctx, c, r, w, make(chan remotecommand.TerminalSize, 1), make(chan struct{})}
}

// callerPatience bounds how long a command waits for its caller's first frame, which older gateways do not send.
const callerPatience = 5 * time.Second

// awaitCaller waits until the caller's connection stands: output that comes before that is lost in some clients.
func (in *input) awaitCaller() {
	timer := time.NewTimer(callerPatience)
	defer timer.Stop()
	select {
	case <-in.begun:
	case <-timer.C:
	case <-in.ctx.Done():
	}
}

func (in *input) run(cancel func()) {
	begin := sync.OnceFunc(func() { close(in.begun) })
	for {
		frame, err := in.c.receive()
		begin()
		if errors.Is(err, io.EOF) { // the caller has said all, and listens on
			_ = in.writer.Close()
			return
		}
		if err != nil {
			_ = in.writer.CloseWithError(err)
			cancel()
			return
		}
		switch frame.GetChannel() {
		case stdin:
			if len(frame.GetData()) > 0 {
				_, _ = in.writer.Write(frame.GetData()) // a command that reads no more loses it
			}
			if frame.GetClose() {
				_ = in.writer.Close()
			}
		case resize:
			var size remotecommand.TerminalSize
			if json.Unmarshal(frame.GetData(), &size) == nil {
				select { // only the newest counts
				case <-in.sizes:
				default:
				}
				in.sizes <- size
			}
		}
	}
}

// close lets a write that nobody reads return.
func (in *input) close() { _ = in.reader.Close() }

// Next implements remotecommand.TerminalSizeQueue.
func (in *input) Next() *remotecommand.TerminalSize {
	select {
	case size := <-in.sizes:
		return &size
	case <-in.ctx.Done():
		return nil
	}
}
