package kind_test

import (
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/util/validation/field"
)

// TestStoredFaultsStay has an object with a fault that older versions took changed elsewhere, which Kubernetes lets pass, and in the
// fault itself where that is refused. The answers of its API server to the same, on objects put into its store, were these.
func TestStoredFaultsStay(t *testing.T) {
	t.Parallel()
	const template = "template: {metadata: {labels: {a: b}}, spec: {nodeName: NODE, containers: [{name: c, image: i}]}}"
	const webhook = "name: a.b.c, timeoutSeconds: 9, clientConfig: {url: 'https://a'}"
	webhooks := func(list string) string {
		return "{apiVersion: admissionregistration.k8s.io/v1, kind: ValidatingWebhookConfiguration, metadata: {name: a}, webhooks: " + list + "}"
	}
	const matched = "matchConstraints: {resourceRules: [{operations: [CREATE], apiGroups: [a], apiVersions: [v1], resources: [b]}]}, matchConditions: [{name: x, expression: object.}], "
	for name, c := range map[string]struct {
		object string
		// fault is replaced by other, which is refused.
		fault, other string
		// free says that another fault of the kind may come, too.
		free bool
	}{
		"time zone in a schedule": {
			"{apiVersion: batch/v1, kind: CronJob, metadata: {name: a, namespace: d}, spec: {schedule: 'TZ=UTC * * * * *', jobTemplate: {spec: {template: {spec: {restartPolicy: Never, containers: [{name: c, image: i}]}}}}}}",
			"TZ=UTC", "TZ=CET", true},
		"unknown zone": {
			"{apiVersion: batch/v1, kind: CronJob, metadata: {name: a, namespace: d}, spec: {schedule: '* * * * *', timeZone: No/Where, jobTemplate: {spec: {template: {spec: {restartPolicy: Never, containers: [{name: c, image: i}]}}}}}}",
			"No/Where", "No/Body", false},
		"endpoints": {"{apiVersion: v1, kind: Endpoints, metadata: {name: a, namespace: d}, subsets: [{addresses: [{ip: 127.0.0.1}]}]}",
			"127.0.0.1", "127.0.0.2", false},
		"slice": {"{apiVersion: discovery.k8s.io/v1, kind: EndpointSlice, metadata: {name: a, namespace: d}, addressType: IPv4, endpoints: [{addresses: [127.0.0.1]}]}",
			"127.0.0.1", "127.0.0.2", false},
		"network of a policy": {
			"{apiVersion: networking.k8s.io/v1, kind: NetworkPolicy, metadata: {name: a, namespace: d}, spec: {podSelector: {}, ingress: [{from: [{ipBlock: {cidr: 010.0.0.0/8}}]}]}}",
			"010.0.0.0/8", "011.0.0.0/8", false},
		"selector of a budget": {
			"{apiVersion: policy/v1, kind: PodDisruptionBudget, metadata: {name: a, namespace: d}, spec: {minAvailable: 1, selector: {matchExpressions: [{key: a, operator: In, values: [b c]}]}}}",
			"b c", "c d", true},
		"address of a service": {"{apiVersion: v1, kind: Service, metadata: {name: a, namespace: d}, spec: {externalIPs: [010.9.9.9], ports: [{port: 80}]}}",
			"010.9.9.9", "011.9.9.9", false},
		"group of a claim's source": {
			"{apiVersion: v1, kind: PersistentVolumeClaim, metadata: {name: a, namespace: d}, spec: {accessModes: [ReadWriteOnce], resources: {requests: {storage: 1}}, dataSource: {apiGroup: A B, kind: K, name: x}}}",
			"A B", "C D", true},
		"usages": {
			"{apiVersion: certificates.k8s.io/v1, kind: CertificateSigningRequest, metadata: {name: a}, spec: {signerName: a.b/c, usages: [odd, client auth, client auth]}}",
			"odd", "odder", true},
		"template of a set": {
			"{apiVersion: apps/v1, kind: StatefulSet, metadata: {name: a, namespace: d}, spec: {selector: {matchLabels: {a: b}}, " + template + "}}",
			"NODE", "EDON", true},
		"part of a huge page": {
			"{apiVersion: v1, kind: Pod, metadata: {name: a, namespace: d}, spec: {containers: [{name: c, image: i, resources: {limits: {cpu: 1, hugepages-2Mi: 3Mi}, requests: {cpu: 1, hugepages-2Mi: 3Mi}}}]}}",
			"limits: {cpu: 1, hugepages-2Mi: 3Mi}, requests: {cpu: 1, hugepages-2Mi: 3Mi}", "limits: {cpu: 1, hugepages-2Mi: 5Mi}, requests: {cpu: 1, hugepages-2Mi: 5Mi}", true},
		"part of a huge page in a template": {
			"{apiVersion: apps/v1, kind: Deployment, metadata: {name: a, namespace: d}, spec: {selector: {matchLabels: {a: b}}, template: {metadata: {labels: {a: b}}, spec: " +
				"{containers: [{name: c, image: i}], initContainers: [{name: i, image: i, resources: {limits: {cpu: 1, hugepages-2Mi: 3Mi}, requests: {hugepages-2Mi: 3Mi}}}]}}}}",
			"limits: {cpu: 1, hugepages-2Mi: 3Mi}, requests: {hugepages-2Mi: 3Mi}", "limits: {cpu: 1, hugepages-2Mi: 5Mi}, requests: {hugepages-2Mi: 5Mi}", true},
		"selector of an affinity": {
			"{apiVersion: batch/v1, kind: CronJob, metadata: {name: a, namespace: d}, spec: {schedule: '* * * * *', jobTemplate: {spec: {template: {spec: {restartPolicy: Never, containers: [{name: c, image: i}], " +
				"affinity: {podAntiAffinity: {requiredDuringSchedulingIgnoredDuringExecution: [{topologyKey: a, labelSelector: {matchExpressions: [{key: a, operator: In, values: [b c]}]}}]}}}}}}}}",
			"b c", "c d", true},
		"nodes of a template": {
			"{apiVersion: v1, kind: PodTemplate, metadata: {name: a, namespace: d}, template: {spec: {containers: [{name: c, image: i}], " +
				"affinity: {nodeAffinity: {requiredDuringSchedulingIgnoredDuringExecution: {nodeSelectorTerms: [{matchExpressions: [{key: a, operator: In, values: [b c]}]}]}}}}}}",
			"b c", "c d", true},
		"spread of a template": {
			"{apiVersion: apps/v1, kind: ReplicaSet, metadata: {name: a, namespace: d}, spec: {selector: {matchLabels: {a: b}}, template: {metadata: {labels: {a: b}}, spec: {containers: [{name: c, image: i}], " +
				"topologySpreadConstraints: [{maxSkew: 1, topologyKey: a, whenUnsatisfiable: DoNotSchedule, labelSelector: {matchLabels: {a: b c}}}]}}}}",
			"b c", "c d", true},
		"place of a token": {
			"{apiVersion: apps/v1, kind: DaemonSet, metadata: {name: a, namespace: d}, spec: {selector: {matchLabels: {a: b}}, template: {metadata: {labels: {a: b}}, spec: {containers: [{name: c, image: i}], " +
				"volumes: [{name: v, projected: {sources: [{serviceAccountToken: {path: ../t}}]}}]}}}}",
			"../t", "../u", true},
		"setting of a node": {
			"{apiVersion: v1, kind: ReplicationController, metadata: {name: a, namespace: d}, spec: {selector: {a: b}, template: {metadata: {labels: {a: b}}, spec: {hostNetwork: true, containers: [{name: c, image: i}], " +
				"securityContext: {sysctls: [{name: net.a, value: x}]}}}}}",
			"net.a", "net.b", true},
		"secret of an ingress": {
			"{apiVersion: networking.k8s.io/v1, kind: Ingress, metadata: {name: a, namespace: d}, spec: {defaultBackend: {service: {name: s, port: {number: 1}}}, tls: [{secretName: A B}]}}",
			"A B", "C D", true},
		"behind a star": {
			"{apiVersion: networking.k8s.io/v1, kind: Ingress, metadata: {name: a, namespace: d}, spec: {rules: [{host: '*.a.b', http: {paths: [{pathType: Exact, path: x, backend: {service: {name: s, port: {number: 1}}}}]}}]}}",
			"path: x", "path: z", true},
		"side effects of a webhook": {webhooks("[{" + webhook + ", sideEffects: Some, admissionReviewVersions: [v1]}]"), "Some", "Unknown", true},
		"versions of a webhook":     {webhooks("[{" + webhook + ", sideEffects: None, admissionReviewVersions: [v9]}]"), "v9", "v8", true},
		"names of webhooks": {
			webhooks("[{" + webhook + ", sideEffects: None, admissionReviewVersions: [v1]}, {" + webhook + ", sideEffects: None, admissionReviewVersions: [v1]}]"),
			"timeoutSeconds: 9", "timeoutSeconds: 8", true},
		"selector of a webhook": {
			webhooks("[{" + webhook + ", sideEffects: None, admissionReviewVersions: [v1], objectSelector: {matchExpressions: [{key: a, operator: In, values: [b c]}]}}]"), "b c", "c d", true},
		"condition of a webhook": {
			webhooks("[{" + webhook + ", sideEffects: None, admissionReviewVersions: [v1], matchConditions: [{name: x, expression: object.}]}]"), "object.", "object..", false},
		"condition of a policy": {
			"{apiVersion: admissionregistration.k8s.io/v1, kind: ValidatingAdmissionPolicy, metadata: {name: a}, spec: {" + matched + "validations: [{expression: 'true'}]}}", "object.", "object..", false},
		"condition of a mutating policy": {
			"{apiVersion: admissionregistration.k8s.io/v1, kind: MutatingAdmissionPolicy, metadata: {name: a}, spec: {reinvocationPolicy: Never, " + matched +
				"mutations: [{patchType: JSONPatch, jsonPatch: {expression: '[JSONPatch{op: \"remove\", path: \"/a\"}]'}}]}}", "object.", "object..", false},
		"restart by a resize": {
			"{apiVersion: v1, kind: Pod, metadata: {name: a, namespace: d}, spec: {initContainers: [{name: i, image: i, resizePolicy: [{resourceName: cpu, restartPolicy: RestartContainer}]}], containers: [{name: c, image: i}]}}",
			"resourceName: cpu", "resourceName: memory", true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			k, old := parse(t, c.object)
			change := func(text string) field.ErrorList {
				_, obj := parse(t, text)
				obj.SetAnnotations(map[string]string{"changed": "yes"})
				var errs field.ErrorList
				switch {
				case k.Ratchet != nil:
					errs = k.Ratchet(obj, old)
				case k.Validate != nil:
					errs = k.Validate(obj)
				}
				if k.ValidateUpdate != nil {
					errs = append(errs, k.ValidateUpdate(obj, old)...)
				}
				// What cannot change at all is no matter here, nor what this object lacks.
				var about field.ErrorList
				for _, err := range errs {
					if err.Type != field.ErrorTypeForbidden && !strings.HasSuffix(err.Field, "request") && !strings.HasPrefix(err.Field, "spec.ip") {
						about = append(about, err)
					}
				}
				return about
			}
			if errs := change(c.object); len(errs) > 0 {
				t.Errorf("what was stored may not stay: %v", errs.ToAggregate())
			}
			if errs := change(strings.Replace(c.object, c.fault, c.other, 1)); len(errs) > 0 == c.free {
				t.Errorf("another fault: %v", errs.ToAggregate())
			}
			var errs field.ErrorList
			for _, check := range []func() field.ErrorList{
				func() field.ErrorList {
					if k.Validate == nil {
						return nil
					}
					return k.Validate(old)
				},
				func() field.ErrorList {
					if k.ValidateCreate == nil {
						return nil
					}
					return k.ValidateCreate(old)
				},
			} {
				errs = append(errs, check()...)
			}
			if len(errs) == 0 {
				t.Error("it is no fault of a new object")
			}
		})
	}
}
