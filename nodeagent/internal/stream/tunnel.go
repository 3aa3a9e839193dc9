package stream

import (
	"context"
	"errors"
	"io"
	"net"
	"net/netip"
	"net/url"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	apiv1 "howdah.dev/proto/gen/howdah/api/v1"
)

// tunnel joins channel 0 of a stream to a TCP connection that the node makes: apiservers have no routes to pods, and reach
// webhooks and extension API servers in pods through the pod's node. The query's address is ip:port. Either side's end ends both.
func (s *Server) tunnel(ctx context.Context, c *conn, query url.Values) error {
	to, err := netip.ParseAddrPort(query.Get("address"))
	if err != nil {
		return apierrors.NewBadRequest("address: " + err.Error())
	}
	dialer := net.Dialer{Timeout: dialTimeout}
	target, err := dialer.DialContext(ctx, "tcp", to.String())
	if err != nil {
		return apierrors.NewServiceUnavailable(err.Error())
	}
	defer target.Close()
	stop := context.AfterFunc(ctx, func() { _ = target.Close() })
	defer stop()
	if err := c.accept(0); err != nil {
		return err
	}
	go func() { // ends with the call's stream
		defer target.Close()
		for {
			frame, err := c.receive()
			if err != nil {
				return
			}
			if _, err := target.Write(frame.GetData()); err != nil || frame.GetClose() {
				return
			}
		}
	}()
	if _, err = io.Copy(channel{c, 0}, target); err != nil && !errors.Is(err, net.ErrClosed) && ctx.Err() == nil {
		return err
	}
	return c.send(&apiv1.ConnectFrame{Channel: 0, Close: true})
}
