package storage

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/component-helpers/storage/volume"
)

// version gives a volume another version.
func version(v string) func(*corev1.PersistentVolume) {
	return func(pv *corev1.PersistentVolume) { pv.ResourceVersion = v }
}

func choose(t *testing.T, c *Cache, node *corev1.Node, claims ...string) *Choice {
	t.Helper()
	w := WantsOf(podWith(claims...), c.View())
	if why := w.On(node); len(why) > 0 {
		t.Fatal(why)
	}
	choice, err := w.Choose(node)
	if err != nil {
		t.Fatal(err)
	}
	return choice
}

// owner is the claim that a volume counts as kept for, "" for none.
func owner(c *Cache, pv string) string {
	v := c.View().Volume(pv)
	if v == nil {
		return "gone"
	}
	if v.Spec.ClaimRef == nil {
		return ""
	}
	return v.Spec.ClaimRef.Name
}

func TestAssumedVolumes(t *testing.T) {
	t.Parallel()
	n := node("n", "x")
	written := func(c *Choice, v string) *corev1.PersistentVolume {
		pv := c.Bindings[0].Volume.DeepCopy()
		pv.ResourceVersion = v
		return pv
	}
	tests := []struct {
		name string
		then func(c *Cache, choice *Choice)
		want string // whose the volume is
	}{
		{"assumed", func(*Cache, *Choice) {}, "a"},
		{"given back", func(c *Cache, choice *Choice) { c.Forget(choice) }, ""},
		{"shown again as it was", func(c *Cache, _ *Choice) { c.SetVolume(persistent("pv", "local", "1Gi")) }, "a"},
		{"shown again, then given back", func(c *Cache, choice *Choice) { c.SetVolume(persistent("pv", "local", "1Gi")); c.Forget(choice) }, ""},
		{"shown otherwise", func(c *Cache, _ *Choice) { c.SetVolume(persistent("pv", "local", "1Gi", version("11"))) }, ""},
		{"gone", func(c *Cache, _ *Choice) { c.DeleteVolume("pv") }, "gone"},
		{"written", func(c *Cache, choice *Choice) { c.WroteVolume(choice.Bindings[0].Volume, written(choice, "12")) }, "a"},
		{"written, and given back", func(c *Cache, choice *Choice) {
			c.WroteVolume(choice.Bindings[0].Volume, written(choice, "12"))
			c.Forget(choice)
		}, "a"},
		{"written, and shown older", func(c *Cache, choice *Choice) {
			c.WroteVolume(choice.Bindings[0].Volume, written(choice, "12"))
			c.SetVolume(persistent("pv", "local", "1Gi", version("11")))
		}, "a"},
		{"written, and unbound by another", func(c *Cache, choice *Choice) {
			c.WroteVolume(choice.Bindings[0].Volume, written(choice, "12"))
			c.SetVolume(written(choice, "12"))
			c.SetVolume(persistent("pv", "local", "1Gi", version("13")))
		}, ""},
		{"shown before the write is answered", func(c *Cache, choice *Choice) {
			c.SetVolume(persistent("pv", "local", "1Gi", version("13")))
			c.WroteVolume(choice.Bindings[0].Volume, written(choice, "12"))
		}, ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			c := filled(claim("a", "local", "1Gi"), persistent("pv", "local", "1Gi"))
			before := c.View()
			choice := choose(t, c, n, "a")
			if !c.Assume(choice) {
				t.Fatal("what nobody has changed cannot be assumed")
			}
			tt.then(c, choice)
			if got := owner(c, "pv"); got != tt.want {
				t.Errorf("the volume is %q's, want %q's", got, tt.want)
			}
			if before.Volume("pv").Spec.ClaimRef != nil {
				t.Error("a view has changed")
			}
		})
	}
}

// TestNothingIsAssumedThatTheAPIShows: else what is assumed would gather for ever.
func TestNothingIsAssumedThatTheAPIShows(t *testing.T) {
	t.Parallel()
	c := filled(claim("a", "local", "1Gi"), claim("b", "late", "2Gi"), persistent("pv", "local", "1Gi"))
	choice := choose(t, c, node("n", "x"), "a", "b")
	c.Assume(choice)
	if len(c.volumes)+len(c.claims) != 2 {
		t.Fatalf("assumed: %v %v", c.volumes, c.claims)
	}
	pv, made := choice.Bindings[0].Volume.DeepCopy(), choice.Provisions[0].Claim.DeepCopy()
	pv.ResourceVersion, made.ResourceVersion = "11", "12"
	c.WroteVolume(choice.Bindings[0].Volume, pv)
	c.WroteClaim(choice.Provisions[0].Claim, made)
	c.SetVolume(pv.DeepCopy())
	c.SetClaim(made.DeepCopy())
	if len(c.volumes)+len(c.claims) != 0 {
		t.Errorf("still assumed: %v %v", c.volumes, c.claims)
	}
}

func TestWhatHasChangedCannotBeAssumed(t *testing.T) {
	t.Parallel()
	n := node("n", "x")
	for name, change := range map[string]func(c *Cache){
		"another version": func(c *Cache) { c.SetVolume(persistent("pv", "local", "1Gi", version("11"))) },
		"gone":            func(c *Cache) { c.DeleteVolume("pv") },
		"assumed for another pod": func(c *Cache) {
			w := WantsOf(podWith("b"), c.View())
			other, _ := w.Choose(n)
			c.Assume(other)
		},
		"provisioned for another pod": func(c *Cache) {
			other, _ := WantsOf(podWith("made"), c.View()).Choose(node("m", "x"))
			c.Assume(other)
		},
	} {
		c := filled(claim("a", "local", "1Gi"), claim("b", "local", "1Gi"), claim("made", "late", "1Gi"), persistent("pv", "local", "1Gi"))
		choice := choose(t, c, n, "a", "made")
		change(c)
		if before := owner(c, "pv"); c.Assume(choice) || owner(c, "pv") != before {
			t.Errorf("%s: assumed nevertheless, or in part", name)
		}
	}
}

func TestAssumedClaims(t *testing.T) {
	t.Parallel()
	c := filled(claim("a", "late", "1Gi"))
	selected := func() string { return c.View().Claim("shop", "a").Annotations[volume.AnnSelectedNode] }
	choice := choose(t, c, node("n", "x"), "a")
	if !c.Assume(choice) || selected() != "n" {
		t.Fatalf("the claim is for %q", selected())
	}
	if got := WantsOf(podWith("a"), c.View()).On(node("m", "x")); len(got) == 0 {
		t.Error("another node does for a claim that is assumed for one")
	}
	c.Forget(choice)
	if selected() != "" {
		t.Errorf("the claim is still for %q", selected())
	}
	choice = choose(t, c, node("n", "x"), "a")
	c.Assume(choice)
	written := choice.Provisions[0].Claim.DeepCopy()
	written.ResourceVersion = "12"
	c.WroteClaim(choice.Provisions[0].Claim, written)
	c.Forget(choice)
	if selected() != "n" {
		t.Error("what is written is forgotten")
	}
	refused := claim("a", "late", "1Gi", func(c *corev1.PersistentVolumeClaim) { c.ResourceVersion = "13" })
	if c.SetClaim(refused); selected() != "" {
		t.Error("the provisioner has given up, which is not seen")
	}
	if c.DeleteClaim("shop", "a"); c.View().Claim("shop", "a") != nil {
		t.Error("the claim is gone")
	}
}

func TestProgress(t *testing.T) {
	t.Parallel()
	pv := func(change ...func(*corev1.PersistentVolume)) *corev1.PersistentVolume {
		return persistent("pv", "local", "1Gi", append([]func(*corev1.PersistentVolume){keptFor("found", "found"), version("20")}, change...)...)
	}
	otherUID := func(c *corev1.PersistentVolumeClaim) { c.UID = "another" }
	inY := node("n", "y")
	tests := []struct {
		name string
		do   func(c *Cache)
		node *corev1.Node
		done bool
		err  string
	}{
		{"written", func(*Cache) {}, nil, false, ""},
		{"one of both", func(c *Cache) { c.SetClaim(claim("found", "local", "1Gi", boundTo("pv"))) }, nil, false, ""},
		{"both", func(c *Cache) {
			c.SetClaim(claim("found", "local", "1Gi", boundTo("pv")))
			c.SetClaim(claim("made", "late", "1Gi", chosenFor("n"), boundTo("new")))
			c.SetVolume(persistent("new", "late", "1Gi", reachableFrom("x")))
		}, nil, true, ""},
		{"both, but one of the volumes is not known yet", func(c *Cache) {
			c.SetClaim(claim("found", "local", "1Gi", boundTo("pv")))
			c.SetClaim(claim("made", "late", "1Gi", chosenFor("n"), boundTo("new")))
		}, nil, false, ""},
		{"made where the node does not reach it", func(c *Cache) {
			c.SetClaim(claim("made", "late", "1Gi", chosenFor("n"), boundTo("new")))
			c.SetVolume(persistent("new", "late", "1Gi", reachableFrom("y")))
		}, nil, false, `pv "new" node affinity doesn't match node "n": no matching NodeSelectorTerms`},
		{"the node has moved", func(c *Cache) { c.SetVolume(pv(reachableFrom("x"))) }, inY, false, `pv "pv" node affinity doesn't match node "n": no matching NodeSelectorTerms`},
		{"the provisioner gives up", func(c *Cache) { c.SetClaim(claim("made", "late", "1Gi", chosenFor(""))) }, nil, false, `provisioning failed for PVC "made"`},
		{"the provisioner gives up, and leaves no annotation", func(c *Cache) { c.SetClaim(claim("made", "late", "1Gi")) }, nil, false, `selectedNode annotation reset for PVC "made"`},
		{"the volume is unbound", func(c *Cache) { c.SetVolume(persistent("pv", "local", "1Gi", version("21"))) }, nil, false, `ClaimRef got reset for pv "pv"`},
		{"the volume is another's", func(c *Cache) { c.SetVolume(persistent("pv", "local", "1Gi", version("21"), keptFor("b", "b"))) }, nil, false, `ClaimRef got reset for pv "pv"`},
		{"the volume is gone", func(c *Cache) { c.DeleteVolume("pv") }, nil, false, `failed to check binding: persistentvolumes "pv" not found`},
		{"the claim is gone", func(c *Cache) { c.DeleteClaim("shop", "found") }, nil, false, `failed to check binding: persistentvolumeclaims "shop/found" not found`},
		{"the claim was made anew", func(c *Cache) { c.SetClaim(claim("made", "late", "1Gi", otherUID, chosenFor("n"))) }, nil, false, `failed to check provisioning pvc: persistentvolumeclaims "shop/made" not found`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			c := filled(claim("found", "local", "1Gi"), claim("made", "late", "1Gi"), persistent("pv", "local", "1Gi"))
			choice := choose(t, c, node("n", "x"), "found", "made")
			c.SetVolume(pv())
			c.SetClaim(claim("made", "late", "1Gi", chosenFor("n")))
			tt.do(c)
			on := node("n", "x")
			if tt.node != nil {
				on = tt.node
			}
			done, err := c.View().Progress(choice, on)
			said := ""
			if err != nil {
				said = err.Error()
			}
			if done != tt.done || said != tt.err {
				t.Errorf("got %t, %q, want %t, %q", done, said, tt.done, tt.err)
			}
		})
	}
	if _, err := (View{}).Progress(&Choice{Node: "n"}, nil); err == nil {
		t.Error("a node that is gone takes no pod")
	}
}
