package object

import (
	"context"
	"strconv"
	"sync/atomic"
	"time"

	"google.golang.org/grpc"
	grpcmetadata "google.golang.org/grpc/metadata"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/metadata"

	apiv1 "howdah.dev/proto/gen/howdah/api/v1"
)

// callTimeout bounds a call whose context has no deadline.
const callTimeout = 30 * time.Second

// Client speaks to the object API. It is safe for concurrent use.
type Client struct {
	api     apiv1.ObjectServiceClient
	conn    grpc.ClientConnInterface
	manager string
	fence   *atomic.Pointer[string]
	tunnel  *tunnel                            // to extension API servers
	remote  func() (metadata.Interface, error) // of what they keep
}

// NewClient returns a client on conn whose writes bear the field manager.
func NewClient(conn grpc.ClientConnInterface, fieldManager string) *Client {
	api := apiv1.NewObjectServiceClient(conn)
	way := &tunnel{api: api, away: map[schema.GroupVersion]time.Time{}}
	return &Client{api: api, conn: conn, manager: fieldManager, fence: &atomic.Pointer[string]{}, tunnel: way, remote: newRemote(way, fieldManager)}
}

// Fenced returns a client whose writes are refused once another holder has
// taken the role's leadership after epoch.
func (c *Client) Fenced(role string, epoch int64) *Client {
	fenced := *c
	value := role + "/" + strconv.FormatInt(epoch, 10)
	fenced.fence = &atomic.Pointer[string]{}
	fenced.fence.Store(&value)
	return &fenced
}

// SetFence makes every later write of this client, and of what was made from
// it, bear the leadership. A service calls it when it is elected.
func (c *Client) SetFence(role string, epoch int64) {
	value := role + "/" + strconv.FormatInt(epoch, 10)
	c.fence.Store(&value)
}

// API returns the generated client, for calls that have no typed form.
func (c *Client) API() apiv1.ObjectServiceClient { return c.api }

// Discovery returns the generated client of the discovery service.
func (c *Client) Discovery() apiv1.DiscoveryServiceClient {
	return apiv1.NewDiscoveryServiceClient(c.conn)
}

// write returns the context of a write: fenced, and with a deadline.
func (c *Client) write(ctx context.Context) (context.Context, context.CancelFunc) {
	if f := c.fence.Load(); f != nil {
		ctx = grpcmetadata.AppendToOutgoingContext(ctx, "howdah-fence", *f)
	}
	return bounded(ctx)
}

func bounded(ctx context.Context) (context.Context, context.CancelFunc) {
	if _, ok := ctx.Deadline(); ok {
		return ctx, func() {}
	}
	return context.WithTimeout(ctx, callTimeout)
}
