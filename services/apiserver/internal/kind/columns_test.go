package kind_test

import (
	"fmt"
	"strings"
	"testing"
)

// What kubectl get -o wide prints of each kind; columns of -o wide only are in brackets.
func TestColumns(t *testing.T) {
	t.Parallel()
	const at = "creationTimestamp: '2026-01-01T03:04:05Z'"
	shows(t, map[string]shown{
		"namespace": {"{apiVersion: v1, kind: Namespace, metadata: {name: a, " + at + "}, status: {phase: Active}}",
			"Name|Status|Age", "a|Active|24h"},
		"node": {`{apiVersion: v1, kind: Node, metadata: {name: a, ` + at + `, labels: {node-role.kubernetes.io/worker: '', kubernetes.io/role: db}}, spec: {unschedulable: true},
  status: {conditions: [{type: Ready, status: 'True'}], addresses: [{type: InternalIP, address: 10.0.0.1}], nodeInfo: {kubeletVersion: v1.36.3, osImage: Debian, kernelVersion: '6.1', containerRuntimeVersion: 'containerd://2.4.2'}}}`,
			"Name|Status|Roles|Age|Version|[Internal-IP]|[External-IP]|[OS-Image]|[Kernel-Version]|[Container-Runtime]",
			"a|Ready,SchedulingDisabled|db,worker|24h|v1.36.3|10.0.0.1|<none>|Debian|6.1|containerd://2.4.2"},
		"new node": {"{apiVersion: v1, kind: Node, metadata: {name: a}}",
			"Name|Status|Roles|Age|Version|[Internal-IP]|[External-IP]|[OS-Image]|[Kernel-Version]|[Container-Runtime]",
			"a|Unknown|<none>|<unknown>||<none>|<none>|<unknown>|<unknown>|<unknown>"},
		"lost node": {"{apiVersion: v1, kind: Node, metadata: {name: a}, status: {conditions: [{type: Ready, status: Unknown}]}}",
			"Name|Status|Roles|Age|Version|[Internal-IP]|[External-IP]|[OS-Image]|[Kernel-Version]|[Container-Runtime]",
			"a|NotReady|<none>|<unknown>||<none>|<none>|<unknown>|<unknown>|<unknown>"},
		"endpoints": {"{apiVersion: v1, kind: Endpoints, metadata: {name: a}, subsets: [{addresses: [{ip: 10.0.0.1}, {ip: 10.0.0.2}], ports: [{port: 80}, {port: 81}]}]}",
			"Name|Endpoints|Age", "a|10.0.0.1:80,10.0.0.2:80,10.0.0.1:81 + 1 more...|<unknown>"},
		"no ready endpoints": {"{apiVersion: v1, kind: Endpoints, metadata: {name: a}, subsets: [{notReadyAddresses: [{ip: 10.0.0.1}], ports: [{port: 80}]}]}",
			"Name|Endpoints|Age", "a||<unknown>"},
		"slice": {"{apiVersion: discovery.k8s.io/v1, kind: EndpointSlice, metadata: {name: a}, addressType: IPv4, endpoints: [{addresses: [10.0.0.1]}, {addresses: [10.0.0.2]}, {addresses: [10.0.0.3]}, {addresses: [10.0.0.4]}], ports: [{port: 80}, {}]}",
			"Name|AddressType|Ports|Endpoints|Age", "a|IPv4|80,|10.0.0.1,10.0.0.2,10.0.0.3 + 1 more...|<unknown>"},
		"slice without ports": {"{apiVersion: discovery.k8s.io/v1, kind: EndpointSlice, metadata: {name: a}, addressType: IPv4, endpoints: [], ports: [{name: ''}]}",
			"Name|AddressType|Ports|Endpoints|Age", "a|IPv4|<unset>|<unset>|<unknown>"},
		"empty slice": {"{apiVersion: discovery.k8s.io/v1, kind: EndpointSlice, metadata: {name: a}, addressType: IPv4, endpoints: []}",
			"Name|AddressType|Ports|Endpoints|Age", "a|IPv4|<unset>|<unset>|<unknown>"},
		"config map":      {"{apiVersion: v1, kind: ConfigMap, metadata: {name: a}, data: {b: c}, binaryData: {d: YQ==}}", "Name|Data|Age", "a|2|<unknown>"},
		"secret":          {"{apiVersion: v1, kind: Secret, metadata: {name: a}, stringData: {b: c}}", "Name|Type|Data|Age", "a|Opaque|1|<unknown>"},
		"service account": {"{apiVersion: v1, kind: ServiceAccount, metadata: {name: a}}", "Name|Age", "a|<unknown>"},
		"lease":           {"{apiVersion: coordination.k8s.io/v1, kind: Lease, metadata: {name: a}, spec: {holderIdentity: me}}", "Name|Holder|Age", "a|me|<unknown>"},
		"old event": {"{apiVersion: v1, kind: Event, metadata: {name: a.1}, involvedObject: {kind: Pod, name: p, fieldPath: 'spec.containers{c}'}, reason: Pulled, message: ' done ', type: Normal, count: 3, source: {component: nodeagent, host: node1}, firstTimestamp: '2026-01-02T03:00:05Z', lastTimestamp: '2026-01-02T03:03:05Z'}",
			"Last Seen|Type|Reason|Object|[Subobject]|[Source]|Message|[First Seen]|[Count]|[Name]",
			"60s|Normal|Pulled|pod/p|spec.containers{c}|nodeagent, node1|done|4m|3|a.1"},
		"new event": {"{apiVersion: v1, kind: Event, metadata: {name: a.1}, involvedObject: {kind: Pod, name: p}, reason: Scheduled, type: Normal, reportingComponent: scheduler, reportingInstance: s-0, eventTime: '2026-01-02T03:03:05.000000Z'}",
			"Last Seen|Type|Reason|Object|[Subobject]|[Source]|Message|[First Seen]|[Count]|[Name]",
			"60s|Normal|Scheduled|pod/p||scheduler, s-0||60s|1|a.1"},
		"series": {"{apiVersion: v1, kind: Event, metadata: {name: a.1}, involvedObject: {kind: Pod, name: p}, type: Normal, eventTime: '2026-01-02T03:00:05.000000Z', series: {count: 7, lastObservedTime: '2026-01-02T03:04:00.000000Z'}}",
			"Last Seen|Type|Reason|Object|[Subobject]|[Source]|Message|[First Seen]|[Count]|[Name]",
			"5s|Normal||pod/p||||4m|7|a.1"},
		"replica set": {"{apiVersion: apps/v1, kind: ReplicaSet, metadata: {name: a}, spec: {replicas: 3, selector: {matchLabels: {b: c}}, template: {spec: {containers: [{name: d, image: e}]}}}, status: {replicas: 2, readyReplicas: 1}}",
			"Name|Desired|Current|Ready|Age|[Containers]|[Images]|[Selector]", "a|3|2|1|<unknown>|d|e|b=c"},
		"priority class": {"{apiVersion: scheduling.k8s.io/v1, kind: PriorityClass, metadata: {name: a}, value: 5}",
			"Name|Value|Global-Default|Age|PreemptionPolicy", "a|5|false|<unknown>|PreemptLowerPriority"},
	})
}

// shown is an object, and the head and the row that it makes.
type shown struct{ object, head, row string }

func shows(t *testing.T, cases map[string]shown) {
	t.Helper()
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			k, obj := parse(t, c.object)
			var head, row []string
			for _, col := range k.Columns {
				if col.Priority > 0 {
					head = append(head, "["+col.Name+"]")
				} else {
					head = append(head, col.Name)
				}
			}
			for _, cell := range k.Cells(obj) {
				row = append(row, fmt.Sprint(cell))
			}
			if got := strings.Join(head, "|"); got != c.head {
				t.Errorf("columns\n  %s\nwant\n  %s", got, c.head)
			}
			if got := strings.Join(row, "|"); got != c.row {
				t.Errorf("row\n  %s\nwant\n  %s", got, c.row)
			}
		})
	}
}
