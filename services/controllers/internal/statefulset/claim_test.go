package statefulset

import (
	"slices"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
)

// claimOf is a claim of a pod with owners, in words: set, pod, former-set, former-pod, other, user (who is no controller), set-user.
func claimOf(set *appsv1.StatefulSet, p *corev1.Pod, owners string) *corev1.PersistentVolumeClaim {
	c := &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Namespace: set.Namespace, Name: "data-" + p.Name}}
	for _, word := range strings.Fields(owners) {
		ref := *metav1.NewControllerRef(set, kind)
		switch word {
		case "pod", "former-pod":
			ref = *metav1.NewControllerRef(p, podKind)
		case "other", "user":
			ref.Kind, ref.Name, ref.UID = "Other", "other", "other"
		}
		if strings.HasPrefix(word, "former-") {
			ref.UID = "former"
		}
		if strings.HasSuffix(word, "user") {
			ref.Controller = ptr.To(false)
		}
		c.OwnerReferences = append(c.OwnerReferences, ref)
	}
	return c
}

func words(refs []metav1.OwnerReference) string {
	var words []string
	for _, ref := range refs {
		word := map[string]string{"StatefulSet": "set", "Pod": "pod", "Other": "other"}[ref.Kind]
		if ref.UID == "former" {
			word = "former-" + word
		}
		if !*ref.Controller {
			word += "-user"
		}
		words = append(words, word)
	}
	return strings.Join(words, " ")
}

func TestOwners(t *testing.T) {
	t.Parallel()
	const keep, drop = false, true
	for _, tt := range []struct {
		name            string
		deleted, scaled bool
		ordinal         int // the set wants only 0
		had, want       string
		unchanged       bool
	}{
		{"nothing is deleted", keep, keep, 0, "", "", true},
		{"nothing is deleted any more", keep, keep, 0, "set", "", false},
		{"nothing is deleted, another has it", keep, keep, 0, "other", "other", true},
		{"with the set", drop, keep, 0, "", "set", false},
		{"with the set already", drop, keep, 0, "set", "set", true},
		{"with the set, as no controller yet", drop, keep, 0, "set-user", "set", false},
		{"with the set, though not wanted", drop, keep, 1, "pod", "set", false},
		{"with pods, one that is wanted", keep, drop, 0, "pod", "", false},
		{"with pods", keep, drop, 1, "", "pod", false},
		{"with pods, no longer with the set", keep, drop, 1, "set", "pod", false},
		{"with either, one that is wanted", drop, drop, 0, "pod", "set", false},
		{"with either, one that is not", drop, drop, 1, "set", "pod", false},
		{"beside a user", drop, keep, 0, "user", "other-user set", false},
		{"another has it", drop, drop, 0, "other", "other", true},
		{"another has it, too", drop, drop, 0, "other set", "other", false},
		{"a former set has it", drop, keep, 0, "former-set", "former-set", true},
		{"a former pod has it", keep, drop, 1, "former-pod", "former-pod", true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			set := newSet(1, withClaims, retain(tt.deleted, tt.scaled))
			p := podOf(set, tt.ordinal, "ready", "new")
			refs, changed := owners(set, p, tt.ordinal, claimOf(set, p, tt.had))
			if got := words(refs); got != tt.want || changed == tt.unchanged {
				t.Errorf("owners %q, changed %t, want %q", got, changed, tt.want)
			}
		})
	}
}

func TestNewClaim(t *testing.T) {
	t.Parallel()
	set := newSet(1, withClaims, retain(true, true))
	set.Spec.VolumeClaimTemplates[0].Labels = map[string]string{"a": "b"}
	c := newClaim(set, &set.Spec.VolumeClaimTemplates[0], 0)
	if c.Name != "data-web-0" || c.Namespace != "default" || c.Labels["a"] != "b" || c.Labels["app"] != "web" || words(c.OwnerReferences) != "set" {
		t.Errorf("claim %+v", c)
	}
	if len(set.Spec.VolumeClaimTemplates[0].Labels) != 1 {
		t.Error("the template was written to")
	}
}

func TestHasClaim(t *testing.T) {
	t.Parallel()
	set := newSet(1, withClaims)
	for name, want := range map[string]bool{"data-web-0": true, "data-web-12": true, "data-web": false, "log-web-0": false, "data-webs-0": false} {
		if hasClaim(set, name) != want {
			t.Errorf("%s is the set's: %t", name, !want)
		}
	}
}

// TestDecideClaims: what claims have pods wait for, and what is done to them.
func TestDecideClaims(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name    string
		changes []func(*appsv1.StatefulSet)
		pods    string
		claim   string // of web-1
		ending  bool
		want    string
	}{
		{"one that ends", nil, "0:ready:new", "", true, "blocked web-1 by data-web-1"},
		{"one that is there", nil, "0:ready:new", "", false, "create web-1 new"},
		{"that of a former pod", []func(*appsv1.StatefulSet){retain(false, true)}, "0:ready:new", "former-pod", false, ""},
		{"that of a former pod, which is kept", nil, "0:ready:new", "former-pod", false, "create web-1 new"},
		{"that of a former set, with which it goes", nil, "0:ready:new", "former-set", false, ""},
		{"that of a new pod gets its owner", []func(*appsv1.StatefulSet){retain(true, false)}, "0:ready:new", "", false, "create web-1 new, own data-web-1"},
		{"that of a pod that is ill has to wait", []func(*appsv1.StatefulSet){retain(true, false)}, "0:ready:new 1:running:new", "", false, ""},
		{"that of a pod that is pending does not", []func(*appsv1.StatefulSet){retain(true, false)}, "0:ready:new 1:pending:new", "", false, "own data-web-1"},
		{"before a pod goes", []func(*appsv1.StatefulSet){retain(true, true), func(s *appsv1.StatefulSet) { s.Spec.Replicas = ptr.To[int32](1) }},
			"0:ready:new 1:ready:new", "set", false, "own data-web-1, delete web-1"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			set := newSet(2, append(tt.changes, withClaims)...)
			claim := claimOf(set, podOf(set, 1, "ready", "new"), tt.claim)
			if tt.ending {
				claim.DeletionTimestamp = &metav1.Time{Time: now}
			}
			seen := seeing(podsOf(set, tt.pods))
			seen.Claim = func(name string) *corev1.PersistentVolumeClaim {
				switch name {
				case "data-web-1":
					return claim
				case "data-web-0":
					c := claimOf(set, podOf(set, 0, "ready", "new"), "")
					if refs, changed := owners(set, podOf(set, 0, "ready", "new"), 0, c); changed {
						c.OwnerReferences = refs
					}
					return c
				}
				return nil
			}
			if got := told(Decide(set, seen, now)); got != tt.want {
				t.Errorf("planned %q, want %q", got, tt.want)
			}
		})
	}
}

func TestContested(t *testing.T) {
	t.Parallel()
	set := newSet(1, withClaims, retain(true, false))
	p := podOf(set, 0, "ready", "new")
	seen := seeing([]*corev1.Pod{p})
	seen.Claim = func(string) *corev1.PersistentVolumeClaim { return claimOf(set, p, "set other") }
	plan := Decide(set, seen, now)
	if len(plan.Own) != 1 || words(plan.Own[0].Owners) != "other" || !slices.Equal(plan.Contested, []string{"data-web-0"}) {
		t.Errorf("planned %+v, contested %q", plan.Own, plan.Contested)
	}
	seen.Claim = func(string) *corev1.PersistentVolumeClaim { return claimOf(set, p, "other") }
	if plan := Decide(set, seen, now); len(plan.Own) > 0 || len(plan.Contested) > 0 {
		t.Errorf("of what is well, planned %+v, contested %q", plan.Own, plan.Contested)
	}
}

// TestContestedTemplate: the claim of a template that names another controller has that alone, which is told of each pod that is made.
func TestContestedTemplate(t *testing.T) {
	t.Parallel()
	other := metav1.OwnerReference{APIVersion: "v1", Kind: "Other", Name: "other", UID: "other", Controller: ptr.To(true)}
	for _, policy := range []*appsv1.StatefulSet{newSet(1, withClaims, retain(true, true)), newSet(1, withClaims, retain(true, false)), newSet(1, withClaims, retain(false, true))} {
		policy.Spec.VolumeClaimTemplates[0].OwnerReferences = []metav1.OwnerReference{other}
		plan := Decide(policy, seeing(nil), now)
		if len(plan.Claims) != 1 || len(plan.Create) != 1 || words(plan.Claims[0].OwnerReferences) != "other" || !slices.Equal(plan.Contested, []string{"data-web-0"}) {
			t.Errorf("planned claims %+v, contested %q", plan.Claims, plan.Contested)
		}
	}
	kept := newSet(1, withClaims)
	kept.Spec.VolumeClaimTemplates[0].OwnerReferences = []metav1.OwnerReference{other}
	if plan := Decide(kept, seeing(nil), now); len(plan.Contested) > 0 || len(plan.Create) != 1 {
		t.Errorf("where nothing is deleted, contested %q", plan.Contested)
	}
}

// TestEndingClaimsOfAFormerSet: that a claim is being deleted is told, though it is the former set's.
func TestEndingClaimsOfAFormerSet(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		policy          func(*appsv1.StatefulSet)
		blocked, create int
		ending          bool
	}{
		{retain(true, false), 1, 0, true},
		{retain(true, false), 0, 0, false},
		{retain(true, true), 1, 0, true},
	} {
		set := newSet(1, withClaims, tt.policy)
		seen := seeing(nil)
		seen.Claim = func(string) *corev1.PersistentVolumeClaim {
			former := set.DeepCopy()
			former.UID = "former"
			c := &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Name: "data-web-0", OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(former, kind)}}}
			if tt.ending {
				c.DeletionTimestamp = &metav1.Time{Time: now}
			}
			return c
		}
		if plan := Decide(set, seen, now); len(plan.Blocked) != tt.blocked || len(plan.Create) != tt.create || len(plan.Own) > 0 {
			t.Errorf("%+v: planned %+v", tt, plan)
		}
	}
}
