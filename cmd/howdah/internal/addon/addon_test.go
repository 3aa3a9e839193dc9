package addon

import (
	"errors"
	"testing"

	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"howdah.dev/kit/object"
	"howdah.dev/kit/object/objecttest"
)

// TestDefaultStorageClass holds that the class is made once, and that what its owner makes of it stays.
func TestDefaultStorageClass(t *testing.T) {
	t.Parallel()
	_, client := objecttest.Start(t)
	classes := object.For(client, object.StorageClass)
	const isDefault = "storageclass.kubernetes.io/is-default-class"
	for range 2 {
		if err := ensureStorage(t.Context(), client, "local-path"); err != nil {
			t.Fatal(err)
		}
		class, err := classes.Get(t.Context(), "", "local-path")
		if err != nil {
			t.Fatal(err)
		}
		switch class.Annotations[isDefault] {
		case "true":
			class.Annotations[isDefault] = "false"
			if _, err := classes.Update(t.Context(), class); err != nil {
				t.Fatal(err)
			}
		case "false":
		default:
			t.Fatalf("class %v", class)
		}
	}
	class, err := classes.Get(t.Context(), "", "local-path")
	if err != nil || class.Annotations[isDefault] != "false" {
		t.Errorf("%v, %v", class, err)
	}
	if err := ensureStorage(t.Context(), client, ""); err != nil {
		t.Error(err)
	}
	if list, _, err := classes.List(t.Context(), "", metav1.ListOptions{}); err != nil || len(list) != 1 {
		t.Errorf("%v, %v", list, err)
	}
}

// TestIngressClass holds that the class is made once, is the default only where no other one is, and stays as its owner makes it.
func TestIngressClass(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name  string
		other map[string]string // annotations of another class; nil: there is none
		want  string
	}{
		{"alone", nil, "true"},
		{"beside another", map[string]string{}, "true"},
		{"beside a default", map[string]string{networkingv1.AnnotationIsDefaultIngressClass: "true"}, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			_, client := objecttest.Start(t)
			classes := object.For(client, object.IngressClass)
			if tt.other != nil {
				if _, err := classes.Create(t.Context(), &networkingv1.IngressClass{ObjectMeta: metav1.ObjectMeta{Name: "other", Annotations: tt.other}}); err != nil {
					t.Fatal(err)
				}
			}
			if err := ensureIngressClass(t.Context(), client, "howdah"); err != nil {
				t.Fatal(err)
			}
			class, err := classes.Get(t.Context(), "", "howdah")
			if err != nil || class.Spec.Controller != "howdah.dev/ingress" || class.Annotations[networkingv1.AnnotationIsDefaultIngressClass] != tt.want {
				t.Fatalf("%v, %v", class, err)
			}
			class.Annotations, class.Labels = nil, map[string]string{"owner": "me"}
			if _, err := classes.Update(t.Context(), class); err != nil {
				t.Fatal(err)
			}
			if err := errors.Join(ensureIngressClass(t.Context(), client, "howdah"), ensureIngressClass(t.Context(), client, "")); err != nil {
				t.Fatal(err)
			}
			if class, err = classes.Get(t.Context(), "", "howdah"); err != nil || class.Labels["owner"] != "me" || len(class.Annotations) > 0 {
				t.Errorf("what its owner made of it went: %v, %v", class, err)
			}
		})
	}
}
