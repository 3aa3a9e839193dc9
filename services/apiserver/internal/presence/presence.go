// Package presence shows each apiserver as a Lease in kube-system, which it renews, and removes those of apiservers that are gone.
package presence

import (
	"context"
	"crypto/sha256"
	"encoding/base32"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/netip"
	"slices"
	"strings"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/uuid"
	"k8s.io/utils/clock"

	"howdah.dev/kit/apistatus"
	apiv1 "howdah.dev/proto/gen/howdah/api/v1"
	"howdah.dev/services/apiserver/internal/itself"
)

const (
	// identityLabel tells these Leases apart, and whose they are.
	identityLabel = "apiserver.kubernetes.io/identity"
	identity      = "kube-apiserver"
	// every is the time between renewals, and duration how long after one the apiserver counts as gone: both Kubernetes'.
	every    = 10 * time.Second
	duration = time.Hour
)

// Annotations of a Lease: the gateways that its apiserver was told of, ip:port with commas between, and the release that it is of. Whoever wants to know where the
// control plane is, and what has to be upgraded, finds it there.
const (
	GatewaysAnnotation = "howdah.dev/gateways"
	VersionAnnotation  = "howdah.dev/version"
)

// API is what this needs of the object service.
type API interface {
	Get(ctx context.Context, req *apiv1.GetRequest) (*apiv1.GetResponse, error)
	Create(ctx context.Context, req *apiv1.CreateRequest) (*apiv1.CreateResponse, error)
	Update(ctx context.Context, req *apiv1.UpdateRequest) (*apiv1.UpdateResponse, error)
	Delete(ctx context.Context, req *apiv1.DeleteRequest) (*apiv1.DeleteResponse, error)
}

// Config is what a Keeper needs.
type Config struct {
	API API
	// Leases returns those of kube-system.
	Leases func() []*coordinationv1.Lease
	// Hostname names the apiserver: one that is started again on the same host takes its Lease over.
	Hostname string
	// Gateways and Version are what the apiserver tells of itself.
	Gateways []netip.AddrPort
	Version  string
	Clock    clock.WithTicker
}

// Keeper keeps the Lease of one apiserver.
type Keeper struct {
	cfg    Config
	name   string
	holder string
}

// New returns a Keeper; nothing happens before Run.
func New(cfg Config) *Keeper {
	name := Name(cfg.Hostname)
	return &Keeper{cfg: cfg, name: name, holder: name + "_" + string(uuid.NewUUID())}
}

// Name is that of the Lease of the apiserver on a host.
func Name(hostname string) string {
	hash := sha256.Sum256([]byte(hostname))
	return "apiserver-" + strings.ToLower(base32.StdEncoding.WithPadding(base32.NoPadding).EncodeToString(hash[:16]))
}

// Run renews the Lease until ctx ends. A renewal that fails is tried again with the next one.
func (k *Keeper) Run(ctx context.Context) error {
	ticker := k.cfg.Clock.NewTicker(every)
	defer ticker.Stop()
	for {
		if err := k.Renew(ctx); err != nil && ctx.Err() == nil {
			slog.WarnContext(ctx, "cannot renew the apiserver's lease", "name", k.name, "err", err)
		}
		if err := k.collect(ctx); err != nil && ctx.Err() == nil {
			slog.WarnContext(ctx, "cannot remove the lease of an apiserver that is gone", "err", err)
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-ticker.C():
		}
	}
}

// Renew writes the Lease.
func (k *Keeper) Renew(ctx context.Context) error {
	ctx, cancel := k.context(ctx)
	defer cancel()
	got, err := k.cfg.API.Get(ctx, &apiv1.GetRequest{Group: coordinationv1.GroupName, Version: "v1", Resource: "leases", Namespace: metav1.NamespaceSystem, Name: k.name})
	if err != nil && apistatus.Of(err).Code != 404 {
		return err
	}
	lease := &coordinationv1.Lease{}
	if err == nil {
		if err := json.Unmarshal(got.GetObject(), lease); err != nil {
			return fmt.Errorf("lease %s: %w", k.name, err)
		}
	}
	k.fill(lease)
	body, marshalErr := json.Marshal(lease)
	if marshalErr != nil {
		return marshalErr
	}
	if err != nil {
		_, err = k.cfg.API.Create(ctx, &apiv1.CreateRequest{Group: coordinationv1.GroupName, Version: "v1", Resource: "leases", Namespace: metav1.NamespaceSystem, Object: body})
		return err
	}
	_, err = k.cfg.API.Update(ctx, &apiv1.UpdateRequest{
		Group: coordinationv1.GroupName, Version: "v1", Resource: "leases", Namespace: metav1.NamespaceSystem, Name: k.name, Object: body,
	})
	return err
}

func (k *Keeper) fill(l *coordinationv1.Lease) {
	l.Name, l.Namespace = k.name, metav1.NamespaceSystem
	if l.Labels == nil {
		l.Labels = map[string]string{}
	}
	l.Labels[identityLabel], l.Labels[corev1.LabelHostname] = identity, k.cfg.Hostname
	if l.Annotations == nil {
		l.Annotations = map[string]string{}
	}
	l.Annotations[GatewaysAnnotation], l.Annotations[VersionAnnotation] = text(k.cfg.Gateways), k.cfg.Version
	seconds, now := int32(duration/time.Second), metav1.NewMicroTime(k.cfg.Clock.Now())
	l.Spec = coordinationv1.LeaseSpec{HolderIdentity: &k.holder, LeaseDurationSeconds: &seconds, RenewTime: &now}
}

func text(gateways []netip.AddrPort) string {
	texts := make([]string, len(gateways))
	for i, g := range gateways {
		texts[i] = g.String()
	}
	return strings.Join(texts, ",")
}

// Gateways are those that apiservers tell of which are not gone, each once, in order. What is none is left out.
func Gateways(leases []*coordinationv1.Lease, now time.Time) []netip.AddrPort {
	var all []netip.AddrPort
	for _, l := range leases {
		if l.Labels[identityLabel] != identity || Expired(l, now) {
			continue
		}
		for one := range strings.SplitSeq(l.Annotations[GatewaysAnnotation], ",") {
			if g, err := netip.ParseAddrPort(one); err == nil {
				all = append(all, g)
			}
		}
	}
	slices.SortFunc(all, netip.AddrPort.Compare)
	return slices.Compact(all)
}

// collect removes the Leases that have expired. Every apiserver may: a deletion names the revision that it is meant for.
func (k *Keeper) collect(ctx context.Context) error {
	ctx, cancel := k.context(ctx)
	defer cancel()
	for _, l := range k.cfg.Leases() {
		if !Expired(l, k.cfg.Clock.Now()) {
			continue
		}
		options, err := json.Marshal(&metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &l.UID, ResourceVersion: &l.ResourceVersion}})
		if err != nil {
			return err
		}
		_, err = k.cfg.API.Delete(ctx, &apiv1.DeleteRequest{
			Group: coordinationv1.GroupName, Version: "v1", Resource: "leases", Namespace: metav1.NamespaceSystem, Name: l.Name, Options: options, ContentType: "application/json",
		})
		if code := apistatus.Of(err).Code; err != nil && code != 404 && code != 409 {
			return err
		}
	}
	return nil
}

// Expired reports whether a Lease is that of an apiserver that has not renewed it in time.
func Expired(l *coordinationv1.Lease, now time.Time) bool {
	if l.Labels[identityLabel] != identity {
		return false
	}
	if l.Spec.RenewTime == nil || l.Spec.LeaseDurationSeconds == nil {
		return true
	}
	return l.Spec.RenewTime.Add(time.Duration(*l.Spec.LeaseDurationSeconds) * time.Second).Before(now)
}

func (k *Keeper) context(ctx context.Context) (context.Context, context.CancelFunc) {
	ctx = itself.Context(ctx)
	return context.WithTimeout(ctx, every)
}
