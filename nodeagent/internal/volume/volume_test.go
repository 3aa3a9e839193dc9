package volume

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	certificatesv1beta1 "k8s.io/api/certificates/v1beta1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	clocktesting "k8s.io/utils/clock/testing"
)

// objects is an API with a few objects.
type objects struct {
	mu         sync.Mutex
	configMaps map[string]map[string]string
	claims     map[string]*corev1.PersistentVolumeClaim
	volumes    map[string]*corev1.PersistentVolume
	secrets    map[string]map[string][]byte // by namespace and name; without any there is one, s
	bundles    []*certificatesv1beta1.ClusterTrustBundle
	tokens     int
	tokenError error
	clock      *clocktesting.FakeClock
}

func (o *objects) ConfigMap(_ context.Context, _, name string) (*corev1.ConfigMap, error) {
	data, ok := o.configMaps[name]
	if !ok {
		return nil, apierrors.NewNotFound(schema.GroupResource{Resource: "configmap"}, name)
	}
	return &corev1.ConfigMap{Data: data}, nil
}

func (o *objects) Secret(_ context.Context, namespace, name string) (*corev1.Secret, error) {
	if data := o.secrets[namespace+"/"+name]; data != nil {
		return &corev1.Secret{Data: data}, nil
	}
	if name != "s" {
		return nil, apierrors.NewNotFound(schema.GroupResource{Resource: "secret"}, name)
	}
	return &corev1.Secret{Data: map[string][]byte{"password": []byte("hush")}}, nil
}

func (o *objects) Claim(_ context.Context, namespace, name string) (*corev1.PersistentVolumeClaim, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if c := o.claims[name]; c != nil {
		return c, nil
	}
	return nil, apierrors.NewNotFound(schema.GroupResource{Resource: "persistentvolumeclaims"}, name)
}

func (o *objects) Volume(_ context.Context, name string) (*corev1.PersistentVolume, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if v := o.volumes[name]; v != nil {
		return v, nil
	}
	return nil, apierrors.NewNotFound(schema.GroupResource{Resource: "persistentvolumes"}, name)
}

func (o *objects) TrustBundle(_ context.Context, name string) (*certificatesv1beta1.ClusterTrustBundle, error) {
	for _, b := range o.bundles {
		if b.Name == name {
			return b, nil
		}
	}
	return nil, apierrors.NewNotFound(certificatesv1beta1.Resource("clustertrustbundle"), name)
}

func (o *objects) TrustBundles(_ context.Context, signer, selector string) ([]*certificatesv1beta1.ClusterTrustBundle, error) {
	wanted, err := labels.Parse(selector)
	return slices.DeleteFunc(slices.Clone(o.bundles), func(b *certificatesv1beta1.ClusterTrustBundle) bool {
		return b.Spec.SignerName != signer || !wanted.Matches(labels.Set(b.Labels))
	}), err
}

func (o *objects) Token(_ context.Context, p *corev1.Pod, audience string, seconds int64) (string, time.Time, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.tokenError != nil {
		return "", time.Time{}, o.tokenError
	}
	o.tokens++
	return fmt.Sprintf("%s/%s/%d", p.Name, audience, o.tokens), o.clock.Now().Add(time.Duration(seconds) * time.Second), nil
}

// mounter notes mounts and makes none.
type mounter struct {
	points []string
	pages  int64 // the size of those that were mounted last
}

func (m *mounter) Tmpfs(path string, _ int64) error { m.points = append(m.points, path); return nil }
func (m *mounter) HugePages(path string, size int64) error {
	m.points, m.pages = append(m.points, path), size
	return nil
}
func (m *mounter) Bind(file *os.File, path string) error {
	m.points = append(m.points, path)
	info, err := file.Stat()
	if err == nil && !info.IsDir() {
		data, readErr := os.ReadFile(file.Name())
		err = errors.Join(readErr, os.WriteFile(path, data, 0o600))
	}
	return err
}
func (m *mounter) Unmount(path string) error {
	for i, p := range m.points {
		if p == path {
			m.points = append(m.points[:i:i], m.points[i+1:]...)
			return nil
		}
	}
	return fmt.Errorf("%s is not mounted", path)
}
func (m *mounter) Below(path string) ([]string, error) {
	var out []string
	for _, p := range m.points {
		if p == path || strings.HasPrefix(p, path+"/") {
			out = append(out, p)
		}
	}
	return out, nil
}

func setup(t *testing.T) (*Manager, *objects, *mounter) {
	t.Helper()
	clk := clocktesting.NewFakeClock(time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC))
	o := &objects{configMaps: map[string]map[string]string{"cm": {"a": "1", "b": "2"}}, clock: clk}
	m := &mounter{}
	return New(Config{RootDir: t.TempDir(), Objects: o, Mounter: m, Clock: clk, Allocatable: func() corev1.ResourceList { return nil }, Drivers: &drivers{}, Certificates: &certificates{}, Device: func(path string) (bool, error) { return filepath.Base(path) == "device", nil }}), o, m
}

// podWith returns a pod whose container mounts one volume.
func podWith(source corev1.VolumeSource) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: "p", Namespace: "ns", UID: "u", Labels: map[string]string{"x": "y"}},
		Spec: corev1.PodSpec{
			Containers: []corev1.Container{{Name: "main", VolumeMounts: []corev1.VolumeMount{{Name: "v", MountPath: "/v"}}}},
			Volumes:    []corev1.Volume{{Name: "v", VolumeSource: source}},
		},
	}
}

// tree lists what a container sees in a folder: "name=content", sorted.
func tree(t *testing.T, dir string) string {
	t.Helper()
	var out []string
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		if strings.HasPrefix(e.Name(), "..") {
			continue
		}
		path := filepath.Join(dir, e.Name())
		info, err := os.Stat(path)
		if err != nil {
			t.Fatal(err)
		}
		if info.IsDir() {
			out = append(out, e.Name()+"/("+tree(t, path)+")")
			continue
		}
		data, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, fmt.Sprintf("%s=%s:%o", e.Name(), data, info.Mode().Perm()))
	}
	return strings.Join(out, " ")
}

func TestWrittenVolumes(t *testing.T) {
	t.Parallel()
	yes, mode := true, int32(0o400)
	local := func(name string) corev1.LocalObjectReference { return corev1.LocalObjectReference{Name: name} }
	for name, test := range map[string]struct {
		source corev1.VolumeSource
		want   string
		err    string
	}{
		"configmap": {corev1.VolumeSource{ConfigMap: &corev1.ConfigMapVolumeSource{LocalObjectReference: local("cm")}}, "a=1:644 b=2:644", ""},
		"items": {corev1.VolumeSource{ConfigMap: &corev1.ConfigMapVolumeSource{LocalObjectReference: local("cm"), Items: []corev1.KeyToPath{
			{Key: "a", Path: "deep/er/a"}, {Key: "b", Path: "b", Mode: &mode}}}}, "b=2:400 deep/(er/(a=1:644))", ""},
		"mode": {corev1.VolumeSource{ConfigMap: &corev1.ConfigMapVolumeSource{LocalObjectReference: local("cm"), DefaultMode: &mode}}, "a=1:400 b=2:400", ""},
		"no such key": {corev1.VolumeSource{ConfigMap: &corev1.ConfigMapVolumeSource{LocalObjectReference: local("cm"), Items: []corev1.KeyToPath{{Key: "z", Path: "z"}}}},
			"", `MountVolume.SetUp failed for volume "v" : configmap references non-existent config key: z`},
		"no such configmap": {corev1.VolumeSource{ConfigMap: &corev1.ConfigMapVolumeSource{LocalObjectReference: local("none")}},
			"", `MountVolume.SetUp failed for volume "v" : configmap "none" not found`},
		"optional": {corev1.VolumeSource{ConfigMap: &corev1.ConfigMapVolumeSource{LocalObjectReference: local("none"), Optional: &yes}}, "", ""},
		"outside": {corev1.VolumeSource{ConfigMap: &corev1.ConfigMapVolumeSource{LocalObjectReference: local("cm"), Items: []corev1.KeyToPath{{Key: "a", Path: "x/../../z"}}}},
			"", `MountVolume.SetUp failed for volume "v" : invalid path "x/../../z": must not contain '..'`},
		"secret": {corev1.VolumeSource{Secret: &corev1.SecretVolumeSource{SecretName: "s"}}, "password=hush:644", ""},
		"downward": {corev1.VolumeSource{DownwardAPI: &corev1.DownwardAPIVolumeSource{Items: []corev1.DownwardAPIVolumeFile{
			{Path: "labels", FieldRef: &corev1.ObjectFieldSelector{FieldPath: "metadata.labels"}}}}}, `labels=x="y":644`, ""},
		"projected": {corev1.VolumeSource{Projected: &corev1.ProjectedVolumeSource{Sources: []corev1.VolumeProjection{
			{ServiceAccountToken: &corev1.ServiceAccountTokenProjection{Path: "token", Audience: "me"}},
			{ConfigMap: &corev1.ConfigMapProjection{LocalObjectReference: local("cm"), Items: []corev1.KeyToPath{{Key: "a", Path: "ca.crt"}}}},
		}}}, "ca.crt=1:644 token=p/me/1:644", ""},
		"two are missing": {corev1.VolumeSource{Projected: &corev1.ProjectedVolumeSource{Sources: []corev1.VolumeProjection{
			{Secret: &corev1.SecretProjection{LocalObjectReference: local("gone")}}, {ConfigMap: &corev1.ConfigMapProjection{LocalObjectReference: local("gone")}},
		}}}, "", `MountVolume.SetUp failed for volume "v" : [secret "gone" not found, configmap "gone" not found]`},
		"rbd": {corev1.VolumeSource{RBD: &corev1.RBDVolumeSource{}}, "", `MountVolume.SetUp failed for volume "v" : volumes of type rbd are not supported by this node`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			m, _, _ := setup(t)
			paths, err := m.Setup(t.Context(), podWith(test.source), &corev1.PodStatus{})
			if test.err != "" {
				if err == nil || err.Error() != test.err {
					t.Fatalf("error %v, want %s", err, test.err)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if got := tree(t, paths.Mounts["v"]); got != test.want {
				t.Errorf("files: %s, want %s", got, test.want)
			}
		})
	}
}

func TestUpdatesAreAtomic(t *testing.T) {
	t.Parallel()
	m, o, _ := setup(t)
	p := podWith(corev1.VolumeSource{ConfigMap: &corev1.ConfigMapVolumeSource{LocalObjectReference: corev1.LocalObjectReference{Name: "cm"}}})
	paths, err := m.Setup(t.Context(), p, &corev1.PodStatus{})
	if err != nil {
		t.Fatal(err)
	}
	dir := paths.Mounts["v"]
	link := func() string {
		target, err := os.Readlink(filepath.Join(dir, "..data"))
		if err != nil {
			t.Fatal(err)
		}
		return target
	}
	first := link()
	if err := m.Refresh(t.Context(), p, &corev1.PodStatus{}); err != nil || link() != first {
		t.Errorf("an update without a change wrote (%v)", err)
	}
	o.configMaps["cm"] = map[string]string{"a": "10", "c": "3"}
	if err := m.Refresh(t.Context(), p, &corev1.PodStatus{}); err != nil {
		t.Fatal(err)
	}
	if got := tree(t, dir); got != "a=10:644 c=3:644" {
		t.Errorf("files: %s", got)
	}
	if _, err := os.Stat(filepath.Join(dir, first)); !os.IsNotExist(err) {
		t.Errorf("the old files are left: %v", err)
	}
	// A reader sees a and b of one update, never of two.
	o.configMaps["cm"] = map[string]string{"a": "0", "b": "0"}
	if err := m.Refresh(t.Context(), p, &corev1.PodStatus{}); err != nil {
		t.Fatal(err)
	}
	stop := make(chan struct{})
	var wg sync.WaitGroup
	wg.Go(func() {
		for {
			select {
			case <-stop:
				return
			default:
			}
			now, err := os.OpenRoot(filepath.Join(dir, "..data"))
			if err != nil {
				continue
			}
			a, errA := now.ReadFile("a")
			b, errB := now.ReadFile("b")
			now.Close()
			if errA == nil && errB == nil && string(a) != string(b) {
				t.Errorf("read %s and %s", a, b)
				return
			}
		}
	})
	for i := range 200 {
		o.configMaps["cm"] = map[string]string{"a": fmt.Sprint(i), "b": fmt.Sprint(i)}
		if err := m.Refresh(t.Context(), p, &corev1.PodStatus{}); err != nil {
			t.Fatal(err)
		}
	}
	close(stop)
	wg.Wait()
}

func TestTokensAreRenewed(t *testing.T) {
	t.Parallel()
	m, o, _ := setup(t)
	seconds := int64(1000)
	p := podWith(corev1.VolumeSource{Projected: &corev1.ProjectedVolumeSource{Sources: []corev1.VolumeProjection{
		{ServiceAccountToken: &corev1.ServiceAccountTokenProjection{Path: "token", ExpirationSeconds: &seconds}},
	}}})
	read := func() string {
		t.Helper()
		paths, err := m.Setup(t.Context(), p, &corev1.PodStatus{})
		if err != nil {
			t.Fatal(err)
		}
		return tree(t, paths.Mounts["v"])
	}
	if got := read(); got != "token=p//1:644" {
		t.Fatalf("first: %s", got)
	}
	o.clock.Step(700 * time.Second)
	if got := read(); got != "token=p//1:644" {
		t.Errorf("after 70 %% of its life: %s", got)
	}
	o.clock.Step(150 * time.Second)
	o.tokenError = errors.New("no API")
	if got := read(); got != "token=p//1:644" {
		t.Errorf("due, without an API: %s", got)
	}
	o.tokenError = nil
	if got := read(); got != "token=p//2:644" {
		t.Errorf("due: %s", got)
	}
	o.clock.Step(2000 * time.Second)
	o.tokenError = errors.New("no API")
	if _, err := m.Setup(t.Context(), p, &corev1.PodStatus{}); err == nil {
		t.Error("a token that has ended is handed out")
	}
}

func TestHostPath(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	file := filepath.Join(dir, "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct {
		path string
		kind corev1.HostPathType
		err  string
	}{
		{dir, corev1.HostPathUnset, ""},
		{dir + "/none", corev1.HostPathUnset, ""},
		{dir, corev1.HostPathDirectory, ""},
		{file, corev1.HostPathDirectory, "hostPath type check failed: " + file + " is not a directory"},
		{dir + "/none", corev1.HostPathDirectory, "hostPath type check failed: " + dir + "/none is not a directory"},
		{dir + "/new/dir", corev1.HostPathDirectoryOrCreate, ""},
		{file, corev1.HostPathFile, ""},
		{dir, corev1.HostPathFile, "hostPath type check failed: " + dir + " is not a file"},
		{dir + "/newfile", corev1.HostPathFileOrCreate, ""},
		{file, corev1.HostPathSocket, "hostPath type check failed: " + file + " is not a socket file"},
		{"/dev/null", corev1.HostPathCharDev, ""},
		{"/dev/null", corev1.HostPathBlockDev, "hostPath type check failed: /dev/null is not a block device"},
	} {
		err := hostPath(&corev1.HostPathVolumeSource{Path: test.path, Type: &test.kind})
		if (err == nil) != (test.err == "") || err != nil && err.Error() != test.err {
			t.Errorf("%s as %q: %v, want %q", test.path, test.kind, err, test.err)
		}
	}
}

func TestSubPathStaysInItsVolume(t *testing.T) {
	t.Parallel()
	m, _, points := setup(t)
	p := podWith(corev1.VolumeSource{})
	volume, outside := t.TempDir(), t.TempDir()
	if err := os.WriteFile(filepath.Join(outside, "secret"), []byte("x"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(outside, filepath.Join(volume, "escape")); err != nil {
		t.Fatal(err)
	}
	for _, sub := range []string{"escape/secret", "../" + filepath.Base(outside)} {
		if target, err := m.SubPath(p, "c", volume, sub); err == nil {
			t.Errorf("%s leads to %s", sub, target)
		}
	}
	target, err := m.SubPath(p, "c", volume, "new/dir")
	if err != nil {
		t.Fatal(err)
	}
	if info, err := os.Stat(filepath.Join(volume, "new", "dir")); err != nil || !info.IsDir() {
		t.Errorf("the folder was not made: %v", err)
	}
	again, err := m.SubPath(p, "c", volume, "new/dir")
	if err != nil || again != target || len(points.points) != 1 {
		t.Errorf("a second run: %s, %v, mounts %v", again, err, points.points)
	}
}

func TestCleanup(t *testing.T) {
	t.Parallel()
	m, _, points := setup(t)
	p := podWith(corev1.VolumeSource{Secret: &corev1.SecretVolumeSource{SecretName: "s"}})
	paths, err := m.Setup(t.Context(), p, &corev1.PodStatus{})
	if err != nil {
		t.Fatal(err)
	}
	if len(points.points) != 1 || points.points[0] != paths.Mounts["v"] {
		t.Errorf("a secret is not in memory: %v", points.points)
	}
	m.Orphans(t.Context(), func(uid types.UID) bool { return true })
	if _, err := os.Stat(paths.Mounts["v"]); err != nil {
		t.Error("a known pod's folder was removed")
	}
	m.Orphans(t.Context(), func(uid types.UID) bool { return false })
	if _, err := os.Stat(paths.Mounts["v"]); !os.IsNotExist(err) || len(points.points) > 0 {
		t.Errorf("an unknown pod's folder is left: %v, mounts %v", err, points.points)
	}
}

// An empty folder of huge pages is mounted once, with pages of the size that the pod asks for.
func TestHugePages(t *testing.T) {
	t.Parallel()
	m, _, points := setup(t)
	p := podWith(corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{Medium: corev1.StorageMediumHugePages}})
	if _, err := m.Setup(t.Context(), p, &corev1.PodStatus{}); err == nil || !strings.Contains(err.Error(), "requests huge pages") {
		t.Errorf("a pod that asks for none: %v", err)
	}
	p.Spec.Containers[0].Resources.Requests = corev1.ResourceList{"hugepages-2Mi": resource.MustParse("4Mi")}
	for range 2 {
		paths, err := m.Setup(t.Context(), p, &corev1.PodStatus{})
		if err != nil || !slices.Equal(points.points, []string{paths.Mounts["v"]}) || points.pages != 2<<20 {
			t.Errorf("%v, mounts %v with pages of %d, %v", paths, points.points, points.pages, err)
		}
	}
}

func TestFSGroupOwnsVolumes(t *testing.T) {
	t.Parallel()
	if os.Getuid() != 0 {
		t.Skip("changing groups needs root")
	}
	group := int64(2000)
	for medium, want := range map[corev1.StorageMedium]os.FileMode{
		corev1.StorageMediumDefault: os.ModeDir | os.ModeSetgid | 0o777,
		corev1.StorageMediumMemory:  os.ModeDir | os.ModeSetgid | os.ModeSticky | 0o777,
	} {
		m, _, _ := setup(t)
		p := podWith(corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{Medium: medium}})
		p.Spec.SecurityContext = &corev1.PodSecurityContext{FSGroup: &group}
		paths, err := m.Setup(t.Context(), p, &corev1.PodStatus{})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := m.SubPath(p, "c", paths.Mounts["v"], "new"); err != nil {
			t.Fatal(err)
		}
		// A folder that is made for a subPath is as open as its volume.
		for _, path := range []string{paths.Mounts["v"], filepath.Join(paths.Mounts["v"], "new")} {
			info, err := os.Stat(path)
			if err != nil {
				t.Fatal(err)
			}
			if info.Mode() != want || groupOf(info) != uint32(group) {
				t.Errorf("medium %q: %s has mode %v, not %v, and group %d", medium, path, info.Mode(), want, groupOf(info))
			}
		}
	}
}

// A token is readable by all, unless it is known who has to read it: the one user of all containers, the pod's group, or both.
func TestTokensBelongToTheirReaders(t *testing.T) {
	t.Parallel()
	if os.Getuid() != 0 {
		t.Skip("changing owners needs root")
	}
	user, other, group := int64(1000), int64(1001), int64(2000)
	run := func(uid *int64) *corev1.SecurityContext { return &corev1.SecurityContext{RunAsUser: uid} }
	for name, tt := range map[string]struct {
		pod        *corev1.PodSecurityContext
		containers []corev1.Container
		want       string
	}{
		"nobody":           {nil, []corev1.Container{{}}, "0:0 -rw-r--r--"},
		"user":             {&corev1.PodSecurityContext{RunAsUser: &user}, []corev1.Container{{}, {}}, "1000:0 -rw-------"},
		"group":            {&corev1.PodSecurityContext{FSGroup: &group}, []corev1.Container{{}}, "0:2000 -rw-r-----"},
		"both":             {&corev1.PodSecurityContext{RunAsUser: &user, FSGroup: &group}, []corev1.Container{{}}, "1000:2000 -rw-r-----"},
		"each its own":     {nil, []corev1.Container{{SecurityContext: run(&user)}, {SecurityContext: run(&other)}}, "0:0 -rw-r--r--"},
		"all the same":     {nil, []corev1.Container{{SecurityContext: run(&user)}, {SecurityContext: run(&user)}}, "1000:0 -rw-------"},
		"one of them says": {nil, []corev1.Container{{SecurityContext: run(&user)}, {}}, "0:0 -rw-r--r--"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			m, _, _ := setup(t)
			p := podWith(corev1.VolumeSource{Projected: &corev1.ProjectedVolumeSource{Sources: []corev1.VolumeProjection{
				{ServiceAccountToken: &corev1.ServiceAccountTokenProjection{Path: "token"}}}}})
			p.Spec.SecurityContext = tt.pod
			p.Spec.Containers[0].SecurityContext = tt.containers[0].SecurityContext
			p.Spec.Containers = append(p.Spec.Containers, tt.containers[1:]...)
			paths, err := m.Setup(t.Context(), p, &corev1.PodStatus{})
			if err != nil {
				t.Fatal(err)
			}
			info, err := os.Stat(filepath.Join(paths.Mounts["v"], "token"))
			if err != nil {
				t.Fatal(err)
			}
			stat := info.Sys().(*syscall.Stat_t)
			if got := fmt.Sprintf("%d:%d %v", stat.Uid, stat.Gid, info.Mode()); got != tt.want {
				t.Errorf("token is %s, want %s", got, tt.want)
			}
		})
	}
}
