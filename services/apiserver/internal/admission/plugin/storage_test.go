package plugin

import (
	"testing"

	"howdah.dev/services/apiserver/internal/admission"
)

func TestDefaultStorageClass(t *testing.T) {
	t.Parallel()
	class := func(name, when, mark string) string {
		return "{metadata: {name: " + name + ", creationTimestamp: '" + when + "', annotations: {" + mark + "}}, provisioner: p}"
	}
	const is = "storageclass.kubernetes.io/is-default-class: 'true'"
	p := &DefaultStorageClass{Objects: worldOf(t, map[string][]string{"storageclasses": {
		class("old", "2026-01-01T00:00:00Z", is), class("b", "2026-02-01T00:00:00Z", is), class("a", "2026-02-01T00:00:00Z", is),
		class("newest", "2026-03-01T00:00:00Z", "storageclass.kubernetes.io/is-default-class: 'false'"),
	}})}
	claim := func(meta, spec string) write {
		return write{resource: "persistentvolumeclaims", object: "{metadata: {name: v, " + meta + "}, spec: {" + spec + "}}"}
	}
	verdicts(t, p, map[string]verdict{
		"newest by name": {write: claim("", ""), becomes: []string{"storageClassName: a"}},
		"named":          {write: claim("", "storageClassName: x"), becomes: []string{"storageClassName: x"}},
		"none wanted":    {write: claim("", "storageClassName: ''"), becomes: []string{`storageClassName: ""`}},
		"annotated":      {write: claim("annotations: {volume.beta.kubernetes.io/storage-class: x}", ""), not: []string{"storageClassName"}},
	})
	verdicts(t, &DefaultStorageClass{Objects: world{}}, map[string]verdict{"no class": {write: claim("", ""), not: []string{"storageClassName"}}})
}

func TestDefaultIngressClass(t *testing.T) {
	t.Parallel()
	p := &DefaultIngressClass{Objects: worldOf(t, map[string][]string{"ingressclasses": {
		"{metadata: {name: main, annotations: {ingressclass.kubernetes.io/is-default-class: 'true'}}, spec: {controller: a/b}}", "{metadata: {name: other}, spec: {controller: a/b}}",
	}})}
	ingress := func(meta, spec string) write {
		return write{resource: "ingresses", object: "{metadata: {name: v, " + meta + "}, spec: {" + spec + "}}"}
	}
	verdicts(t, p, map[string]verdict{
		"default":   {write: ingress("", ""), becomes: []string{"ingressClassName: main"}},
		"named":     {write: ingress("", "ingressClassName: other"), becomes: []string{"ingressClassName: other"}},
		"annotated": {write: ingress("annotations: {kubernetes.io/ingress.class: x}", ""), not: []string{"ingressClassName"}},
	})
}

func TestPersistentVolumeClaimResize(t *testing.T) {
	t.Parallel()
	p := &PersistentVolumeClaimResize{Objects: worldOf(t, map[string][]string{"storageclasses": {
		"{metadata: {name: grows}, provisioner: p, allowVolumeExpansion: true}", "{metadata: {name: stays}, provisioner: p}",
	}})}
	claim := func(class, size, phase string) string {
		return "{metadata: {name: v}, spec: {storageClassName: " + class + ", resources: {requests: {storage: " + size + "}}}, status: {phase: " + phase + "}}"
	}
	change := func(class, to, phase string) write {
		return write{op: admission.Update, resource: "persistentvolumeclaims", object: claim(class, to, phase), old: claim(class, "2Gi", phase)}
	}
	verdicts(t, p, map[string]verdict{
		"grows":   {write: change("grows", "3Gi", "Bound")},
		"same":    {write: change("stays", "2Gi", "Bound")},
		"smaller": {write: change("stays", "1Gi", "Bound")},
		"pending": {write: change("grows", "3Gi", "Pending"), refused: `persistentvolumeclaims "v" is forbidden: Only bound persistent volume claims can be expanded`},
		"stays":   {write: change("stays", "3Gi", "Bound"), refused: "only dynamically provisioned pvc can be resized and the storageclass that provisions the pvc must support resize"},
		"absent":  {write: change("gone", "3Gi", "Bound"), refused: "only dynamically provisioned pvc can be resized"},
	})
}

func TestStorageObjectInUseProtection(t *testing.T) {
	t.Parallel()
	verdicts(t, StorageObjectInUseProtection{}, map[string]verdict{
		"claim":  {write: write{resource: "persistentvolumeclaims", object: "{metadata: {name: v}}"}, becomes: []string{"kubernetes.io/pvc-protection"}},
		"class":  {write: write{resource: "volumeattributesclasses", object: "{metadata: {name: v}}"}, becomes: []string{"kubernetes.io/vac-protection"}},
		"volume": {write: write{resource: "persistentvolumes", object: "{metadata: {name: v, finalizers: [a/b]}}"}, becomes: []string{"a/b", "kubernetes.io/pv-protection"}},
		"pod":    {write: write{object: plainPod}, not: []string{"finalizers"}},
	})
}

func TestDenyServiceExternalIPs(t *testing.T) {
	t.Parallel()
	service := func(ips string) string { return "{metadata: {name: s}, spec: {externalIPs: [" + ips + "]}}" }
	change := func(from, to string) write {
		return write{op: admission.Update, resource: "services", object: service(to), old: service(from)}
	}
	const text = `services "s" is forbidden: Use of external IPs is denied by admission control.`
	verdicts(t, DenyServiceExternalIPs{}, map[string]verdict{
		"none": {write: write{resource: "services", object: service("")}}, "some": {write: write{resource: "services", object: service("1.2.3.4")}, refused: text},
		"kept": {write: change("1.2.3.4, 1.2.3.5", "1.2.3.5")}, "added": {write: change("1.2.3.4", "1.2.3.4, 1.2.3.5"), refused: text},
	})
}
