package route

import (
	"cmp"
	"slices"

	networkingv1 "k8s.io/api/networking/v1"
)

// Controller is the name by which IngressClasses say that their Ingresses are ours.
const Controller = "howdah.dev/ingress"

// classAnnotation named the class before spec.ingressClassName did, and goes before it where both are there.
const classAnnotation = "kubernetes.io/ingress.class"

// Classes are the IngressClasses of one controller.
type Classes struct {
	mine map[string]bool
	// byDefault says that Ingresses without a class are ours.
	byDefault bool
	faults    []Fault
}

// NewClasses sorts out which of all classes are the controller's. Where several are marked as the default, the newest is, as for admission.
func NewClasses(all []*networkingv1.IngressClass, controller string) Classes {
	c := Classes{mine: map[string]bool{}}
	var fallback *networkingv1.IngressClass
	for _, class := range slices.SortedFunc(slices.Values(all), func(a, b *networkingv1.IngressClass) int {
		return cmp.Or(b.CreationTimestamp.Compare(a.CreationTimestamp.Time), cmp.Compare(a.Name, b.Name))
	}) {
		if class.Annotations[networkingv1.AnnotationIsDefaultIngressClass] == "true" && fallback == nil {
			fallback = class
		}
		if class.Spec.Controller != controller {
			continue
		}
		c.mine[class.Name] = true
		if class.Spec.Parameters != nil {
			c.faults = append(c.faults, Fault{Object: class, Reason: ReasonParameters, Message: "this controller takes no parameters: spec.parameters changes nothing"})
		}
	}
	c.byDefault = fallback != nil && fallback.Spec.Controller == controller
	return c
}

// Own reports whether an Ingress is of one of the classes.
func (c Classes) Own(i *networkingv1.Ingress) bool {
	if name, ok := i.Annotations[classAnnotation]; ok {
		return c.mine[name]
	}
	if name := i.Spec.IngressClassName; name != nil {
		return c.mine[*name]
	}
	return c.byDefault
}
