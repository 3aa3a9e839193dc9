package volume

import (
	"context"
	"errors"
	"os"
	"slices"
	"testing"

	csipb "github.com/container-storage-interface/spec/lib/go/csi"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"howdah.dev/nodeagent/internal/csi"
)

func TestRefusal(t *testing.T) {
	t.Parallel()
	w := &csi.Want{Name: "pv"}
	err := worded("v", drivenError(w, &csi.Failure{Step: "AttachVolume.Attach failed", Err: &csi.Exhausted{Message: "no slot"}}))
	const want = `Node has reached its volume attachment limit, rejecting pod. AttachVolume.Attach failed for volume "pv" : no slot`
	if said, ok := Refusal(err); !ok || said != want {
		t.Errorf("%q, %v", said, ok)
	}
	if said, ok := Refusal(worded("v", errors.New("no driver"))); ok {
		t.Errorf("%q ends the pod", said)
	}
}

// drivers note what they are asked for, and refuse where they are told to.
type drivers struct {
	mounted, renewed []*csi.Want
	unmounted        []types.UID
	pods             []types.UID
	refuse           error
}

func (d *drivers) Mount(_ context.Context, w *csi.Want) (string, error) {
	d.mounted = append(d.mounted, w)
	return "/there/" + w.Name, d.refuse
}

func (d *drivers) Renew(_ context.Context, w *csi.Want) error {
	d.renewed = append(d.renewed, w)
	return d.refuse
}

func (d *drivers) Unmount(_ context.Context, uid types.UID) error {
	d.unmounted = append(d.unmounted, uid)
	return d.refuse
}

func (d *drivers) Pods() []types.UID { return d.pods }

func (d *drivers) Usage(_ context.Context, w *csi.Want) ([]*csipb.VolumeUsage, error) {
	return []*csipb.VolumeUsage{{Unit: csipb.VolumeUsage_BYTES, Used: int64(len(w.Name))}}, nil
}

// TestDrivenVolumes leads a claim and an inline volume to the driver, as read-only as the pod wants them, and words what goes wrong.
func TestDrivenVolumes(t *testing.T) {
	t.Parallel()
	yes := true
	source := corev1.PersistentVolumeSource{CSI: &corev1.CSIPersistentVolumeSource{Driver: "d", VolumeHandle: "h"}}
	inline := corev1.VolumeSource{CSI: &corev1.CSIVolumeSource{Driver: "d", ReadOnly: &yes}}
	for name, test := range map[string]struct {
		source   corev1.VolumeSource
		want     string
		readOnly bool
		says     string
	}{
		"claim":           {claimed(false), "/there/pv", false, `MountVolume.MountDevice failed for volume "pv" : no`},
		"claim to read":   {claimed(true), "/there/pv", true, `MountVolume.MountDevice failed for volume "pv" : no`},
		"of the pod only": {inline, "/there/v", true, `MountVolume.MountDevice failed for volume "v" : no`},
	} {
		m, _, _ := setupClaim(t, boundClaim("pv"), volumeOf("pv", source))
		d := m.cfg.Drivers.(*drivers)
		p := podWith(test.source)
		paths, err := m.Setup(t.Context(), p, &corev1.PodStatus{})
		if err != nil || paths.Mounts["v"] != test.want || len(d.mounted) != 1 || d.mounted[0].ReadOnly != test.readOnly {
			t.Errorf("%s: %v, %v, %+v", name, paths, err, d.mounted)
		}
		if err := m.Refresh(t.Context(), p, &corev1.PodStatus{}); err != nil || len(d.renewed) != 1 {
			t.Errorf("%s: refreshed: %v, %v", name, err, d.renewed)
		}
		d.refuse = &csi.Failure{Step: "MountVolume.MountDevice failed", Err: errors.New("no")}
		if _, err := m.Setup(t.Context(), p, &corev1.PodStatus{}); err == nil || err.Error() != test.says {
			t.Errorf("%s: %v, want %s", name, err, test.says)
		}
	}
}

// TestWhatADriverHoldsStays removes nothing of a pod whose volume the driver does not take back, and tries again with the orphans.
func TestWhatADriverHoldsStays(t *testing.T) {
	t.Parallel()
	m, _, _ := setup(t)
	d := m.cfg.Drivers.(*drivers)
	p := podWith(corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}})
	paths, err := m.Setup(t.Context(), p, &corev1.PodStatus{})
	if err != nil {
		t.Fatal(err)
	}
	d.refuse, d.pods = errors.New("not now"), []types.UID{"other", p.UID}
	none := func(types.UID) bool { return false }
	if m.Orphans(t.Context(), none) {
		t.Error("all orphans are said to be gone")
	}
	if _, err := os.Stat(paths.Mounts["v"]); err != nil {
		t.Error(err)
	}
	d.refuse, d.unmounted = nil, nil
	if !m.Orphans(t.Context(), none) || !slices.Equal(d.unmounted, []types.UID{"other", p.UID}) {
		t.Errorf("unmounted %v", d.unmounted)
	}
	if _, err := os.Stat(paths.Mounts["v"]); !errors.Is(err, os.ErrNotExist) {
		t.Error(err)
	}
}
