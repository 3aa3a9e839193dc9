package kind_test

import (
	"testing"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"

	"howdah.dev/services/apiserver/internal/registry"
)

const (
	template    = "template: {metadata: {labels: {a: b}}, spec: {containers: [{name: c, image: d}]}}"
	jobTemplate = "template: {spec: {restartPolicy: Never, containers: [{name: c, image: d}]}}"
	selector    = "selector: {matchLabels: {a: b}}, "
	statefulSet = "{apiVersion: apps/v1, kind: StatefulSet, metadata: {name: a, namespace: default}, spec: {"
	daemonSet   = "{apiVersion: apps/v1, kind: DaemonSet, metadata: {name: a, namespace: default}, spec: {"
	cronJob     = "{apiVersion: batch/v1, kind: CronJob, metadata: {name: a, namespace: default}, spec: {"
	manual      = "{apiVersion: batch/v1, kind: Job, metadata: {name: a, namespace: default}, spec: {manualSelector: true, selector: {matchLabels: {a: b}}, "
	manualPods  = "template: {metadata: {labels: {a: b}}, spec: {restartPolicy: Never, containers: [{name: c, image: d}]}}"
	pvc         = "{apiVersion: v1, kind: PersistentVolumeClaim, metadata: {name: a, namespace: default}, "
	pdb         = "{apiVersion: policy/v1, kind: PodDisruptionBudget, metadata: {name: a, namespace: default}, spec: "
	hpa         = "{apiVersion: autoscaling/v2, kind: HorizontalPodAutoscaler, metadata: {name: a, namespace: default}, spec: "
	rc          = "{apiVersion: v1, kind: ReplicationController, metadata: {name: a, namespace: default}, spec: {"
)

func TestWorkloadValidate(t *testing.T) {
	t.Parallel()
	const mismatch = "spec.template.metadata.labels: Invalid value: {\"a\":\"b\"}: `selector` does not match template `labels`"
	validates(t, map[string]validation{
		"set":           {statefulSet + selector + template + "}}", nil},
		"set, policy":   {statefulSet + "podManagementPolicy: Any, " + selector + template + "}}", []string{`spec.podManagementPolicy: Invalid value: "Any": must be 'OrderedReady' or 'Parallel'`}},
		"set, selector": {statefulSet + "selector: {matchLabels: {a: c}}, " + template + "}}", []string{mismatch}},
		"set, none":     {statefulSet + template + "}}", []string{"spec.selector: Required value", mismatch}},
		"set, deleted":  {statefulSet + "updateStrategy: {type: OnDelete, rollingUpdate: {partition: 1}}, " + selector + template + "}}", []string{`spec.updateStrategy.rollingUpdate: Invalid value: {"partition":1}: only allowed for updateStrategy 'RollingUpdate'`}},
		"set, claims":   {statefulSet + "persistentVolumeClaimRetentionPolicy: {whenScaled: Keep}, " + selector + template + "}}", []string{`spec.persistentVolumeClaimRetentionPolicy.whenScaled: Unsupported value: "Keep": supported values: "Retain", "Delete"`}},
		"set, ordinals": {statefulSet + "ordinals: {start: -1}, " + selector + template + "}}", []string{"spec.ordinals.start: Invalid value: -1: must be greater than or equal to 0"}},

		"daemons":          {daemonSet + selector + template + "}}", nil},
		"daemons, none":    {daemonSet + template + "}}", []string{mismatch}},
		"daemons, surge":   {daemonSet + "updateStrategy: {rollingUpdate: {maxSurge: 1}}, " + selector + template + "}}", []string{"spec.updateStrategy.rollingUpdate.maxSurge: Invalid value: 1: may not be set when maxUnavailable is non-zero"}},
		"daemons, stuck":   {daemonSet + "updateStrategy: {rollingUpdate: {maxUnavailable: 0}}, " + selector + template + "}}", []string{"spec.updateStrategy.rollingUpdate.maxUnavailable: Required value: cannot be 0 when maxSurge is 0"}},
		"daemons, nothing": {daemonSet + "selector: {}, " + template + "}}", []string{"spec.selector: Invalid value: {}: empty selector is invalid for daemonset"}},

		"controller":           {rc + template + "}}", nil},
		"controller, selector": {rc + "selector: {a: c}, " + template + "}}", []string{mismatch}},
		"controller, none":     {rc + "replicas: 1}}", []string{"spec.selector: Required value", "spec.template: Required value"}},

		"job":             {manual + manualPods + "}}", nil},
		"job, restart":    {manual + template + "}}", []string{`spec.template.spec.restartPolicy: Required value: valid values: "OnFailure", "Never"`}},
		"job, indexed":    {manual + "completionMode: Indexed, parallelism: 2, " + manualPods + "}}", []string{"spec.completions: Required value: when completion mode is Indexed"}},
		"job, index":      {manual + "maxFailedIndexes: 1, " + manualPods + "}}", []string{"spec.backoffLimitPerIndex: Required value: when maxFailedIndexes is specified", "spec.maxFailedIndexes: Invalid value: 1: requires indexed completion mode"}},
		"job, success":    {manual + "completionMode: Indexed, completions: 5, successPolicy: {rules: [{succeededIndexes: '0,2-3', succeededCount: 4}]}, " + manualPods + "}}", []string{"spec.successPolicy.rules[0].succeededCount: Invalid value: 4: must be less than or equal to 3 (the number of indexes in the specified succeededIndexes field)"}},
		"job, failures":   {manual + "podFailurePolicy: {rules: [{action: FailJob, onExitCodes: {operator: In, values: [3, 0]}}]}, " + manualPods + "}}", []string{"spec.podFailurePolicy.rules[0].onExitCodes.values[1]: Invalid value: 0: must not be 0 for the In operator", "spec.podFailurePolicy.rules[0].onExitCodes.values: Invalid value: [3,0]: must be ordered"}},
		"cron":            {cronJob + "schedule: '*/5 * * * *', timeZone: Europe/Vienna, jobTemplate: {spec: {" + jobTemplate + "}}}}", nil},
		"cron, never":     {cronJob + "jobTemplate: {spec: {" + jobTemplate + "}}}}", []string{"spec.schedule: Required value"}},
		"cron, nonsense":  {cronJob + "schedule: often, jobTemplate: {spec: {" + jobTemplate + "}}}}", []string{`spec.schedule: Invalid value: "often": expected exactly 5 fields, found 1: [often]`}},
		"cron, zone":      {cronJob + "schedule: 'TZ=UTC * * * * *', timeZone: Europe/Atlantis, jobTemplate: {spec: {" + jobTemplate + "}}}}", []string{`spec.schedule: Invalid value: "TZ=UTC * * * * *": cannot use TZ or CRON_TZ in schedule, use timeZone field instead`, `spec.timeZone: Invalid value: "Europe/Atlantis": unknown time zone Europe/Atlantis`}},
		"cron, job":       {cronJob + "schedule: '@daily', jobTemplate: {spec: {selector: {}, " + jobTemplate + "}}}}", []string{"spec.jobTemplate.spec.selector: Invalid value: {}: `selector` will be auto-generated"}},
		"claim":           {pvc + "spec: {accessModes: [ReadWriteOnce], resources: {requests: {storage: 1Gi}}}}", nil},
		"claim, nothing":  {pvc + "spec: {}}", []string{"spec.accessModes: Required value: at least 1 access mode is required", "spec.resources[storage]: Required value"}},
		"claim, modes":    {pvc + "spec: {accessModes: [Once], resources: {requests: {storage: 1Gi}}}}", []string{`spec.accessModes: Unsupported value: "Once": supported values: "ReadOnlyMany", "ReadWriteMany", "ReadWriteOnce", "ReadWriteOncePod"`}},
		"claim, source":   {pvc + "spec: {accessModes: [ReadWriteOnce], resources: {requests: {storage: 1Gi}}, dataSource: {kind: Disk, name: x}}}", []string{`spec.dataSource: Invalid value: "Disk": must be 'PersistentVolumeClaim' when referencing the default apiGroup`}},
		"budget":          {pdb + "{minAvailable: 50%, selector: {}}}", nil},
		"budget, both":    {pdb + "{minAvailable: 1, maxUnavailable: 1}}", []string{`spec: Invalid value: {"minAvailable":1,"maxUnavailable":1}: minAvailable and maxUnavailable cannot be both set`}},
		"budget, all":     {pdb + "{minAvailable: 150%}}", []string{`spec.minAvailable: Invalid value: "150%": must not be greater than 100%`}},
		"scaler":          {hpa + "{maxReplicas: 3, scaleTargetRef: {apiVersion: apps/v1, kind: Deployment, name: b}}}", nil},
		"scaler, nothing": {hpa + "{scaleTargetRef: {}}}", []string{"spec.maxReplicas: Required value: must be set and greater than 0", "spec.maxReplicas: Invalid value: 0: must be greater than or equal to `minReplicas`", "spec.scaleTargetRef.kind: Required value", "spec.scaleTargetRef.name: Required value", `spec.scaleTargetRef.apiVersion: Invalid value: "": apiVersion must specify API group`}},
		"scaler, metric":  {hpa + "{maxReplicas: 3, scaleTargetRef: {apiVersion: apps/v1, kind: Deployment, name: b}, metrics: [{type: Pods}]}}", []string{"spec.metrics[0].pods: Required value: must populate information for the given metric source"}},
	})
}

func TestWorkloadUpdate(t *testing.T) {
	t.Parallel()
	const forbidden = "spec: Forbidden: updates to statefulset spec for fields other than 'replicas', 'ordinals', 'template', 'updateStrategy', 'revisionHistoryLimit', 'persistentVolumeClaimRetentionPolicy' and 'minReadySeconds' are forbidden"
	validatesUpdates(t, map[string]change{
		"set":              {statefulSet + selector + template + "}}", statefulSet + "replicas: 5, ordinals: {start: 2}, " + selector + template + "}}", nil},
		"set's name":       {statefulSet + selector + template + "}}", statefulSet + "serviceName: b, " + selector + template + "}}", []string{forbidden}},
		"daemons":          {daemonSet + selector + template + "}}", daemonSet + "selector: {matchLabels: {c: d}}, " + template + "}}", []string{`spec.selector: Invalid value: {"matchLabels":{"c":"d"}}: field is immutable`}},
		"job":              {manual + manualPods + "}}", manual + "parallelism: 4, completions: 1, suspend: true, " + manualPods + "}}", nil},
		"job, completions": {manual + "completions: 2, " + manualPods + "}}", manual + "completions: 3, " + manualPods + "}}", []string{"spec.completions: Invalid value: 3: field is immutable"}},
		"job, in tandem":   {manual + "completionMode: Indexed, completions: 2, parallelism: 2, " + manualPods + "}}", manual + "completionMode: Indexed, completions: 3, parallelism: 3, " + manualPods + "}}", nil},
		"job, suspended":   {manual + "suspend: true, " + manualPods + "}}", manual + "suspend: true, template: {metadata: {labels: {a: b, c: d}}, spec: {nodeSelector: {e: f}, restartPolicy: Never, containers: [{name: c, image: d}]}}}}", nil},
		"claim, bound":     {pvc + "spec: {accessModes: [ReadWriteOnce], resources: {requests: {storage: 1Gi}}}, status: {phase: Bound}}", pvc + "spec: {accessModes: [ReadWriteOnce], volumeName: v, resources: {requests: {storage: 2Gi}}}}", nil},
		"claim, smaller":   {pvc + "spec: {accessModes: [ReadWriteOnce], resources: {requests: {storage: 2Gi}}}, status: {phase: Bound, capacity: {storage: 1Gi}}}", pvc + "spec: {accessModes: [ReadWriteOnce], resources: {requests: {storage: 1Gi}}}}", []string{"spec.resources.requests.storage: Forbidden: field can not be less than status.capacity"}},
	})
}

func TestJobSelectsItsOwnPods(t *testing.T) {
	t.Parallel()
	k, obj := parse(t, "{apiVersion: batch/v1, kind: Job, metadata: {name: a, namespace: default, uid: u}, spec: {"+jobTemplate+"}}")
	k.PrepareCreate(obj)
	k.Complete(obj, registry.Caller{})
	j := obj.(*batchv1.Job)
	if len(j.Labels) > 0 {
		t.Errorf("it has labels before it is stored: %v", j.Labels)
	}
	k.Settle(obj)
	if j.Spec.Selector.MatchLabels["batch.kubernetes.io/controller-uid"] != "u" || j.Spec.Template.Labels["job-name"] != "a" || j.Labels["batch.kubernetes.io/job-name"] != "a" {
		t.Errorf("%+v", j)
	}
	expect(t, k.Validate(j))
	j.Spec.Template.Labels["controller-uid"] = "other"
	expect(t, k.Validate(j), `spec.template.metadata.labels[controller-uid]: Invalid value: {"batch.kubernetes.io/controller-uid":"u","batch.kubernetes.io/job-name":"a","controller-uid":"other","job-name":"a"}: must be 'u'`)
}

func TestDaemonSetCountsTemplates(t *testing.T) {
	t.Parallel()
	const key = "deprecated.daemonset.template.generation"
	k, old := parse(t, daemonSet+selector+template+"}}")
	k.PrepareCreate(old)
	if old.GetAnnotations()[key] != "1" || old.GetGeneration() != 1 {
		t.Errorf("%v", old.GetAnnotations())
	}
	obj := old.DeepCopyObject().(registry.Object)
	obj.SetAnnotations(nil)
	k.PrepareUpdate(obj, old)
	if obj.GetAnnotations()[key] != "1" || obj.GetGeneration() != 1 {
		t.Errorf("%v", obj.GetAnnotations())
	}
	_, other := parse(t, daemonSet+selector+"template: {metadata: {labels: {a: b}}, spec: {containers: [{name: c, image: other}]}}}}")
	k.PrepareUpdate(other, old)
	if other.GetAnnotations()[key] != "2" || other.GetGeneration() != 2 {
		t.Errorf("%v", other.GetAnnotations())
	}
}

func TestWorkloadColumns(t *testing.T) {
	t.Parallel()
	const pods = "[Containers]|[Images]"
	shows(t, map[string]shown{
		"set":        {statefulSet + selector + template + "}, status: {readyReplicas: 1}}", "Name|Ready|Age|" + pods, "a|1/1|<unknown>|c|d"},
		"daemons":    {daemonSet + selector + template + "}, status: {desiredNumberScheduled: 3, currentNumberScheduled: 2, numberReady: 1}}", "Name|Desired|Current|Ready|Up-to-date|Available|Node Selector|Age|" + pods + "|[Selector]", "a|3|2|1|0|0|<none>|<unknown>|c|d|a=b"},
		"controller": {rc + template + "}, status: {replicas: 1}}", "Name|Desired|Current|Ready|Age|" + pods + "|[Selector]", "a|1|1|0|<unknown>|c|d|a=b"},
		"template":   {"{apiVersion: v1, kind: PodTemplate, metadata: {name: a}, " + template + "}", "Name|Containers|Images|Pod Labels", "a|c|d|a=b"},
		"revision": {"{apiVersion: apps/v1, kind: ControllerRevision, metadata: {name: a, ownerReferences: [{apiVersion: apps/v1, kind: StatefulSet, name: web, uid: u, controller: true}]}, revision: 3, data: {}}",
			"Name|Controller|Revision|Age", "a|statefulset.apps/web|3|<unknown>"},
		"job": {manual + "completions: 3, " + manualPods + "}, status: {succeeded: 2, startTime: '2026-01-02T03:03:05Z'}}", "Name|Status|Completions|Duration|Age|" + pods + "|[Selector]", "a|Running|2/3|60s|<unknown>|c|d|a=b"},
		"done": {manual + "parallelism: 2, " + manualPods + "}, status: {succeeded: 1, startTime: '2026-01-02T03:03:05Z', completionTime: '2026-01-02T03:03:15Z', conditions: [{type: Complete, status: 'True'}]}}",
			"Name|Status|Completions|Duration|Age|" + pods + "|[Selector]", "a|Complete|1/1 of 2|10s|<unknown>|c|d|a=b"},
		"cron": {cronJob + "schedule: '@daily', jobTemplate: {spec: {" + jobTemplate + "}}}, status: {lastScheduleTime: '2026-01-02T03:03:05Z', active: [{}]}}",
			"Name|Schedule|Timezone|Suspend|Active|Last Schedule|Age|" + pods + "|[Selector]", "a|@daily|<none>|False|1|60s|<unknown>|c|d|<none>"},
		"claim": {pvc + "spec: {volumeName: v, storageClassName: fast}, status: {phase: Bound, capacity: {storage: 1Gi}, accessModes: [ReadWriteMany, ReadWriteOnce]}}",
			"Name|Status|Volume|Capacity|Access Modes|StorageClass|VolumeAttributesClass|Age|[VolumeMode]", "a|Bound|v|1Gi|RWO,RWX|fast|<unset>|<unknown>|Filesystem"},
		"budget": {pdb + "{minAvailable: 50%}}", "Name|Min Available|Max Unavailable|Allowed Disruptions|Age", "a|50%|N/A|0|<unknown>"},
		"scaler": {hpa + "{maxReplicas: 3, scaleTargetRef: {apiVersion: apps/v1, kind: Deployment, name: b}}}", "Name|Reference|Targets|MinPods|MaxPods|Replicas|Age", "a|Deployment/b|cpu: <unknown>/80%|1|3|0|<unknown>"},
	})
}

func TestNullBytesAreNone(t *testing.T) {
	t.Parallel()
	k, obj := parse(t, "{apiVersion: v1, kind: Secret, metadata: {name: a}, data: {a: null, b: eA==}}")
	if k.Default(obj); obj.(*corev1.Secret).Data["a"] == nil {
		t.Error("a Secret keeps null")
	}
	k, obj = parse(t, "{apiVersion: v1, kind: ConfigMap, metadata: {name: a}, binaryData: {a: null}}")
	if k.Default(obj); obj.(*corev1.ConfigMap).BinaryData["a"] == nil {
		t.Error("a ConfigMap keeps null")
	}
}
