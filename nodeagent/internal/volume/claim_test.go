package volume

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"howdah.dev/kit/object"
	"howdah.dev/nodeagent/internal/container"
)

func boundClaim(volume string) *corev1.PersistentVolumeClaim {
	return &corev1.PersistentVolumeClaim{
		ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "c", UID: "uid-c"},
		Spec:       corev1.PersistentVolumeClaimSpec{VolumeName: volume}, Status: corev1.PersistentVolumeClaimStatus{Phase: corev1.ClaimBound},
	}
}

func volumeOf(name string, source corev1.PersistentVolumeSource, change ...func(*corev1.PersistentVolume)) *corev1.PersistentVolume {
	v := &corev1.PersistentVolume{
		ObjectMeta: metav1.ObjectMeta{Name: name, Annotations: map[string]string{}},
		Spec:       corev1.PersistentVolumeSpec{PersistentVolumeSource: source, ClaimRef: &corev1.ObjectReference{UID: "uid-c"}},
	}
	for _, f := range change {
		f(v)
	}
	return v
}

func local(path string) corev1.PersistentVolumeSource {
	return corev1.PersistentVolumeSource{Local: &corev1.LocalVolumeSource{Path: path}}
}

func setupClaim(t *testing.T, claim *corev1.PersistentVolumeClaim, v *corev1.PersistentVolume) (*Manager, *objects, *mounter) {
	t.Helper()
	m, o, points := setup(t)
	o.claims, o.volumes = map[string]*corev1.PersistentVolumeClaim{}, map[string]*corev1.PersistentVolume{}
	if claim != nil {
		o.claims[claim.Name] = claim
	}
	if v != nil {
		o.volumes[v.Name] = v
	}
	m.cfg.NodeLabels = func() map[string]string { return map[string]string{corev1.LabelHostname: "here"} }
	return m, o, points
}

func claimed(readOnly bool) corev1.VolumeSource {
	return corev1.VolumeSource{PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: "c", ReadOnly: readOnly}}
}

// TestClaimsThatCannotBeMounted holds the texts that people see, which are the kubelet's.
func TestClaimsThatCannotBeMounted(t *testing.T) {
	t.Parallel()
	block := corev1.PersistentVolumeBlock
	const wait = "Unable to attach or mount volumes: unmounted volumes=[v], unattached volumes=[], failed to process volumes=[v]: "
	elsewhere := func(v *corev1.PersistentVolume) {
		v.Spec.NodeAffinity = &corev1.VolumeNodeAffinity{Required: &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{{
			MatchExpressions: []corev1.NodeSelectorRequirement{{Key: corev1.LabelHostname, Operator: corev1.NodeSelectorOpIn, Values: []string{"there"}}},
		}}}}
	}
	pending, going := boundClaim("pv"), boundClaim("pv")
	pending.Status.Phase, going.DeletionTimestamp = corev1.ClaimPending, &metav1.Time{}
	for name, test := range map[string]struct {
		claim  *corev1.PersistentVolumeClaim
		volume *corev1.PersistentVolume
		want   string
	}{
		"no claim":  {nil, nil, wait + `error processing PVC ns/c: failed to fetch PVC from API server: persistentvolumeclaims "c" not found`},
		"pending":   {pending, nil, wait + "error processing PVC ns/c: PVC is not bound"},
		"going":     {going, nil, wait + "error processing PVC ns/c: PVC is being deleted"},
		"no volume": {boundClaim("pv"), nil, wait + `error processing PVC ns/c: failed to fetch PV pv from API server: persistentvolumes "pv" not found`},
		"another's volume": {boundClaim("pv"), volumeOf("pv", local("/x"), func(v *corev1.PersistentVolume) { v.Spec.ClaimRef.UID = "other" }),
			wait + "error processing PVC ns/c: found PV object pv but its pv.Spec.ClaimRef.UID other does not point to claim.UID uid-c"},
		"a device":     {boundClaim("pv"), volumeOf("pv", local("/x"), func(v *corev1.PersistentVolume) { v.Spec.VolumeMode = &block }), wait + "volume v has volumeMode Block, but is specified in volumeMounts"},
		"another node": {boundClaim("pv"), volumeOf("pv", local("/x"), elsewhere), `MountVolume.NodeAffinity check failed for volume "pv" : no matching NodeSelectorTerms`},
		"no folder":    {boundClaim("pv"), volumeOf("pv", local("/nowhere/x")), `MountVolume.NewMounter initialization failed for volume "pv" : path "/nowhere/x" does not exist`},
		"a file":       {boundClaim("pv"), volumeOf("pv", local("/etc/hosts")), `MountVolume.MountDevice failed for volume "pv" : /etc/hosts is neither a directory nor a block device`},
		"rbd":          {boundClaim("pv"), volumeOf("pv", corev1.PersistentVolumeSource{RBD: &corev1.RBDPersistentVolumeSource{}}), `MountVolume.SetUp failed for volume "pv" : persistent volumes of type rbd are not supported by this node`},
	} {
		m, _, points := setupClaim(t, test.claim, test.volume)
		_, err := m.Setup(t.Context(), podWith(claimed(false)), &corev1.PodStatus{})
		if err == nil || err.Error() != test.want {
			t.Errorf("%s: %v, want %s", name, err, test.want)
		}
		if len(points.points) > 0 {
			t.Errorf("%s: mounted %v", name, points.points)
		}
	}
}

// TestLocalVolume mounts a folder for a pod, again for nothing, while the API is away, and takes the mount but not the folder when the pod goes.
func TestLocalVolume(t *testing.T) {
	t.Parallel()
	folder := filepath.Join(t.TempDir(), "disk")
	if err := os.MkdirAll(filepath.Join(folder, "sub"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(folder, "sub", "file"), []byte("data"), 0o600); err != nil {
		t.Fatal(err)
	}
	outside := filepath.Join(t.TempDir(), "outside")
	if err := os.WriteFile(outside, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(outside, filepath.Join(folder, "link")); err != nil {
		t.Fatal(err)
	}
	m, o, points := setupClaim(t, boundClaim("pv"), volumeOf("pv", local(folder)))
	p := podWith(claimed(false))
	group := int64(os.Getgid())
	p.Spec.SecurityContext = &corev1.PodSecurityContext{FSGroup: &group}
	paths, err := m.Setup(t.Context(), p, &corev1.PodStatus{})
	if err != nil {
		t.Fatal(err)
	}
	if want := filepath.Join(container.PodDir(m.cfg.RootDir, p), "volumes", "kubernetes.io~local-volume", "pv"); paths.Mounts["v"] != want || !slices.Equal(points.points, []string{want}) {
		t.Errorf("mounted %v at %v, want %s", points.points, paths, want)
	}
	for path, want := range map[string]os.FileMode{folder: os.ModeDir | os.ModeSetgid | 0o770, filepath.Join(folder, "sub", "file"): 0o660, outside: 0o600} {
		info, err := os.Stat(path)
		if err != nil {
			t.Fatal(err)
		}
		if info.Mode() != want {
			t.Errorf("%s has mode %v, want %v", path, info.Mode(), want)
		}
	}
	if users := m.Users("pv"); !slices.Equal(users, []types.UID{p.UID}) {
		t.Errorf("users %v", users)
	}
	o.claims, o.volumes = nil, nil
	if again, err := m.Setup(t.Context(), p, &corev1.PodStatus{}); err != nil || again.Mounts["v"] != paths.Mounts["v"] || len(points.points) != 1 {
		t.Errorf("again: %v, %v, mounts %v", again, err, points.points)
	}
	if err := m.Cleanup(t.Context(), p.UID); err != nil {
		t.Fatal(err)
	}
	if data, err := os.ReadFile(filepath.Join(folder, "sub", "file")); string(data) != "data" || len(points.points) != 0 || len(m.Users("pv")) != 0 {
		t.Errorf("after the pod: %q, %v, mounts %v", data, err, points.points)
	}
	if _, err := m.Setup(t.Context(), p, &corev1.PodStatus{}); err == nil || !strings.Contains(err.Error(), "not found") {
		t.Errorf("after the pod its claim is asked for again: %v", err)
	}
}

// TestProvisionedFolderIsMade makes the folder of a volume of the provisioner's with its first use, and gives a volume for one pod to one pod.
func TestProvisionedFolderIsMade(t *testing.T) {
	t.Parallel()
	folder := filepath.Join(t.TempDir(), "local-path", "pv")
	m, _, _ := setupClaim(t, boundClaim("pv"), volumeOf("pv", local(folder), func(v *corev1.PersistentVolume) {
		v.Annotations["pv.kubernetes.io/provisioned-by"] = object.LocalPathProvisioner
		v.Spec.AccessModes = []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOncePod}
	}))
	p := podWith(claimed(false))
	if _, err := m.Setup(t.Context(), p, &corev1.PodStatus{}); err != nil {
		t.Fatal(err)
	}
	if info, err := os.Stat(folder); err != nil || info.Mode() != os.ModeDir|0o777 {
		t.Errorf("%v, %v", info, err)
	}
	second := podWith(claimed(false))
	second.UID = "second"
	_, err := m.Setup(t.Context(), second, &corev1.PodStatus{})
	if want := `MountVolume.SetUp failed for volume "pv" : volume uses the ReadWriteOncePod access mode and is already in use by another pod`; err == nil || err.Error() != want {
		t.Errorf("%v, want %s", err, want)
	}
}

func TestHostPathBehindAClaim(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	directory := corev1.HostPathDirectory
	m, _, _ := setupClaim(t, boundClaim("pv"), volumeOf("pv", corev1.PersistentVolumeSource{HostPath: &corev1.HostPathVolumeSource{Path: dir, Type: &directory}}))
	if paths, err := m.Setup(t.Context(), podWith(claimed(true)), &corev1.PodStatus{}); err != nil || paths.Mounts["v"] != dir {
		t.Errorf("%v, %v", paths, err)
	}
}

// TestEphemeralVolume mounts the claim that was made for the pod, and none of the same name that was not.
func TestEphemeralVolume(t *testing.T) {
	t.Parallel()
	claim := boundClaim("pv")
	claim.Name = "p-v"
	m, _, _ := setupClaim(t, claim, volumeOf("pv", local(t.TempDir())))
	p := podWith(corev1.VolumeSource{Ephemeral: &corev1.EphemeralVolumeSource{}})
	if _, err := m.Setup(t.Context(), p, &corev1.PodStatus{}); err == nil || !strings.HasSuffix(err.Error(), "PVC ns/p-v was not created for pod ns/p (pod is not owner)") {
		t.Errorf("somebody else's: %v", err)
	}
	claim.OwnerReferences = []metav1.OwnerReference{*metav1.NewControllerRef(p, corev1.SchemeGroupVersion.WithKind("Pod"))}
	if _, err := m.Setup(t.Context(), p, &corev1.PodStatus{}); err != nil {
		t.Error(err)
	}
}
