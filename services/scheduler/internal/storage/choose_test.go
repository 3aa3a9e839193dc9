package storage

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/component-helpers/storage/volume"
	"k8s.io/utils/ptr"
)

// decided is a choice as text: claim=volume, claim>node for one that is to be provisioned, and * behind what is not to be written.
func decided(c *Choice) string {
	var parts []string
	for _, b := range c.Bindings {
		part := b.Claim.Name + "=" + b.Volume.Name
		if b.Volume == b.From {
			part += "*"
		}
		parts = append(parts, part)
	}
	for _, p := range c.Provisions {
		part := p.Claim.Name + ">" + p.Claim.Annotations[volume.AnnSelectedNode]
		if p.Claim == p.From {
			part += "*"
		}
		parts = append(parts, part)
	}
	return strings.Join(parts, " ")
}

func TestChoose(t *testing.T) {
	t.Parallel()
	claimLabelled := func(c *corev1.PersistentVolumeClaim) {
		c.Spec.Selector = &metav1.LabelSelector{MatchLabels: map[string]string{"disk": "ssd"}}
	}
	labelled := func(pv *corev1.PersistentVolume) { pv.Labels = map[string]string{"disk": "ssd"} }
	pvPhase := func(p corev1.PersistentVolumePhase) func(*corev1.PersistentVolume) {
		return func(pv *corev1.PersistentVolume) { pv.Status.Phase = p }
	}
	block := func(pv *corev1.PersistentVolume) { pv.Spec.VolumeMode = ptr.To(corev1.PersistentVolumeBlock) }
	going := func(pv *corev1.PersistentVolume) { pv.DeletionTimestamp = &metav1.Time{} }
	shared := func(c *corev1.PersistentVolumeClaim) {
		c.Spec.AccessModes = append(c.Spec.AccessModes, corev1.ReadWriteMany)
	}
	attributes := func(c *corev1.PersistentVolumeClaim) { c.Spec.VolumeAttributesClassName = ptr.To("fast") }
	olderClass := func(pv *corev1.PersistentVolume) {
		pv.Annotations, pv.Spec.StorageClassName = map[string]string{corev1.BetaStorageClassAnnotation: "local"}, ""
	}
	topologies := func(zones ...string) func(*storagev1.StorageClass) {
		return func(c *storagev1.StorageClass) {
			c.AllowedTopologies = []corev1.TopologySelectorTerm{{MatchLabelExpressions: []corev1.TopologySelectorLabelRequirement{{Key: "zone", Values: zones}}}}
		}
	}
	noTopology := func(c *storagev1.StorageClass) { c.AllowedTopologies = []corev1.TopologySelectorTerm{{}} }
	late := func(change ...func(*storagev1.StorageClass)) *storagev1.StorageClass {
		return class("late", provisioner, storagev1.VolumeBindingWaitForFirstConsumer, change...)
	}
	driver := &storagev1.CSIDriver{ObjectMeta: metav1.ObjectMeta{Name: provisioner}, Spec: storagev1.CSIDriverSpec{StorageCapacity: ptr.To(true)}}
	uncounted := &storagev1.CSIDriver{ObjectMeta: metav1.ObjectMeta{Name: provisioner}}
	capacity := func(name, class, total, largest string, zone map[string]string) *storagev1.CSIStorageCapacity {
		c := &storagev1.CSIStorageCapacity{ObjectMeta: metav1.ObjectMeta{Namespace: "kube-system", Name: name}, StorageClassName: class}
		if total != "" {
			c.Capacity = ptr.To(resource.MustParse(total))
		}
		if largest != "" {
			c.MaximumVolumeSize = ptr.To(resource.MustParse(largest))
		}
		if zone != nil {
			c.NodeTopology = &metav1.LabelSelector{MatchLabels: zone}
		}
		return c
	}
	inX := map[string]string{"zone": "x"}

	// Nodes are nx in zone x and ny in zone y.
	tests := []struct {
		name    string
		pod     *corev1.Pod
		objects []any
		x, y    string // the choice, or else the reasons
	}{
		{"bound, reachable from one zone", podWith("a"), []any{claim("a", "late", "1Gi", boundTo("pv")), persistent("pv", "late", "1Gi", reachableFrom("x"))},
			"", outOfReach},
		{"bound to what is gone", podWith("a"), []any{claim("a", "late", "1Gi", boundTo("pv"))}, volumeGone, volumeGone},
		{"the smallest that fits", podWith("a"), []any{claim("a", "local", "5Gi"), persistent("large", "local", "50Gi"), persistent("fits", "local", "6Gi"), persistent("small", "local", "4Gi")},
			"a=fits", "a=fits"},
		{"the smallest that can be reached", podWith("a"), []any{claim("a", "local", "5Gi"), persistent("far", "local", "5Gi", reachableFrom("y")), persistent("near", "local", "9Gi", reachableFrom("x"))},
			"a=near", "a=far"},
		{"none can be reached", podWith("a"), []any{claim("a", "local", "5Gi"), persistent("pv", "local", "5Gi", reachableFrom("x"))},
			"a=pv", noneFits},
		{"small claims choose first, and each another one", podWith("large", "small"),
			[]any{claim("large", "local", "5Gi"), claim("small", "local", "1Gi"), persistent("five", "local", "5Gi"), persistent("six", "local", "6Gi")},
			"small=five large=six", "small=five large=six"},
		{"two claims, one volume", podWith("a", "b"), []any{claim("a", "local", "5Gi"), claim("b", "local", "5Gi"), persistent("pv", "local", "5Gi")},
			noneFits, noneFits},
		{"one claim behind two volumes", podWith("a", "a"), []any{claim("a", "local", "5Gi"), persistent("pv", "local", "5Gi")},
			"a=pv", "a=pv"},
		{"kept for the claim by name, though larger and not available", podWith("a"),
			[]any{claim("a", "local", "1Gi"), persistent("free", "local", "1Gi"), persistent("kept", "local", "9Gi", keptFor("a", ""), pvPhase(corev1.VolumePending))},
			"a=kept", "a=kept"},
		{"the volume that is kept is the only one", podWith("a"),
			[]any{claim("a", "local", "1Gi"), persistent("free", "local", "1Gi"), persistent("kept", "local", "9Gi", keptFor("a", ""), reachableFrom("x"))},
			"a=kept", noneFits},
		{"bound to the claim already, though the claim does not know", podWith("a"), []any{claim("a", "local", "1Gi"), persistent("pv", "local", "1Gi", keptFor("a", "a"))},
			"a=pv*", "a=pv*"},
		{"another's", podWith("a"), []any{claim("a", "local", "1Gi"), persistent("pv", "local", "1Gi", keptFor("b", "b"))}, noneFits, noneFits},
		{"a namesake's that is gone", podWith("a"), []any{claim("a", "local", "1Gi"), persistent("pv", "local", "1Gi", keptFor("a", "older"))}, noneFits, noneFits},
		{"of another class", podWith("a"), []any{claim("a", "local", "1Gi"), persistent("pv", "late", "1Gi")}, noneFits, noneFits},
		{"with the class in the annotation of old", podWith("a"), []any{claim("a", "local", "1Gi"), persistent("pv", "", "1Gi", olderClass)}, "a=pv", "a=pv"},
		{"not available", podWith("a"), []any{claim("a", "local", "1Gi"), persistent("pv", "local", "1Gi", pvPhase(corev1.VolumeReleased))}, noneFits, noneFits},
		{"on its way out", podWith("a"), []any{claim("a", "local", "1Gi"), persistent("pv", "local", "1Gi", going)}, noneFits, noneFits},
		{"block devices are no file systems", podWith("a"), []any{claim("a", "local", "1Gi"), persistent("pv", "local", "1Gi", block)}, noneFits, noneFits},
		{"without the access mode", podWith("a"), []any{claim("a", "local", "1Gi", shared), persistent("pv", "local", "1Gi")}, noneFits, noneFits},
		{"without the attributes", podWith("a"), []any{claim("a", "local", "1Gi", attributes), persistent("pv", "local", "1Gi")}, noneFits, noneFits},
		{"by the claim's selector", podWith("a"), []any{claim("a", "local", "1Gi", claimLabelled), persistent("small", "local", "1Gi"), persistent("ssd", "local", "2Gi", labelled)},
			"a=ssd", "a=ssd"},
		{"provisioned", podWith("a"), []any{claim("a", "late", "1Gi")}, "a>nx", "a>ny"},
		{"found rather than provisioned", podWith("a", "b"), []any{claim("a", "late", "1Gi"), claim("b", "late", "2Gi"), persistent("pv", "late", "1Gi", reachableFrom("x"))},
			"a=pv b>nx", "a>ny b>ny"},
		{"no class can make one", podWith("a"), []any{claim("a", "local", "1Gi")}, noneFits, noneFits},
		{"being provisioned for a node", podWith("a", "b"), []any{claim("a", "late", "1Gi", chosenFor("nx")), claim("b", "late", "2Gi")}, "a>nx* b>nx", noneFits},
		{"where topologies allow it", podWith("a"), []any{late(topologies("y", "z")), claim("a", "late", "1Gi")}, noneFits, "a>ny"},
		{"a topology of nothing", podWith("a"), []any{late(noTopology), claim("a", "late", "1Gi")}, noneFits, noneFits},
		{"where there is room", podWith("a"), []any{driver, capacity("c", "late", "5Gi", "", inX), claim("a", "late", "5Gi")}, "a>nx", noSpace},
		{"where there is room for one of that size", podWith("a"), []any{driver, capacity("c", "late", "50Gi", "4Gi", inX), claim("a", "late", "5Gi")}, noSpace, noSpace},
		{"room of another class, of nowhere, and of unknown size", podWith("a"),
			[]any{driver, capacity("c", "other", "5Gi", "", inX), capacity("d", "late", "5Gi", "", nil), capacity("e", "late", "", "", inX), claim("a", "late", "5Gi")}, noSpace, noSpace},
		{"room is not counted", podWith("a"), []any{uncounted, claim("a", "late", "5Gi")}, "a>nx", "a>ny"},
		{"both kinds of reasons", podWith("a", "b"),
			[]any{claim("a", "late", "1Gi", boundTo("pv")), persistent("pv", "late", "1Gi", reachableFrom("x")), claim("b", "local", "1Gi")},
			noneFits, outOfReach + ", " + noneFits},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			view := filled(tt.objects...).View()
			if why := view.Refusal(tt.pod); why != "" {
				t.Fatal(why)
			}
			wants := WantsOf(tt.pod, view)
			for n, want := range map[*corev1.Node]string{node("nx", "x"): tt.x, node("ny", "y"): tt.y} {
				got := strings.Join(wants.On(n), ", ")
				if got == "" {
					c, err := wants.Choose(n)
					if err != nil {
						t.Fatal(err)
					}
					got = decided(c)
				}
				if got != want {
					t.Errorf("on %s: got %q, want %q", n.Name, got, want)
				}
			}
		})
	}
}

// TestAChoiceIsWhatKubernetesWrites looks at the objects that a choice is made of.
func TestAChoiceIsWhatKubernetesWrites(t *testing.T) {
	t.Parallel()
	objects := []any{claim("free", "local", "1Gi"), claim("kept", "local", "2Gi"), claim("made", "late", "3Gi"),
		persistent("pv1", "local", "1Gi"), persistent("pv2", "local", "2Gi", keptFor("kept", ""))}
	before := filled(objects...).View()
	c, err := WantsOf(podWith("free", "kept", "made"), before).Choose(node("n", "x"))
	if err != nil {
		t.Fatal(err)
	}
	for i, annotated := range []bool{true, false} { // what its user has kept for the claim is not the controller's
		b := c.Bindings[i]
		ref := b.Volume.Spec.ClaimRef
		if ref == nil || ref.Kind != "PersistentVolumeClaim" || ref.APIVersion != "v1" || ref.Namespace != "shop" || ref.Name != b.Claim.Name || ref.UID != b.Claim.UID || ref.ResourceVersion != "10" {
			t.Errorf("%s refers to %+v", b.Volume.Name, ref)
		}
		if (b.Volume.Annotations[volume.AnnBoundByController] == "yes") != annotated {
			t.Errorf("%s has the annotations %v", b.Volume.Name, b.Volume.Annotations)
		}
	}
	if before.Volume("pv1").Spec.ClaimRef != nil || before.Claim("shop", "made").Annotations != nil {
		t.Error("the choice has changed what it was made from")
	}
	after := before.With(c)
	if before.Volume("pv1").Spec.ClaimRef != nil || after.Volume("pv1").Spec.ClaimRef == nil || after.Claim("shop", "made").Annotations[volume.AnnSelectedNode] != "n" {
		t.Error("the view with the choice is not another one")
	}
	if got := WantsOf(podWith("free"), after).On(node("m", "x")); len(got) != 0 {
		t.Errorf("what is chosen for a claim does not do for it: %v", got)
	}
	other := claim("other", "local", "1Gi")
	taken := filled(append(slices.Clone(objects), other)...).View().With(c)
	if got := WantsOf(podWith("other"), taken).On(node("m", "x")); !slices.Equal(got, []string{noneFits}) {
		t.Errorf("another claim gets what is chosen already: %v", got)
	}
}

// BenchmarkWants is what a pod costs whose claim has a volume on each of 1,000 nodes.
func BenchmarkWants(b *testing.B) {
	c := filled(claim("a", "local", "1Gi"))
	var nodes []*corev1.Node
	for i := range 1000 {
		zone := fmt.Sprint("z", i)
		c.SetVolume(persistent("pv-"+zone, "local", "1Gi", reachableFrom(zone)))
		nodes = append(nodes, node("n-"+zone, zone))
	}
	view, pod := c.View(), podWith("a")
	for b.Loop() {
		w := WantsOf(pod, view)
		for _, n := range nodes {
			if len(w.On(n)) != 0 {
				b.Fatal("a node does not do")
			}
		}
	}
}
