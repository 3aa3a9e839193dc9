package main

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

var groupVersion = schema.GroupVersion{Group: "clients.howdah.dev", Version: "v1"}

// Shop wants a ConfigMap of its name and color.
type Shop struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`
	Spec              ShopSpec   `json:"spec"`
	Status            ShopStatus `json:"status,omitempty"`
}

// ShopSpec is what is wanted.
type ShopSpec struct {
	Color string `json:"color,omitempty"`
}

// ShopStatus is what there is.
type ShopStatus struct {
	Color string `json:"color,omitempty"`
	// By names the operator that saw to it.
	By string `json:"by,omitempty"`
}

// ShopList is a list.
type ShopList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []Shop `json:"items"`
}

// DeepCopyObject implements runtime.Object.
func (s *Shop) DeepCopyObject() runtime.Object {
	out := *s
	s.ObjectMeta.DeepCopyInto(&out.ObjectMeta)
	return &out
}

// DeepCopyObject implements runtime.Object.
func (l *ShopList) DeepCopyObject() runtime.Object {
	out := *l
	l.ListMeta.DeepCopyInto(&out.ListMeta)
	out.Items = make([]Shop, len(l.Items))
	for i := range l.Items {
		out.Items[i] = *l.Items[i].DeepCopyObject().(*Shop)
	}
	return &out
}

func addToScheme(s *runtime.Scheme) error {
	s.AddKnownTypes(groupVersion, &Shop{}, &ShopList{})
	metav1.AddToGroupVersion(s, groupVersion)
	return nil
}
