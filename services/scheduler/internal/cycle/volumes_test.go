package cycle

import (
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/component-helpers/storage/volume"
	"k8s.io/utils/ptr"

	"howdah.dev/services/scheduler/internal/cluster"
	"howdah.dev/services/scheduler/internal/preempt"
)

func using(claims ...string) func(*corev1.Pod) {
	return func(p *corev1.Pod) {
		for _, c := range claims {
			p.Spec.Volumes = append(p.Spec.Volumes, corev1.Volume{Name: c, VolumeSource: corev1.VolumeSource{PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: c}}})
		}
	}
}

func having(sources ...corev1.VolumeSource) func(*corev1.Pod) {
	return func(p *corev1.Pod) {
		for i, s := range sources {
			p.Spec.Volumes = append(p.Spec.Volumes, corev1.Volume{Name: fmt.Sprint("v", i), VolumeSource: s})
		}
	}
}

// pvc is a claim of 1Gi, bound where a volume is named.
func pvc(name, class, pv string, modes ...corev1.PersistentVolumeAccessMode) *corev1.PersistentVolumeClaim {
	c := &corev1.PersistentVolumeClaim{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name, UID: types.UID(name), ResourceVersion: "1"},
		Spec: corev1.PersistentVolumeClaimSpec{StorageClassName: &class, VolumeName: pv, AccessModes: modes,
			Resources: corev1.VolumeResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")}}},
	}
	if pv != "" {
		metav1.SetMetaDataAnnotation(&c.ObjectMeta, volume.AnnBindCompleted, "yes")
	}
	return c
}

// disk is an available volume of 1Gi, of the driver csi.example.com, and on one node if one is named.
func disk(name, class, node string, labels map[string]string) *corev1.PersistentVolume {
	pv := &corev1.PersistentVolume{
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: labels, ResourceVersion: "1"},
		Spec: corev1.PersistentVolumeSpec{
			StorageClassName: class, Capacity: corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")},
			PersistentVolumeSource: corev1.PersistentVolumeSource{CSI: &corev1.CSIPersistentVolumeSource{Driver: "csi.example.com", VolumeHandle: name}},
		},
		Status: corev1.PersistentVolumeStatus{Phase: corev1.VolumeAvailable},
	}
	if node != "" {
		pv.Spec.NodeAffinity = &corev1.VolumeNodeAffinity{Required: &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{{
			MatchExpressions: []corev1.NodeSelectorRequirement{{Key: corev1.LabelHostname, Operator: corev1.NodeSelectorOpIn, Values: []string{node}}},
		}}}}
	}
	return pv
}

func csiNode(name string, limit int32) *storagev1.CSINode {
	return &storagev1.CSINode{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: storagev1.CSINodeSpec{Drivers: []storagev1.CSINodeDriver{
		{Name: "csi.example.com", Allocatable: &storagev1.VolumeNodeResources{Count: ptr.To(limit)}}, {Name: "unlimited.example.com"},
	}}}
}

func attached(node, pv string) *storagev1.VolumeAttachment {
	return &storagev1.VolumeAttachment{ObjectMeta: metav1.ObjectMeta{Name: node + pv}, Spec: storagev1.VolumeAttachmentSpec{
		Attacher: "csi.example.com", NodeName: node, Source: storagev1.VolumeAttachmentSource{PersistentVolumeName: &pv}}}
}

// stored is the snapshot with storage. The class "late" waits for pods and can provision, "local" waits and cannot.
func stored(s cluster.Snapshot, objects ...any) cluster.Snapshot {
	c := cluster.NewCache().Storage
	for name, provisioner := range map[string]string{"late": "csi.example.com", "local": volume.NotSupportedProvisioner} {
		c.SetClass(&storagev1.StorageClass{ObjectMeta: metav1.ObjectMeta{Name: name}, Provisioner: provisioner, VolumeBindingMode: ptr.To(storagev1.VolumeBindingWaitForFirstConsumer)})
	}
	for _, o := range objects {
		switch o := o.(type) {
		case *corev1.PersistentVolumeClaim:
			c.SetClaim(o)
		case *corev1.PersistentVolume:
			c.SetVolume(o)
		case *storagev1.CSINode:
			c.SetCSINode(o)
		case *storagev1.VolumeAttachment:
			c.SetAttachment(o)
		}
	}
	s.Storage = c.View()
	return s
}

func TestVolumesRefuse(t *testing.T) {
	t.Parallel()
	in := func(labels map[string]string) func(*corev1.Node) {
		return func(n *corev1.Node) {
			for k, v := range labels {
				n.Labels[k] = v
			}
		}
	}
	zone := func(z string) map[string]string { return map[string]string{corev1.LabelTopologyZone: z} }
	old := func(z string) map[string]string { return map[string]string{corev1.LabelFailureDomainBetaZone: z} }
	gce := func(name string, readOnly bool) corev1.VolumeSource {
		return corev1.VolumeSource{GCEPersistentDisk: &corev1.GCEPersistentDiskVolumeSource{PDName: name, ReadOnly: readOnly}}
	}
	ebs := func(id string) corev1.VolumeSource {
		return corev1.VolumeSource{AWSElasticBlockStore: &corev1.AWSElasticBlockStoreVolumeSource{VolumeID: id, ReadOnly: true}}
	}
	iscsi := func(iqn string, readOnly bool) corev1.VolumeSource {
		return corev1.VolumeSource{ISCSI: &corev1.ISCSIVolumeSource{IQN: iqn, ReadOnly: readOnly}}
	}
	rbd := func(image string, readOnly bool, monitors ...string) corev1.VolumeSource {
		return corev1.VolumeSource{RBD: &corev1.RBDVolumeSource{RBDImage: image, CephMonitors: monitors, RBDPool: "p", ReadOnly: readOnly}}
	}
	const (
		noDisk   = "1 node(s) had no available disk"
		inUse    = "1 node(s) unavailable due to PersistentVolumeClaim with ReadWriteOncePod access mode already in-use by another pod"
		noZone   = "1 node(s) had no available volume zone"
		tooMany  = "1 node(s) exceed max volume count"
		conflict = "1 node(s) didn't match PersistentVolume's node affinity"
		none     = "1 node(s) didn't find available persistent volumes to bind"
	)
	once := corev1.ReadWriteOncePod
	// There is one node, n1; pods are on it.
	tests := []struct {
		name    string
		pod     *corev1.Pod
		node    func(*corev1.Node)
		others  []*corev1.Pod
		objects []any
		want    string
	}{
		{"a disk of GCE that another writes", pod("a", "", having(gce("d", true))), nil, []*corev1.Pod{pod("b", "", onNode("n1"), having(gce("d", false)))}, nil, noDisk},
		{"one that all read", pod("a", "", having(gce("d", true))), nil, []*corev1.Pod{pod("b", "", onNode("n1"), having(gce("d", true)))}, nil, ""},
		{"another disk", pod("a", "", having(gce("d", false))), nil, []*corev1.Pod{pod("b", "", onNode("n1"), having(gce("e", false), ebs("d")))}, nil, ""},
		{"a disk of EBS, though read only", pod("a", "", having(ebs("d"))), nil, []*corev1.Pod{pod("b", "", onNode("n1"), having(ebs("d")))}, nil, noDisk},
		{"iSCSI", pod("a", "", having(iscsi("q", false))), nil, []*corev1.Pod{pod("b", "", onNode("n1"), having(iscsi("q", true)))}, nil, noDisk},
		{"iSCSI that all read", pod("a", "", having(iscsi("q", true))), nil, []*corev1.Pod{pod("b", "", onNode("n1"), having(iscsi("q", true)))}, nil, ""},
		{"RBD by a shared monitor", pod("a", "", having(rbd("i", false, "m", "n"))), nil, []*corev1.Pod{pod("b", "", onNode("n1"), having(rbd("i", true, "o", "n")))}, nil, noDisk},
		{"RBD of other monitors", pod("a", "", having(rbd("i", false, "m"))), nil, []*corev1.Pod{pod("b", "", onNode("n1"), having(rbd("i", false, "o")))}, nil, ""},

		{"a claim for one pod that is used", pod("a", "", using("c")), nil, []*corev1.Pod{pod("b", "", onNode("n1"), using("c"))}, []any{pvc("c", "late", "pv", once), disk("pv", "late", "", nil)}, inUse},
		{"a claim for one node", pod("a", "", using("c")), nil, []*corev1.Pod{pod("b", "", onNode("n1"), using("c"))}, []any{pvc("c", "late", "pv", corev1.ReadWriteOnce), disk("pv", "late", "", nil)}, ""},
		{"a namesake's in another namespace", pod("a", "", using("c")), nil, []*corev1.Pod{pod("b", "", onNode("n1"), using("c"), func(p *corev1.Pod) { p.Namespace = "b" })},
			[]any{pvc("c", "late", "pv", once), disk("pv", "late", "", nil)}, ""},

		{"another zone", pod("a", "", using("c")), in(zone("x")), nil, []any{pvc("c", "late", "pv"), disk("pv", "late", "", zone("y"))}, noZone},
		{"one of the zones", pod("a", "", using("c")), in(zone("x")), nil, []any{pvc("c", "late", "pv"), disk("pv", "late", "", zone("y__x"))}, ""},
		{"a node of nowhere", pod("a", "", using("c")), nil, nil, []any{pvc("c", "late", "pv"), disk("pv", "late", "", zone("y"))}, ""},
		{"a node of no zone, in a region", pod("a", "", using("c")), in(map[string]string{corev1.LabelTopologyRegion: "r"}), nil, []any{pvc("c", "late", "pv"), disk("pv", "late", "", zone("y"))}, noZone},
		{"a volume labelled of old", pod("a", "", using("c")), in(zone("x")), nil, []any{pvc("c", "late", "pv"), disk("pv", "late", "", old("x"))}, ""},
		{"a volume labelled of old, elsewhere", pod("a", "", using("c")), in(zone("x")), nil, []any{pvc("c", "late", "pv"), disk("pv", "late", "", old("y"))}, noZone},
		{"a list of zones with a gap says nothing", pod("a", "", using("c")), in(zone("x")), nil, []any{pvc("c", "late", "pv"), disk("pv", "late", "", zone("y__"))}, ""},
		{"a volume that is gone", pod("a", "", using("c")), nil, nil, []any{pvc("c", "late", "pv")}, `=persistentvolume "pv" not found`},

		{"no place for one more", pod("a", "", using("c")), nil, []*corev1.Pod{pod("b", "", onNode("n1"), using("d"))},
			[]any{csiNode("n1", 1), pvc("c", "late", "pv1"), disk("pv1", "late", "", nil), pvc("d", "late", "pv2"), disk("pv2", "late", "", nil)}, tooMany},
		{"a place for one more", pod("a", "", using("c")), nil, []*corev1.Pod{pod("b", "", onNode("n1"), using("d"))},
			[]any{csiNode("n1", 2), pvc("c", "late", "pv1"), disk("pv1", "late", "", nil), pvc("d", "late", "pv2"), disk("pv2", "late", "", nil)}, ""},
		{"the same volume", pod("a", "", using("c")), nil, []*corev1.Pod{pod("b", "", onNode("n1"), using("c"))},
			[]any{csiNode("n1", 1), pvc("c", "late", "pv1"), disk("pv1", "late", "", nil)}, ""},
		{"the same volume, where there are too many already", pod("a", "", using("c")), nil, []*corev1.Pod{pod("b", "", onNode("n1"), using("c", "d"))},
			[]any{csiNode("n1", 1), pvc("c", "late", "pv1"), disk("pv1", "late", "", nil), pvc("d", "late", "pv2"), disk("pv2", "late", "", nil)}, ""},
		{"one is still attached that no pod uses", pod("a", "", using("c")), nil, nil,
			[]any{csiNode("n1", 1), pvc("c", "late", "pv1"), disk("pv1", "late", "", nil), disk("pv2", "late", "", nil), attached("n1", "pv2")}, tooMany},
		{"the pod's own is attached already", pod("a", "", using("c")), nil, nil,
			[]any{csiNode("n1", 1), pvc("c", "late", "pv1"), disk("pv1", "late", "", nil), attached("n1", "pv1")}, ""},
		{"attached to another node", pod("a", "", using("c")), nil, nil,
			[]any{csiNode("n1", 1), pvc("c", "late", "pv1"), disk("pv1", "late", "", nil), disk("pv2", "late", "", nil), attached("n2", "pv2")}, ""},
		{"two that are still to be made", pod("a", "", using("c", "d")), nil, nil, []any{csiNode("n1", 1), pvc("c", "late", ""), pvc("d", "late", "")}, tooMany},
		{"none that is not in need of one", pod("a", "", using("c")), nil, nil, []any{csiNode("n1", 0), pvc("c", "local", ""), disk("pv", "local", "n2", nil)}, none},

		{"a volume on another node", pod("a", "", using("c")), nil, nil, []any{pvc("c", "late", "pv"), disk("pv", "late", "n2", nil)}, conflict},
		{"no volume for a claim", pod("a", "", using("c")), nil, nil, []any{pvc("c", "local", ""), disk("pv", "local", "n2", nil)}, none},
		{"a claim that waits for nobody", pod("a", "", using("c")), nil, nil, []any{pvc("c", "other", "")}, "=pod has unbound immediate PersistentVolumeClaims"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			change := []func(*corev1.Node){}
			if tt.node != nil {
				change = append(change, tt.node)
			}
			s := stored(snapshot([]*corev1.Node{node("n1", "4", "4Gi", change...)}, tt.others...), tt.objects...)
			want := ""
			if tt.want != "" {
				want = "0/1 nodes are available: " + strings.TrimPrefix(tt.want, "=") + "."
			}
			if got := place([]*corev1.Pod{tt.pod}, s)[0]; got.Message != want || (got.Node == "") != (want != "") {
				t.Errorf("got node %q, message %q, want %q", got.Node, got.Message, want)
			}
			explained := Default().Explain(tt.pod, s)
			if explained.Message != want || explained.Nodes[0].Feasible != (want == "") {
				t.Errorf("Explain says %t, %q, want %q", explained.Nodes[0].Feasible, explained.Message, want)
			}
		})
	}
}

// TestAGroupTakesEachVolumeOnce: what the first pods of a group are given is nothing that the next ones find.
func TestAGroupTakesEachVolumeOnce(t *testing.T) {
	t.Parallel()
	nodes := []*corev1.Node{node("n1", "4", "8Gi"), node("n2", "4", "8Gi"), node("n3", "4", "8Gi")}
	all := snapshot(nodes)

	t.Run("pods with claims of their own", func(t *testing.T) {
		t.Parallel()
		s := stored(all, pvc("a", "local", ""), pvc("b", "local", ""), disk("pv1", "local", "n1", nil), disk("pv2", "local", "n2", nil))
		volumes := map[string]string{}
		for _, name := range []string{"a", "b"} {
			p := place([]*corev1.Pod{pod(name, "", using(name))}, s)[0]
			volumes[p.Node] = p.Volumes.Bindings[0].Volume.Name
			s.Storage = s.Storage.With(p.Volumes)
		}
		if volumes["n1"] != "pv1" || volumes["n2"] != "pv2" {
			t.Errorf("got %v", volumes)
		}
	})
	t.Run("pods that share a claim", func(t *testing.T) {
		t.Parallel()
		s := stored(all, pvc("c", "late", ""), disk("pv", "late", "n2", nil))
		placements := place([]*corev1.Pod{pod("a", "", using("c")), pod("b", "", using("c")), pod("c", "", using("c"))}, s)
		on := map[string]bool{}
		for _, p := range placements {
			on[p.Node] = true
			if p.Node == "" || p.Volumes == nil || len(p.Volumes.Bindings)+len(p.Volumes.Provisions) != 1 {
				t.Fatalf("got %+v", p)
			}
		}
		if len(on) != 1 {
			t.Errorf("the claim is on %v at once", on)
		}
	})
	t.Run("pods that share a claim for one", func(t *testing.T) {
		t.Parallel()
		s := stored(all, pvc("c", "late", "pv", corev1.ReadWriteOncePod), disk("pv", "late", "", nil))
		placements := place([]*corev1.Pod{pod("a", "", using("c")), pod("b", "", using("c"))}, s)
		if placements[0].Node == "" || placements[1].Message != "0/3 nodes are available: 3 node(s) unavailable due to PersistentVolumeClaim with ReadWriteOncePod access mode already in-use by another pod." {
			t.Errorf("got %+v", placements)
		}
	})
	t.Run("pods whose claim is bound are placed at once", func(t *testing.T) {
		t.Parallel()
		s := stored(all, pvc("c", "late", "pv"), disk("pv", "late", "", nil))
		if r := newRound(Default(), pod("a", "", using("c")), s, nil); r.across {
			t.Error("one placement a round")
		}
	})
	t.Run("disks of GCE", func(t *testing.T) {
		t.Parallel()
		own := having(corev1.VolumeSource{GCEPersistentDisk: &corev1.GCEPersistentDiskVolumeSource{PDName: "d"}})
		on := map[string]bool{}
		for _, p := range place([]*corev1.Pod{pod("a", "", own), pod("b", "", own), pod("c", "", own)}, all) {
			on[p.Node] = true
		}
		if len(on) != 3 {
			t.Errorf("three pods with one disk are on %v", on)
		}
	})
	t.Run("as many as can be attached", func(t *testing.T) {
		t.Parallel()
		s := stored(snapshot(nodes[:1]), pvc("c", "late", ""), pvc("d", "late", ""), csiNode("n1", 1))
		first := place([]*corev1.Pod{pod("a", "", using("c"))}, s)[0]
		bound := *first.Pod
		bound.Spec.NodeName = first.Node
		s = s.Replacing(s.Nodes[0].With(&bound, cluster.DemandOf(&bound)))
		s.Storage = s.Storage.With(first.Volumes)
		if second := place([]*corev1.Pod{pod("b", "", using("d"))}, s)[0]; second.Node != "" {
			t.Errorf("the second is on %s", second.Node)
		}
	})
}

// TestPreemptionForAClaim: the pod that has a claim which one pod at a time may use makes room for one that is more important; what is refused for
// the sake of the volumes themselves is helped by nobody's end.
func TestPreemptionForAClaim(t *testing.T) {
	t.Parallel()
	holder := pod("holder", "1", priority(1), onNode("n2"), using("c"))
	bystander := pod("bystander", "1", priority(1), onNode("n1"))
	nodes := []*corev1.Node{node("n1", "4", "8Gi"), node("n2", "4", "8Gi")}
	s := stored(snapshot(nodes, holder, bystander), pvc("c", "late", "pv", corev1.ReadWriteOncePod), disk("pv", "late", "", nil))
	incoming := pod("incoming", "1", priority(9), using("c"))
	choose := func(s cluster.Snapshot) (*preempt.Candidate, map[string]int) {
		return preempt.Choose(incoming, s.Nodes, preempt.NewBudgets(nil), Default().Trial(incoming, s), preempt.Default, first, time.Unix(0, 0))
	}
	best, reasons := choose(s)
	if best == nil || best.Node != "n2" || len(best.Victims) != 1 || best.Victims[0].Name != "holder" {
		t.Errorf("got %+v, %v", best, reasons)
	}
	elsewhere := stored(snapshot(nodes, holder, bystander), pvc("c", "late", "pv"), disk("pv", "late", "n3", nil))
	if best, reasons := choose(elsewhere); best != nil || reasons[preempt.NotHelpful] != 2 {
		t.Errorf("got %+v, %v", best, reasons)
	}
	missing := stored(snapshot(nodes, pod("repelling", "1", priority(1), onNode("n1"), apart)))
	if best, reasons := choose(missing); best != nil || reasons[preempt.NotHelpful] != 2 {
		t.Errorf("without its claim: got %+v, %v", best, reasons)
	}
	if refusals := Default().Trial(incoming, missing).Refusals(missing.Nodes[0]); len(refusals) != 1 {
		t.Errorf("without its claim a node refuses it for %q", refusals)
	}
}
