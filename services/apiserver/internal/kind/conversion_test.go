package kind_test

import (
	"math/rand/v2"
	"testing"

	certificatesv1beta1 "k8s.io/api/certificates/v1beta1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	resourcev1 "k8s.io/api/resource/v1"
	resourcev1beta1 "k8s.io/api/resource/v1beta1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/diff"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/randfill"

	"howdah.dev/services/apiserver/internal/registry"
)

// filler makes objects with anything in any field. Depth is bounded, as pod
// templates are deep; what types cannot hold at random is made by hand.
func filler(seed int64) *randfill.Filler {
	return randfill.NewWithSeed(seed).NilChance(0.3).NumElements(1, 3).MaxDepth(12).Funcs(
		func(q *resource.Quantity, c randfill.Continue) {
			*q = *resource.NewQuantity(int64(c.Int31()), resource.DecimalSI)
		},
		func(v *intstr.IntOrString, c randfill.Continue) { *v = intstr.FromInt32(c.Int31()) },
		func(t *metav1.Time, c randfill.Continue) { *t = metav1.Unix(int64(c.Int31()), 0) },
		func(t *metav1.MicroTime, c randfill.Continue) {
			*t = metav1.MicroTime{Time: metav1.Unix(int64(c.Int31()), 0).Time}
		},
		func(t *metav1.TypeMeta, _ randfill.Continue) { *t = metav1.TypeMeta{} },
		func(f *metav1.FieldsV1, _ randfill.Continue) {},
		func(r *runtime.RawExtension, _ randfill.Continue) {},
		// A port is a number or a name, and the older versions have no port without a service.
		func(b *networkingv1.IngressServiceBackend, c randfill.Continue) {
			b.Name = "s" + c.String(8)
			if b.Port.Number = c.Int31(); c.Bool() {
				b.Port = networkingv1.ServiceBackendPort{Name: "p" + c.String(8)}
			}
		},
		func(s *certificatesv1beta1.CertificateSigningRequestSpec, c randfill.Continue) {
			c.FillNoCustom(s)
			name := "s" + c.String(8)
			s.SignerName = &name
		},
		// v1beta1 cannot tell what is empty or false from what is not set.
		func(s *resourcev1.ResourceSliceSpec, c randfill.Continue) {
			c.FillNoCustom(s)
			if s.NodeName != nil && *s.NodeName == "" {
				s.NodeName = nil
			}
			if s.AllNodes != nil && !*s.AllNodes {
				s.AllNodes = nil
			}
		},
		// A device of which v1beta1 says nothing is served as one of which it says nothing in particular.
		func(d *resourcev1beta1.Device, c randfill.Continue) {
			c.FillNoCustom(d)
			if d.Basic == nil {
				d.Basic = &resourcev1beta1.BasicDevice{}
			}
		},
		// The interesting part of a template is that it is carried whole.
		func(s *corev1.PodSpec, c randfill.Continue) {
			s.NodeName = c.String(8)
			s.Containers = []corev1.Container{{Name: c.String(8), Image: c.String(8)}}
			s.HostNetwork = c.Bool()
		},
	)
}

func same(t *testing.T, what string, got, want registry.Object) {
	t.Helper()
	for _, o := range []registry.Object{got, want} {
		o.GetObjectKind().SetGroupVersionKind(metav1.SchemeGroupVersion.WithKind(""))
	}
	if !equality.Semantic.DeepEqual(got, want) {
		t.Fatalf("%s: %s", what, diff.Diff(want, got))
	}
}

// Every further version loses nothing on the way through the stored one, nor
// the stored one through it.
func TestConversionsRoundTrip(t *testing.T) {
	t.Parallel()
	for _, r := range table(t).Resources() {
		if r.Version == nil || r.GVK.Group == "autoscaling" {
			continue // not of random metrics: see the test of package autoscaler
		}
		t.Run(r.GVK.String(), func(t *testing.T) {
			t.Parallel()
			for range 200 {
				f := filler(rand.Int64())
				in := r.New()
				f.Fill(in)
				stored, err := r.Version.ToStored(in)
				if err != nil {
					t.Fatal(err)
				}
				if got := stored.GetObjectKind().GroupVersionKind(); got != r.Kind.GVK {
					t.Fatalf("stored as %s", got)
				}
				back, err := r.Version.FromStored(stored)
				if err != nil {
					t.Fatal(err)
				}
				if got := back.GetObjectKind().GroupVersionKind(); got != r.GVK {
					t.Fatalf("served as %s", got)
				}
				same(t, "there and back", back, in)

				old := r.Kind.New()
				f.Fill(old)
				served, err := r.Version.FromStored(old)
				if err != nil {
					t.Fatal(err)
				}
				again, err := r.Version.ToStored(served)
				if err != nil {
					t.Fatal(err)
				}
				same(t, "back and there", again, old)
			}
		})
	}
}

// Defaults are a fixed point through conversion: what is stored with its
// defaults gets no others when a client reads and writes it in another version.
func TestDefaultsOutliveConversions(t *testing.T) {
	t.Parallel()
	for _, r := range table(t).Resources() {
		if r.Version == nil || r.Kind.Default == nil {
			continue
		}
		t.Run(r.GVK.String(), func(t *testing.T) {
			t.Parallel()
			for range 100 {
				stored := r.Kind.New()
				filler(rand.Int64()).Fill(stored)
				// A selector is there in all that is stored.
				r.Kind.Default(stored)
				want := stored.DeepCopyObject().(registry.Object)
				served, err := r.FromStored(stored)
				if err != nil {
					t.Fatal(err)
				}
				served = served.DeepCopyObject().(registry.Object)
				if len(served.GetLabels()) == 0 || selectorless(want) {
					continue
				}
				r.Default(served)
				got, err := r.ToStored(served)
				if err != nil {
					t.Fatal(err)
				}
				same(t, "default(convert(x))", got, want)
			}
		})
	}
}

// selectorless reports an object that the oldest versions would give a selector.
func selectorless(o registry.Object) bool {
	m, err := runtime.DefaultUnstructuredConverter.ToUnstructured(o)
	if err != nil {
		return true
	}
	spec, _ := m["spec"].(map[string]any)
	return spec["selector"] == nil
}
