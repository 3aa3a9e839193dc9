package fake

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"

	apiv1 "howdah.dev/proto/gen/howdah/api/v1"
)

// Connect implements ObjectService for pods of any name but "missing".
//
// exec and attach run the first command: "cat" copies stdin to stdout until
// it is closed, "both" writes to stdout and stderr, "exit N" fails, "size"
// prints the first resize, "hang" waits for the client's end. log prints two
// lines, or with follow=true those of LinesFollow. Every port greets with its number and
// echoes, port 9 fails. proxy describes the request and echoes its body; an
// upgrade echoes bytes.
func (s *Server) Connect(stream apiv1.ObjectService_ConnectServer) error {
	defer s.end("Connect")
	first, err := stream.Recv()
	if err != nil {
		return err
	}
	open := first.GetOpen()
	if err := s.before(stream.Context(), "Connect", open); err != nil {
		return err
	}
	if open.GetName() == "missing" {
		return apierrors.NewNotFound(schema.GroupResource{Resource: open.GetResource()}, open.GetName())
	}
	if open.GetNoUpgrade() {
		return apierrors.NewBadRequest("Upgrade request required")
	}
	query, err := url.ParseQuery(open.GetQuery())
	if err != nil {
		return apierrors.NewBadRequest(err.Error())
	}
	c := connection{stream}
	switch open.GetSubresource() {
	case "exec", "attach":
		return c.exec(query)
	case "log":
		return s.serveLog(c, query)
	case "portforward":
		return c.forward()
	case "proxy":
		return c.proxy(open)
	}
	return apierrors.NewBadRequest("no such stream")
}

func (s *Server) end(method string) {
	select {
	case s.Ended <- method:
	default:
	}
}

type connection struct {
	apiv1.ObjectService_ConnectServer
}

func (c connection) accept(code int32, headers ...*apiv1.Header) error {
	return c.Send(&apiv1.ConnectResponse{Message: &apiv1.ConnectResponse_Accepted{Accepted: &apiv1.ConnectAccepted{Code: code, Headers: headers}}})
}

func (c connection) frame(f *apiv1.ConnectFrame) error {
	return c.Send(&apiv1.ConnectResponse{Message: &apiv1.ConnectResponse_Frame{Frame: f}})
}

func (c connection) say(channel uint32, text string) error {
	return c.frame(&apiv1.ConnectFrame{Channel: channel, Data: []byte(text)})
}

func (c connection) exec(query url.Values) error {
	if err := c.accept(0); err != nil {
		return err
	}
	first, err := c.Recv() // the client's connection stands; it may have said something already
	if err != nil {
		return err
	}
	next := func() (r *apiv1.ConnectRequest, err error) {
		if r, first = first, nil; r != nil {
			return r, nil
		}
		return c.Recv()
	}
	outcome := `{"metadata":{},"status":"Success"}`
	switch command := query.Get("command"); {
	case command == "cat":
		for {
			r, err := next()
			if err != nil {
				return err
			}
			if f := r.GetFrame(); f.GetChannel() == 0 {
				if err := c.say(1, string(f.GetData())); err != nil {
					return err
				}
				if f.GetClose() {
					return c.say(3, outcome)
				}
			}
		}
	case command == "both":
		if err := errors.Join(c.say(1, "out"), c.say(2, "err")); err != nil {
			return err
		}
	case command == "size":
		for {
			r, err := next()
			if err != nil {
				return err
			}
			if f := r.GetFrame(); f.GetChannel() == 4 {
				return errors.Join(c.say(1, string(f.GetData())), c.say(3, outcome))
			}
		}
	case command == "hang":
		<-c.Context().Done()
		return c.Context().Err()
	case command == "broken":
		return apierrors.NewInternalError(errors.New("the runtime is gone"))
	case strings.HasPrefix(command, "exit "):
		code := strings.TrimPrefix(command, "exit ")
		outcome = fmt.Sprintf(`{"metadata":{},"status":"Failure","message":"command terminated with non-zero exit code: exit status %s",`+
			`"reason":"NonZeroExitCode","details":{"causes":[{"reason":"ExitCode","message":"%s"}]}}`, code, code)
	}
	return c.say(3, outcome)
}

func (s *Server) serveLog(c connection, query url.Values) error {
	if err := c.accept(0); err != nil {
		return err
	}
	if query.Get("follow") != "true" {
		return errors.Join(c.say(1, "one\n"), c.say(1, "two\n"))
	}
	for {
		select {
		case line, more := <-s.LinesFollow:
			if !more {
				return nil
			}
			if err := c.say(1, line); err != nil {
				return err
			}
		case <-c.Context().Done():
			return c.Context().Err()
		}
	}
}

func (c connection) forward() error {
	if err := c.accept(0); err != nil {
		return err
	}
	for {
		r, err := c.Recv()
		if err != nil {
			return nil
		}
		f := r.GetFrame()
		if f.GetPort() == 9 {
			if err := errors.Join(c.say(1, "connection refused"), c.frame(&apiv1.ConnectFrame{Channel: 0, Close: true})); err != nil {
				return err
			}
			continue
		}
		if f.GetPort() != 0 {
			if err := c.say(0, fmt.Sprintf("port %d:", f.GetPort())); err != nil {
				return err
			}
		}
		if len(f.GetData()) > 0 {
			if err := c.say(0, string(f.GetData())); err != nil {
				return err
			}
		}
		if f.GetClose() {
			if err := c.frame(&apiv1.ConnectFrame{Channel: 0, Close: true}); err != nil {
				return err
			}
		}
	}
}

func (c connection) proxy(open *apiv1.ConnectOpen) error {
	headers := map[string]string{}
	for _, h := range open.GetHeaders() {
		headers[h.GetName()] = h.GetValue()
	}
	if headers["Upgrade"] != "" {
		if err := c.accept(http.StatusSwitchingProtocols, &apiv1.Header{Name: "Connection", Value: "Upgrade"}, &apiv1.Header{Name: "Upgrade", Value: headers["Upgrade"]}); err != nil {
			return err
		}
		return c.echo()
	}
	if err := c.accept(http.StatusAccepted, &apiv1.Header{Name: "Content-Type", Value: "text/x-test"}, &apiv1.Header{Name: "Connection", Value: "close"}); err != nil {
		return err
	}
	about := fmt.Sprintf("%s %s?%s auth=%q x=%q\n", open.GetMethod(), open.GetPath(), open.GetQuery(), headers["Authorization"], headers["X-Test"])
	if err := c.say(1, about); err != nil {
		return err
	}
	return c.echo()
}

func (c connection) echo() error {
	for {
		r, err := c.Recv()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		if data := r.GetFrame().GetData(); len(data) > 0 {
			if err := c.say(1, string(data)); err != nil {
				return err
			}
		}
		if r.GetFrame().GetClose() {
			return nil
		}
	}
}
