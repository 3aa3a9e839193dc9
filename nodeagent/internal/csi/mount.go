package csi

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	csipb "github.com/container-storage-interface/spec/lib/go/csi"
	storagev1 "k8s.io/api/storage/v1"

	"howdah.dev/kit/object"
)

// steps are those of a volume's way to a pod, as events name them.
type steps struct{ prepare, attach, stage, publish, grow string }

var (
	ofFolder = steps{
		prepare: "MountVolume.SetUp failed", attach: "MountVolume.WaitForAttach failed", stage: "MountVolume.MountDevice failed",
		publish: "MountVolume.SetUp failed", grow: "MountVolume.NodeExpandVolume failed",
	}
	ofDevice = steps{
		prepare: "MapVolume.SetUpDevice failed", attach: "MapVolume.WaitForAttach failed", stage: "MapVolume.SetUpDevice failed",
		publish: "MapVolume.MapPodDevice failed", grow: "MapVolume.NodeExpandVolume failed",
	}
)

func (w *Want) steps() steps {
	if w.Block() {
		return ofDevice
	}
	return ofFolder
}

// Failure says in which step a volume could not be made.
type Failure struct {
	Step string
	Err  error
}

func (e *Failure) Error() string { return e.Step + ": " + e.Err.Error() }

// Unwrap returns the cause.
func (e *Failure) Unwrap() error { return e.Err }

func failed(step string, err error) error {
	if _, named := errors.AsType[*Failure](err); named || err == nil {
		return err
	}
	return &Failure{step, err}
}

// path is where containers find it.
func (p place) path() string {
	if p.link != "" {
		return p.link
	}
	return p.target
}

// Mount makes a volume for a pod, and returns where its folder or its device is. What is there already is left as it is, without a question to anybody.
func (v *Volumes) Mount(ctx context.Context, w *Want) (string, error) {
	release, err := v.hold(ctx, string(object.AttachableName(w.Driver(), w.handle())))
	if err != nil {
		return "", failed(w.steps().prepare, err)
	}
	defer release()
	at := v.paths.published(w)
	if there, err := v.there(at); err != nil || there {
		return at.path(), failed(w.steps().prepare, err)
	}
	about, err := v.cfg.Objects.CSIDriver(ctx, w.Driver())
	if err != nil {
		return "", failed(w.steps().prepare, err)
	}
	if err := allowed(about, w.Driver(), w.lifecycle()); err != nil {
		return "", failed(w.steps().prepare, err)
	}
	data := Data{Driver: w.Driver(), Handle: w.handle(), Name: w.Name, Node: v.cfg.NodeName, Lifecycle: string(w.lifecycle())}
	if err := w.alone(v.paths.users(data.unique())); err != nil {
		return "", failed(w.steps().prepare, err)
	}
	if w.PV != nil && attachable(about) {
		data.Attachment = object.AttachmentName(data.Handle, data.Driver, v.cfg.NodeName)
	}
	return at.path(), failed(w.steps().prepare, v.make(ctx, w, about, data, at))
}

// there reports whether a pod has the volume already.
func (v *Volumes) there(at place) (bool, error) {
	if at.link != "" {
		if is, err := v.cfg.Device(at.link); err != nil || !is {
			return false, err
		}
	} else if points, err := v.cfg.Mounts(at.target); err != nil || len(points) == 0 {
		return false, err
	}
	data, err := read(at.record)
	return err == nil && data.Done, nil
}

// make goes the whole way. What it has begun is written down first.
func (v *Volumes) make(ctx context.Context, w *Want, about *storagev1.CSIDriver, data Data, at place) error {
	staged := v.paths.staged(w)
	if before, err := read(at.record); err == nil {
		data.Called = before.Called
	}
	if err := data.write(at.record); err != nil {
		return err
	}
	if w.PV != nil {
		onNode := Data{Driver: data.Driver, Handle: data.Handle, Name: w.Name, Attachment: data.Attachment, Size: w.claimed()}
		if before, err := read(staged.record); err == nil {
			onNode.Called, onNode.Size = before.Called, before.Size
		}
		if err := onNode.write(staged.record); err != nil {
			return failed(w.steps().stage, err)
		}
	}
	var said map[string]string
	if data.Attachment != "" {
		var err error
		if said, err = v.attached(ctx, w, about); err != nil {
			return failed(w.steps().attach, err)
		}
	}
	driver, err := v.cfg.Drivers.Get(data.Driver)
	if err != nil {
		return fmt.Errorf("kubernetes.io/csi: mounter.SetUpAt failed to get CSI client: %w", err)
	}
	call := &calls{v: v, w: w, driver: driver, about: about, context: said, at: at}
	if err := call.prepare(ctx, staged); err != nil {
		return err
	}
	if err := call.stage(ctx, staged); err != nil {
		return failed(w.steps().stage, err)
	}
	if err := call.publish(ctx, &data); err != nil {
		return failed(w.steps().publish, err)
	}
	if err := call.grow(ctx); err != nil {
		return failed(w.steps().grow, err)
	}
	if !call.groups && w.owned(about) && w.Own != nil {
		if err := w.Own(at.target, *w.group()); err != nil {
			return fmt.Errorf("applyFSGroup failed for vol %s: %w", data.Handle, err)
		}
	}
	data.Done = true
	return data.write(at.record)
}

// calls are those to one driver for one volume of one pod.
type calls struct {
	v          *Volumes
	w          *Want
	driver     *Driver
	about      *storagev1.CSIDriver
	capability *csipb.VolumeCapability
	context    map[string]string // what the driver said when the volume was attached
	staging    string            // where it is staged, "" where the driver stages nothing
	groups     bool              // the driver gives volumes to the pod's group itself
	at         place             // of the pod's
}

// prepare asks what the driver can do, and says accordingly how the volume is used.
func (c *calls) prepare(ctx context.Context, staged place) error {
	var multi, stages bool
	for _, q := range []struct {
		what   csipb.NodeServiceCapability_RPC_Type
		answer *bool
	}{
		{csipb.NodeServiceCapability_RPC_SINGLE_NODE_MULTI_WRITER, &multi},
		{csipb.NodeServiceCapability_RPC_VOLUME_MOUNT_GROUP, &c.groups},
		{csipb.NodeServiceCapability_RPC_STAGE_UNSTAGE_VOLUME, &stages},
	} {
		var err error
		if *q.answer, err = c.driver.capable(ctx, q.what); err != nil {
			return err
		}
	}
	c.capability = c.w.capability(multi, nil)
	if c.groups {
		c.capability = c.w.capability(multi, c.w.group())
	}
	if stages && c.w.PV != nil {
		c.staging = staged.target
	}
	return nil
}

// stage has the driver prepare the volume on the node, unless this life of the agent has seen that done.
func (c *calls) stage(ctx context.Context, staged place) error {
	if c.staging == "" {
		return nil
	}
	data, err := read(staged.record)
	if err != nil {
		return err
	}
	if c.v.isStaged(data.unique()) {
		return nil
	}
	namespace, name := named(c.w.PV.Spec.CSI.NodeStageSecretRef)
	secrets, err := c.v.secret(ctx, namespace, name)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(c.staging, 0o750); err != nil {
		return err
	}
	data.Called = true
	if err := data.write(staged.record); err != nil {
		return err
	}
	if _, err := c.driver.node.NodeStageVolume(ctx, &csipb.NodeStageVolumeRequest{
		VolumeId: c.w.handle(), PublishContext: c.context, StagingTargetPath: c.staging, VolumeCapability: c.capability,
		Secrets: secrets, VolumeContext: c.w.attributes(nil),
	}); err != nil {
		return err
	}
	c.v.markStaged(data.unique(), true)
	return nil
}

// publish has the driver give the volume to the pod.
func (c *calls) publish(ctx context.Context, data *Data) error {
	said := c.w.attributes(c.about)
	namespace, name := c.w.publishSecret()
	secrets, err := c.v.secret(ctx, namespace, name)
	if err != nil {
		return err
	}
	tokens, err := c.v.tokens(ctx, c.w.Pod, c.about)
	if err != nil {
		return err
	}
	switch {
	case tokens == "":
	case c.about.Spec.ServiceAccountTokenInSecrets != nil && *c.about.Spec.ServiceAccountTokenInSecrets:
		if secrets == nil {
			secrets = map[string]string{}
		}
		secrets[tokensKey] = tokens
	default:
		said[tokensKey] = tokens
	}
	data.Called = true
	if err := data.write(c.at.record); err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(c.at.target), 0o750); err != nil {
		return err
	}
	if _, err = c.driver.node.NodePublishVolume(ctx, &csipb.NodePublishVolumeRequest{
		VolumeId: c.w.handle(), PublishContext: c.context, StagingTargetPath: c.staging, TargetPath: c.at.target, VolumeCapability: c.capability,
		Readonly: c.w.ReadOnly, Secrets: secrets, VolumeContext: said,
	}); err != nil || c.at.link == "" {
		return err
	}
	return c.v.lead(c.at)
}

// lead makes the link to a device that a driver has published.
func (v *Volumes) lead(at place) error {
	is, err := v.cfg.Device(at.target)
	switch {
	case err != nil:
		return err
	case !is:
		return fmt.Errorf("the driver left no block device at %s", at.target)
	}
	if to, err := os.Readlink(at.link); err == nil && to == at.target {
		return nil
	}
	if err := os.MkdirAll(filepath.Dir(at.link), 0o750); err != nil {
		return err
	}
	if err := os.Remove(at.link); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return os.Symlink(at.target, at.link)
}

// Renew does for a volume that a pod has what has to be done every now and then: it is published again where the driver asks for that, and
// its file system follows the size of the volume.
func (v *Volumes) Renew(ctx context.Context, w *Want) error {
	about, err := v.cfg.Objects.CSIDriver(ctx, w.Driver())
	if err != nil {
		return failed(w.steps().prepare, err)
	}
	again := about != nil && about.Spec.RequiresRepublish != nil && *about.Spec.RequiresRepublish
	if !again && v.growth(w) == nil {
		return nil
	}
	release, err := v.hold(ctx, string(object.AttachableName(w.Driver(), w.handle())))
	if err != nil {
		return failed(w.steps().prepare, err)
	}
	defer release()
	data, err := read(v.paths.published(w).record)
	if err != nil || !data.Done {
		return nil //nolint:nilerr // it is not there yet, and will be made
	}
	driver, err := v.cfg.Drivers.Get(data.Driver)
	if err != nil {
		return failed(w.steps().prepare, err)
	}
	call, err := v.known(ctx, w, driver, about, data)
	if err != nil {
		return failed(w.steps().prepare, err)
	}
	if again {
		if err := call.publish(ctx, &data); err != nil {
			return failed(w.steps().publish, err)
		}
	}
	if v.growth(w) == nil {
		return nil
	}
	return failed(w.steps().grow, call.grow(ctx))
}

// known prepares further calls for a volume that a pod has.
func (v *Volumes) known(ctx context.Context, w *Want, driver *Driver, about *storagev1.CSIDriver, data Data) (*calls, error) {
	call := &calls{v: v, w: w, driver: driver, about: about, at: v.paths.published(w)}
	if err := call.prepare(ctx, v.paths.staged(w)); err != nil {
		return nil, err
	}
	if data.Attachment != "" {
		a, err := v.cfg.Objects.Attachment(ctx, data.Attachment)
		if err != nil {
			return nil, err
		}
		call.context = a.Status.AttachmentMetadata
	}
	return call, nil
}
