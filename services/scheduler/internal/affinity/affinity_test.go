package affinity

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
)

func TestWhomATermIsAbout(t *testing.T) {
	t.Parallel()
	var namespaces Namespaces
	namespaces.Set("shop", labels.Set{"team": "a"})
	namespaces.Set("bank", labels.Set{"team": "b"})
	before := namespaces.Clone()
	namespaces.Set("gone", labels.Set{"team": "a"})
	namespaces.Delete("gone")
	team := &metav1.LabelSelector{MatchLabels: map[string]string{"team": "a"}}
	web := &metav1.LabelSelector{MatchLabels: map[string]string{"app": "web"}}
	for name, c := range map[string]struct {
		term corev1.PodAffinityTerm
		want string // the namespaces whose web pods it is about, of shop, bank, gone and own
	}{
		"nothing said":                 {corev1.PodAffinityTerm{LabelSelector: web}, "own "},
		"named":                        {corev1.PodAffinityTerm{LabelSelector: web, Namespaces: []string{"bank", "gone"}}, "bank gone "},
		"selected":                     {corev1.PodAffinityTerm{LabelSelector: web, NamespaceSelector: team}, "shop "},
		"named and selected":           {corev1.PodAffinityTerm{LabelSelector: web, Namespaces: []string{"bank"}, NamespaceSelector: team}, "shop bank "},
		"all":                          {corev1.PodAffinityTerm{LabelSelector: web, NamespaceSelector: &metav1.LabelSelector{}}, "shop bank gone own "},
		"no pods":                      {corev1.PodAffinityTerm{NamespaceSelector: &metav1.LabelSelector{}}, ""},
		"a selector that is malformed": {corev1.PodAffinityTerm{LabelSelector: &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "a", Operator: "Is"}}}}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			owner := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "own"}, Spec: corev1.PodSpec{Affinity: &corev1.Affinity{
				PodAffinity: &corev1.PodAffinity{RequiredDuringSchedulingIgnoredDuringExecution: []corev1.PodAffinityTerm{c.term}},
			}}}
			for _, known := range []Namespaces{namespaces, before} {
				var got string
				for _, ns := range []string{"shop", "bank", "gone", "own"} {
					if MatchesAll(Required(owner), &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Labels: map[string]string{"app": "web"}}}, known) {
						got += ns + " "
					}
				}
				if got != c.want {
					t.Errorf("about %q, want %q", got, c.want)
				}
			}
		})
	}
}

func TestWishesWeigh(t *testing.T) {
	t.Parallel()
	term := func(key string, weight int32) corev1.WeightedPodAffinityTerm {
		return corev1.WeightedPodAffinityTerm{Weight: weight, PodAffinityTerm: corev1.PodAffinityTerm{TopologyKey: key, LabelSelector: &metav1.LabelSelector{}}}
	}
	p := &corev1.Pod{Spec: corev1.PodSpec{Affinity: &corev1.Affinity{
		PodAffinity:     &corev1.PodAffinity{PreferredDuringSchedulingIgnoredDuringExecution: []corev1.WeightedPodAffinityTerm{term("zone", 3), term("rack", 4)}},
		PodAntiAffinity: &corev1.PodAntiAffinity{PreferredDuringSchedulingIgnoredDuringExecution: []corev1.WeightedPodAffinityTerm{term("host", 5)}},
	}}}
	got := Preferred(p)
	if len(got) != 3 || got[0].Key != "zone" || got[0].Weight != 3 || got[1].Weight != 4 || got[2].Key != "host" || got[2].Weight != -5 {
		t.Errorf("%v", got)
	}
	if Preferred(&corev1.Pod{}) != nil || Required(p) != nil && len(Required(p)) != 0 || len(RequiredAnti(p)) != 0 {
		t.Error("wishes taken for needs")
	}
}
