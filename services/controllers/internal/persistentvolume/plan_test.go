package persistentvolume

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
)

func size(text string) corev1.ResourceList {
	return corev1.ResourceList{corev1.ResourceStorage: resource.MustParse(text)}
}

type change[T any] func(T)

func newClaim(changes ...change[*corev1.PersistentVolumeClaim]) *corev1.PersistentVolumeClaim {
	c := &corev1.PersistentVolumeClaim{
		ObjectMeta: metav1.ObjectMeta{Namespace: "n", Name: "c", UID: "uid-c", Annotations: map[string]string{}},
		Spec: corev1.PersistentVolumeClaimSpec{
			StorageClassName: ptr.To("fast"), AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
			Resources: corev1.VolumeResourceRequirements{Requests: size("2Gi")},
		},
		Status: corev1.PersistentVolumeClaimStatus{Phase: corev1.ClaimPending},
	}
	for _, f := range changes {
		f(c)
	}
	return c
}

func newVolume(name, capacity string, changes ...change[*corev1.PersistentVolume]) *corev1.PersistentVolume {
	v := &corev1.PersistentVolume{
		ObjectMeta: metav1.ObjectMeta{Name: name, Annotations: map[string]string{}},
		Spec: corev1.PersistentVolumeSpec{
			StorageClassName: "fast", AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce}, Capacity: size(capacity),
			PersistentVolumeReclaimPolicy: corev1.PersistentVolumeReclaimRetain,
		},
		Status: corev1.PersistentVolumeStatus{Phase: corev1.VolumeAvailable},
	}
	for _, f := range changes {
		f(v)
	}
	return v
}

func refTo(name string, uid types.UID) change[*corev1.PersistentVolume] {
	return func(v *corev1.PersistentVolume) {
		v.Spec.ClaimRef = &corev1.ObjectReference{Kind: "PersistentVolumeClaim", APIVersion: "v1", Namespace: "n", Name: name, UID: uid}
	}
}

func annotated[T metav1.Object](key, value string) change[T] {
	return func(o T) { o.GetAnnotations()[key] = value }
}

func inPhaseOf(p corev1.PersistentVolumePhase) change[*corev1.PersistentVolume] {
	return func(v *corev1.PersistentVolume) { v.Status.Phase = p }
}

func modes(list ...corev1.PersistentVolumeAccessMode) change[*corev1.PersistentVolume] {
	return func(v *corev1.PersistentVolume) { v.Spec.AccessModes = list }
}

func named(volume string) change[*corev1.PersistentVolumeClaim] {
	return func(c *corev1.PersistentVolumeClaim) { c.Spec.VolumeName = volume }
}

func classed(name *string) change[*corev1.PersistentVolumeClaim] {
	return func(c *corev1.PersistentVolumeClaim) { c.Spec.StorageClassName = name }
}

func TestMatch(t *testing.T) {
	t.Parallel()
	block := corev1.PersistentVolumeBlock
	for name, test := range map[string]struct {
		claim   *corev1.PersistentVolumeClaim
		volumes []*corev1.PersistentVolume
		delayed bool
		want    string
	}{
		"smallest that is enough":     {newClaim(), []*corev1.PersistentVolume{newVolume("big", "9Gi"), newVolume("fits", "3Gi"), newVolume("small", "1Gi")}, false, "fits"},
		"none is enough":              {newClaim(), []*corev1.PersistentVolume{newVolume("small", "1Gi")}, false, ""},
		"of equals the first by name": {newClaim(), []*corev1.PersistentVolume{newVolume("b", "3Gi"), newVolume("a", "3Gi")}, false, "a"},
		"fewest access modes":         {newClaim(), []*corev1.PersistentVolume{newVolume("all", "2Gi", modes(corev1.ReadWriteOnce, corev1.ReadWriteMany)), newVolume("one", "5Gi")}, false, "one"},
		"access mode":                 {newClaim(), []*corev1.PersistentVolume{newVolume("a", "2Gi", modes(corev1.ReadOnlyMany))}, false, ""},
		"class":                       {newClaim(), []*corev1.PersistentVolume{newVolume("a", "2Gi", func(v *corev1.PersistentVolume) { v.Spec.StorageClassName = "slow" })}, false, ""},
		"no class":                    {newClaim(classed(nil)), []*corev1.PersistentVolume{newVolume("a", "2Gi", func(v *corev1.PersistentVolume) { v.Spec.StorageClassName = "" })}, false, "a"},
		"block":                       {newClaim(), []*corev1.PersistentVolume{newVolume("a", "2Gi", func(v *corev1.PersistentVolume) { v.Spec.VolumeMode = &block })}, false, ""},
		"class of attributes":         {newClaim(func(c *corev1.PersistentVolumeClaim) { c.Spec.VolumeAttributesClassName = ptr.To("gold") }), []*corev1.PersistentVolume{newVolume("a", "2Gi")}, false, ""},
		"selector": {newClaim(func(c *corev1.PersistentVolumeClaim) {
			c.Spec.Selector = &metav1.LabelSelector{MatchLabels: map[string]string{"disk": "ssd"}}
		}), []*corev1.PersistentVolume{newVolume("a", "2Gi"), newVolume("b", "4Gi", func(v *corev1.PersistentVolume) { v.Labels = map[string]string{"disk": "ssd"} })}, false, "b"},
		"not yet available":       {newClaim(), []*corev1.PersistentVolume{newVolume("a", "2Gi", inPhaseOf(corev1.VolumePending))}, false, ""},
		"another's":               {newClaim(), []*corev1.PersistentVolume{newVolume("a", "2Gi", refTo("other", ""))}, false, ""},
		"reserved by name":        {newClaim(), []*corev1.PersistentVolume{newVolume("a", "2Gi"), newVolume("mine", "9Gi", refTo("c", ""))}, false, "mine"},
		"reserved for a namesake": {newClaim(), []*corev1.PersistentVolume{newVolume("was", "2Gi", refTo("c", "uid-older"))}, false, ""},
		"delayed":                 {newClaim(), []*corev1.PersistentVolume{newVolume("a", "2Gi")}, true, ""},
		"delayed, but reserved":   {newClaim(), []*corev1.PersistentVolume{newVolume("a", "2Gi", refTo("c", "uid-c"))}, true, "a"},
		"going":                   {newClaim(), []*corev1.PersistentVolume{newVolume("a", "2Gi", func(v *corev1.PersistentVolume) { v.DeletionTimestamp = &metav1.Time{} })}, false, ""},
	} {
		v, err := Match(test.claim, test.volumes, test.delayed)
		got := ""
		if v != nil {
			got = v.Name
		}
		if got != test.want || err != nil {
			t.Errorf("%s: %q, %v; want %q", name, got, err, test.want)
		}
	}
}

func newClass(mode storagev1.VolumeBindingMode) *storagev1.StorageClass {
	return &storagev1.StorageClass{ObjectMeta: metav1.ObjectMeta{Name: "fast"}, Provisioner: "x.example.com", VolumeBindingMode: &mode}
}

func TestDecideClaim(t *testing.T) {
	t.Parallel()
	const (
		completed = "pv.kubernetes.io/bind-completed"
		byUs      = "pv.kubernetes.io/bound-by-controller"
		selected  = "volume.kubernetes.io/selected-node"
		asked     = "volume.kubernetes.io/storage-provisioner"
	)
	type pvc = *corev1.PersistentVolumeClaim
	first := newClass(storagev1.VolumeBindingWaitForFirstConsumer)
	at := func(provisioner string) *storagev1.StorageClass {
		c := newClass(storagev1.VolumeBindingImmediate)
		c.Provisioner = provisioner
		return c
	}
	for name, test := range map[string]struct {
		s                  Situation
		bind, phase, event string
		writes             func(c pvc) bool
		look               bool
	}{
		"a volume suits": {s: Situation{Claim: newClaim(), Candidates: []*corev1.PersistentVolume{newVolume("a", "2Gi")}}, bind: "a"},
		"nothing, no class": {s: Situation{Claim: newClaim(classed(ptr.To("")))}, phase: "Pending",
			event: "FailedBinding: no persistent volumes available for this claim and no storage class is set"},
		"a default class came": {s: Situation{Claim: newClaim(classed(nil)), Default: first}, writes: func(c pvc) bool { return *c.Spec.StorageClassName == "fast" }},
		"no default for who wants none": {s: Situation{Claim: newClaim(classed(ptr.To(""))), Default: first}, phase: "Pending",
			event: "FailedBinding: no persistent volumes available for this claim and no storage class is set"},
		"waits for a consumer": {s: Situation{Claim: newClaim(), Class: first}, phase: "Pending", event: "WaitForFirstConsumer: waiting for first consumer to be created before binding"},
		"waits for a pod":      {s: Situation{Claim: newClaim(), Class: first, Waiting: []string{"p"}}, phase: "Pending", event: "WaitForPodScheduled: waiting for pod p to be scheduled"},
		"waits for pods":       {s: Situation{Claim: newClaim(), Class: first, Waiting: []string{"p", "q"}}, phase: "Pending", event: "WaitForPodScheduled: waiting for pods p,q to be scheduled"},
		"no such class":        {s: Situation{Claim: newClaim()}, event: `ProvisioningFailed: storageclass.storage.k8s.io "fast" not found`},
		"no provisioner":       {s: Situation{Claim: newClaim(), Class: at("kubernetes.io/no-provisioner")}, event: "ProvisioningFailed: no volume plugin matched name: kubernetes.io/no-provisioner"},
		"a node is selected": {s: Situation{Claim: newClaim(annotated[pvc](selected, "node-1")), Class: first}, event: "ExternalProvisioning: ",
			writes: func(c pvc) bool {
				return c.Annotations[asked] == "x.example.com" && c.Annotations["volume.beta.kubernetes.io/storage-provisioner"] == "x.example.com"
			}},
		"asked already": {s: Situation{Claim: newClaim(annotated[pvc](asked, "x.example.com")), Class: at("x.example.com")}, event: "ExternalProvisioning: "},
		"a driver took over": {s: Situation{Claim: newClaim(), Class: at("kubernetes.io/gce-pd")}, event: "ExternalProvisioning: ",
			writes: func(c pvc) bool { return c.Annotations[asked] == "pd.csi.storage.gke.io" }},

		"asks for one that is not there": {s: Situation{Claim: newClaim(named("a"))}, phase: "Pending"},
		"asks for one that is free":      {s: Situation{Claim: newClaim(named("a")), Volume: newVolume("a", "2Gi")}, bind: "a"},
		"asks for one that is too small": {s: Situation{Claim: newClaim(named("a")), Volume: newVolume("a", "1Gi")}, phase: "Pending",
			event: `VolumeMismatch: Cannot bind to requested volume "a": requested PV is too small`},
		"asks for one of another class": {s: Situation{Claim: newClaim(named("a"), classed(ptr.To(""))), Volume: newVolume("a", "2Gi")}, phase: "Pending",
			event: `VolumeMismatch: Cannot bind to requested volume "a": storageClassName does not match`},
		"asks for one with other modes": {s: Situation{Claim: newClaim(named("a")), Volume: newVolume("a", "2Gi", modes(corev1.ReadOnlyMany))}, phase: "Pending",
			event: `VolumeMismatch: Cannot bind to requested volume "a": incompatible accessMode`},
		"asks for one that is reserved for it": {s: Situation{Claim: newClaim(named("a")), Volume: newVolume("a", "1Gi", refTo("c", ""))}, bind: "a"},
		"asks for one that has another": {s: Situation{Claim: newClaim(named("a")), Volume: newVolume("a", "2Gi", refTo("d", "uid-d"))}, phase: "Pending",
			event: `FailedBinding: volume "a" already bound to a different claim.`},
		"lost its note of being bound": {s: Situation{Claim: newClaim(named("a"), annotated[pvc](byUs, "yes")), Volume: newVolume("a", "2Gi", refTo("d", "uid-d"))},
			event: `FailedBinding: volume "a" already bound to a different claim.`},

		"bound":                               {s: Situation{Claim: newClaim(named("a"), annotated[pvc](completed, "yes")), Volume: newVolume("a", "2Gi", refTo("c", "uid-c"))}, bind: "a"},
		"bound, and the volume does not know": {s: Situation{Claim: newClaim(named("a"), annotated[pvc](completed, "yes")), Volume: newVolume("a", "2Gi")}, bind: "a"},
		"bound, and the volume may be gone":   {s: Situation{Claim: newClaim(named("a"), annotated[pvc](completed, "yes"))}, look: true},
		"bound, and the volume is gone": {s: Situation{Claim: newClaim(named("a"), annotated[pvc](completed, "yes")), Current: true}, phase: "Lost",
			event: "ClaimLost: Bound claim has lost its PersistentVolume. Data on the volume is lost!"},
		"bound to nothing": {s: Situation{Claim: newClaim(annotated[pvc](completed, "yes")), Current: true}, phase: "Lost",
			event: "ClaimLost: Bound claim has lost reference to PersistentVolume. Data on the volume is lost!"},
		"bound to another's": {s: Situation{Claim: newClaim(named("a"), annotated[pvc](completed, "yes")), Volume: newVolume("a", "2Gi", refTo("c", "uid-older")), Current: true}, phase: "Lost",
			event: "ClaimMisbound: Two claims are bound to the same volume, this one is bound incorrectly"},
	} {
		plan := DecideClaim(test.s)
		bind, event := "", ""
		if plan.Bind != nil {
			bind = plan.Bind.Name
		}
		if plan.Event != nil {
			event = plan.Event.Reason + ": " + plan.Event.Message
		}
		if len(event) > len("ExternalProvisioning: ") && plan.Event.Reason == "ExternalProvisioning" {
			event = "ExternalProvisioning: "
		}
		if bind != test.bind || string(plan.Phase) != test.phase || event != test.event || plan.Look != test.look {
			t.Errorf("%s: binds %q, phase %q, event %q, looks %v; want %q, %q, %q, %v", name, bind, plan.Phase, event, plan.Look, test.bind, test.phase, test.event, test.look)
		}
		if (plan.Claim != nil) != (test.writes != nil) || plan.Claim != nil && !test.writes(plan.Claim) {
			t.Errorf("%s: writes %v", name, plan.Claim)
		}
	}
}

func TestDecideVolume(t *testing.T) {
	t.Parallel()
	type pv = *corev1.PersistentVolume
	policy := func(p corev1.PersistentVolumeReclaimPolicy) change[pv] {
		return func(v pv) { v.Spec.PersistentVolumeReclaimPolicy = p }
	}
	hostPath := func(path string) change[pv] {
		return func(v pv) { v.Spec.HostPath = &corev1.HostPathVolumeSource{Path: path} }
	}
	const made = "pv.kubernetes.io/provisioned-by"
	mine, gone := refTo("c", "uid-c"), inPhaseOf(corev1.VolumeReleased)
	remove := policy(corev1.PersistentVolumeReclaimDelete)
	block := corev1.PersistentVolumeBlock
	for name, test := range map[string]struct {
		volume       pv
		claim        *corev1.PersistentVolumeClaim
		current      bool
		recycles     bool
		phase, event string
		look         bool
		release      bool
		wakes        bool
	}{
		"new":                     {volume: newVolume("a", "2Gi", inPhaseOf(corev1.VolumePending)), phase: "Available"},
		"free":                    {volume: newVolume("a", "2Gi")},
		"reserved by name":        {volume: newVolume("a", "2Gi", refTo("c", ""), inPhaseOf(corev1.VolumePending)), claim: newClaim(), phase: "Available"},
		"half bound":              {volume: newVolume("a", "2Gi", mine), claim: newClaim(), wakes: true},
		"bound":                   {volume: newVolume("a", "2Gi", mine), claim: newClaim(named("a")), phase: "Bound"},
		"the claim may be gone":   {volume: newVolume("a", "2Gi", mine, inPhaseOf(corev1.VolumeBound)), look: true},
		"the claim is gone":       {volume: newVolume("a", "2Gi", mine, inPhaseOf(corev1.VolumeBound)), current: true, phase: "Released"},
		"there may be a namesake": {volume: newVolume("a", "2Gi", refTo("c", "uid-older"), inPhaseOf(corev1.VolumeBound)), claim: newClaim(), look: true},
		"there is a namesake":     {volume: newVolume("a", "2Gi", refTo("c", "uid-older"), inPhaseOf(corev1.VolumeBound)), claim: newClaim(), current: true, phase: "Released"},
		"retained":                {volume: newVolume("a", "2Gi", mine, gone)},
		"recycled":                {volume: newVolume("a", "2Gi", mine, gone, policy(corev1.PersistentVolumeReclaimRecycle)), phase: "Failed", event: "VolumeFailedRecycle: No recycler plugin found for the volume!"},
		"wiped by another":        {volume: newVolume("a", "2Gi", mine, gone, policy(corev1.PersistentVolumeReclaimRecycle), hostPath("/srv")), recycles: true},
		"not wiped by anybody":    {volume: newVolume("a", "2Gi", mine, gone, policy(corev1.PersistentVolumeReclaimRecycle)), recycles: true, phase: "Failed", event: "VolumeFailedRecycle: No recycler plugin found for the volume!"},
		"failed stays":            {volume: newVolume("a", "2Gi", mine, inPhaseOf(corev1.VolumeFailed), policy(corev1.PersistentVolumeReclaimRecycle))},
		"no policy":               {volume: newVolume("a", "2Gi", mine, gone, policy("Burn")), phase: "Failed", event: "VolumeUnknownReclaimPolicy: Volume has unrecognized PersistentVolumeReclaimPolicy"},
		"deleted by who made it":  {volume: newVolume("a", "2Gi", mine, gone, remove, annotated[pv](made, "x.example.com"))},
		"deleted by a driver":     {volume: newVolume("a", "2Gi", mine, gone, remove, func(v pv) { v.Spec.CSI = &corev1.CSIPersistentVolumeSource{} })},
		"deleted by whom?":        {volume: newVolume("a", "2Gi", mine, gone, remove, annotated[pv](made, "kubernetes.io/rbd")), phase: "Failed", event: "VolumeFailedDelete: no volume plugin matched name: kubernetes.io/rbd"},
		"deleted by nobody":       {volume: newVolume("a", "2Gi", mine, gone, remove), phase: "Failed", event: `VolumeFailedDelete: error getting deleter volume plugin for volume "a": no volume plugin matched`},
		"a folder is not deleted": {volume: newVolume("a", "2Gi", mine, gone, remove, hostPath("/etc")), phase: "Failed", event: "VolumeFailedDelete: host_path deleter only supports /tmp/.+ but received provided /etc"},
		"the claim has another":   {volume: newVolume("a", "2Gi", mine), claim: newClaim(named("b")), release: true},
		"made, but not needed":    {volume: newVolume("a", "2Gi", mine, remove, annotated[pv](made, "x.example.com")), claim: newClaim(named("b")), phase: "Released"},
		"half bound, another mode": {volume: newVolume("a", "2Gi", mine, func(v pv) { v.Spec.VolumeMode = &block }), claim: newClaim(),
			event: `VolumeMismatch: Cannot bind PersistentVolume to requested PersistentVolumeClaim "c" due to incompatible volumeMode.`},
	} {
		plan := DecideVolume(test.volume, test.claim, test.current, test.recycles)
		event := ""
		if plan.Event != nil {
			event = plan.Event.Reason + ": " + plan.Event.Message
		}
		if string(plan.Phase) != test.phase || event != test.event || plan.Look != test.look || plan.Release != test.release || plan.Claim != test.wakes {
			t.Errorf("%s: %+v, event %q", name, plan, event)
		}
	}
}

func TestWhatIsToldOfAClaim(t *testing.T) {
	t.Parallel()
	v := newVolume("a", "5Gi", modes(corev1.ReadWriteOnce, corev1.ReadOnlyMany))
	c, changed := told(newClaim(), corev1.ClaimBound, v)
	if got := c.Status.Capacity[corev1.ResourceStorage]; !changed || got.String() != "5Gi" || len(c.Status.AccessModes) != 2 || c.Status.Phase != corev1.ClaimBound {
		t.Fatalf("status %v", c.Status)
	}
	if _, changed := told(c, corev1.ClaimBound, v); changed {
		t.Error("told again")
	}
	v.Spec.Capacity = size("9Gi") // the volume grows before its file system does
	if _, changed := told(c, corev1.ClaimBound, v); changed {
		t.Error("the capacity is told before the file system has it")
	}
	c, changed = told(c, corev1.ClaimLost, nil)
	if !changed || c.Status.Capacity != nil || c.Status.AccessModes != nil {
		t.Errorf("status of the lost %v", c.Status)
	}
}

func TestDefaultClass(t *testing.T) {
	t.Parallel()
	class := func(name string, at int64, isDefault string) *storagev1.StorageClass {
		return &storagev1.StorageClass{ObjectMeta: metav1.ObjectMeta{
			Name: name, CreationTimestamp: metav1.NewTime(time.Unix(at, 0)), Annotations: map[string]string{"storageclass.kubernetes.io/is-default-class": isDefault},
		}}
	}
	if c := DefaultClass([]*storagev1.StorageClass{class("x", 9, "false")}); c != nil {
		t.Errorf("got %s", c.Name)
	}
	if c := DefaultClass([]*storagev1.StorageClass{class("a", 1, "true"), class("c", 2, "true"), class("b", 2, "true"), class("x", 9, "")}); c == nil || c.Name != "b" {
		t.Errorf("got %v", c)
	}
}
