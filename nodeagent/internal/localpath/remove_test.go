package localpath

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/record"

	"howdah.dev/kit/object"
	"howdah.dev/kit/object/objecttest"
)

func newVolume(path string, change ...func(*corev1.PersistentVolume)) *corev1.PersistentVolume {
	v := &corev1.PersistentVolume{
		ObjectMeta: metav1.ObjectMeta{
			Name: "pvc-u", Labels: map[string]string{object.LocalPathNodeLabel: "node-1"}, Finalizers: []string{object.LocalPathFinalizer},
			Annotations: map[string]string{"pv.kubernetes.io/provisioned-by": object.LocalPathProvisioner}, DeletionTimestamp: &metav1.Time{},
		},
		Spec: corev1.PersistentVolumeSpec{
			PersistentVolumeSource:        corev1.PersistentVolumeSource{Local: &corev1.LocalVolumeSource{Path: path}},
			ClaimRef:                      &corev1.ObjectReference{UID: "u"},
			PersistentVolumeReclaimPolicy: corev1.PersistentVolumeReclaimDelete,
		},
		Status: corev1.PersistentVolumeStatus{Phase: corev1.VolumeReleased},
	}
	for _, f := range change {
		f(v)
	}
	return v
}

func TestRemovable(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		change func(*corev1.PersistentVolume)
		want   bool
	}{
		"deleted":     {func(*corev1.PersistentVolume) {}, true},
		"not deleted": {func(v *corev1.PersistentVolume) { v.DeletionTimestamp = nil }, false},
		"bound":       {func(v *corev1.PersistentVolume) { v.Status.Phase = corev1.VolumeBound }, false},
		"protected":   {func(v *corev1.PersistentVolume) { v.Finalizers = append(v.Finalizers, "kubernetes.io/pv-protection") }, false},
		"by others":   {func(v *corev1.PersistentVolume) { v.Annotations["pv.kubernetes.io/provisioned-by"] = "x.example.com" }, false},
		"done":        {func(v *corev1.PersistentVolume) { v.Finalizers = nil }, false},
	} {
		if got := Removable(newVolume("/x/pvc-u", test.change)); got != test.want {
			t.Errorf("%s: %v", name, got)
		}
	}
}

// TestFolder holds that nothing but folders of the provisioner's own naming are ever removed.
func TestFolder(t *testing.T) {
	t.Parallel()
	type pv = *corev1.PersistentVolume
	if got, err := Folder(newVolume("/x/pvc-u")); got != "/x/pvc-u" || err != nil {
		t.Errorf("%q, %v", got, err)
	}
	if got, err := Folder(newVolume("/x/pvc-u", func(v pv) { v.Spec.PersistentVolumeReclaimPolicy = corev1.PersistentVolumeReclaimRetain })); got != "" || err != nil {
		t.Errorf("retained: %q, %v", got, err)
	}
	for name, v := range map[string]pv{
		"elsewhere":       newVolume("/etc"),
		"root":            newVolume("/"),
		"relative":        newVolume("x/pvc-u"),
		"up":              newVolume("/x/y/../pvc-u"),
		"another's":       newVolume("/x/pvc-u", func(v pv) { v.Spec.ClaimRef.UID = "other" }),
		"nobody's":        newVolume("/x/pvc-u", func(v pv) { v.Spec.ClaimRef = nil }),
		"no folder":       newVolume("/x/pvc-u", func(v pv) { v.Spec.Local = nil }),
		"named otherwise": newVolume("/x/etc", func(v pv) { v.Name = "etc" }),
	} {
		if got, err := Folder(v); err == nil {
			t.Errorf("%s: would remove %q", name, got)
		}
	}
}

// TestFolderGoesWithItsVolume deletes a volume that a pod still has: folder and volume stay until the pod is gone. Those of other nodes are left alone.
func TestFolderGoesWithItsVolume(t *testing.T) {
	t.Parallel()
	_, client := objecttest.Start(t)
	dir := t.TempDir()
	mine, other := filepath.Join(dir, "pvc-u"), filepath.Join(dir, "pvc-w")
	for _, path := range []string{mine, other} {
		if err := os.MkdirAll(filepath.Join(path, "data"), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	used, asked := atomic.Bool{}, make(chan struct{}, 100)
	used.Store(true)
	r := New(Config{
		Client: client, NodeName: "node-1", Events: record.NewFakeRecorder(10), Below: func(string) ([]string, error) { return nil, nil },
		Users: func(name string) []types.UID {
			asked <- struct{}{}
			if used.Load() && name == "pvc-u" {
				return []types.UID{"pod"}
			}
			return nil
		},
	})
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() { defer close(done); _ = r.Run(ctx) }()
	t.Cleanup(func() { cancel(); <-done })
	volumes := object.For(client, object.PersistentVolume)
	for _, v := range []*corev1.PersistentVolume{
		newVolume(mine),
		newVolume(other, func(v *corev1.PersistentVolume) {
			v.Name, v.Spec.ClaimRef.UID, v.Labels[object.LocalPathNodeLabel] = "pvc-w", "w", "node-2"
		}),
	} {
		v.DeletionTimestamp = nil
		if _, err := volumes.Create(ctx, v); err != nil {
			t.Fatal(err)
		}
		if err := volumes.Delete(ctx, "", v.Name, metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	<-asked
	if _, err := os.Stat(filepath.Join(mine, "data")); err != nil {
		t.Fatalf("the folder of a volume in use: %v", err)
	}
	used.Store(false)
	deadline := time.Now().Add(time.Minute)
	for {
		list, _, err := volumes.List(ctx, "", metav1.ListOptions{})
		if err != nil {
			t.Fatal(err)
		}
		var names []string
		for _, v := range list {
			names = append(names, v.Name)
		}
		if slices.Equal(names, []string{"pvc-w"}) {
			break
		}
		if time.Now().After(deadline) {
			t.Fatalf("volumes %s", strings.Join(names, " "))
		}
		time.Sleep(10 * time.Millisecond) // the API in memory is asked, nothing else tells
	}
	if _, err := os.Stat(mine); !os.IsNotExist(err) {
		t.Errorf("the folder is still there: %v", err)
	}
	if _, err := os.Stat(filepath.Join(other, "data")); err != nil {
		t.Errorf("another node's folder: %v", err)
	}
}
