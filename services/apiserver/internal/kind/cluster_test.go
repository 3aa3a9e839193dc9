package kind_test

import (
	"os"
	"slices"
	"strings"
	"testing"

	certificatesv1 "k8s.io/api/certificates/v1"

	"howdah.dev/services/apiserver/internal/registry"
)

const (
	quotas    = "{apiVersion: v1, kind: ResourceQuota, metadata: {name: a, namespace: default}, "
	limits    = "{apiVersion: v1, kind: LimitRange, metadata: {name: a, namespace: default}, spec: {limits: "
	pv        = "{apiVersion: v1, kind: PersistentVolume, metadata: {name: a}, spec: {"
	class     = "{apiVersion: storage.k8s.io/v1, kind: StorageClass, metadata: {name: a}, "
	csiDriver = "{apiVersion: storage.k8s.io/v1, kind: CSIDriver, metadata: {name: example.com}, spec: "
	netpol    = "{apiVersion: networking.k8s.io/v1, kind: NetworkPolicy, metadata: {name: a, namespace: default}, spec: {podSelector: {}, "
	ing       = "{apiVersion: networking.k8s.io/v1, kind: Ingress, metadata: {name: a, namespace: default}, spec: {"
	cidr      = "{apiVersion: networking.k8s.io/v1, kind: ServiceCIDR, metadata: {name: a}, spec: {cidrs: "
	address   = "{apiVersion: networking.k8s.io/v1, kind: IPAddress, metadata: {name: 10.0.0.1}, spec: {parentRef: "
	handler   = "{apiVersion: node.k8s.io/v1, kind: RuntimeClass, metadata: {name: a}, handler: "
)

func TestClusterValidate(t *testing.T) {
	t.Parallel()
	validates(t, map[string]validation{
		"quota":           {quotas + "spec: {hard: {pods: 4, limits.cpu: 1500m, count/jobs.batch: 2, example.com/gpu: 1}, scopes: [NotTerminating]}}", nil},
		"quota, misfit":   {quotas + "spec: {hard: {pods: 4, cpu: 1, services: 1, count/jobs.batch: 2}, scopes: [BestEffort]}}", []string{`spec.scopes: Invalid value: ["BestEffort"]: unsupported scope applied to resource`, `spec.scopes: Invalid value: ["BestEffort"]: unsupported scope applied to resource`}},
		"quota, names":    {quotas + "spec: {hard: {pods: -1, disks: 1, secrets: 100m}}}", []string{`spec.hard[disks]: Invalid value: "disks": must be a standard resource type or fully qualified`, `spec.hard[disks]: Invalid value: "disks": must be a standard resource for quota`, `spec.hard[pods]: Invalid value: "-1": must be greater than or equal to 0`, `spec.hard[secrets]: Invalid value: "100m": must be an integer`}},
		"quota, scopes":   {quotas + "spec: {scopes: [BestEffort, NotBestEffort]}}", []string{`spec.scopes: Invalid value: ["BestEffort","NotBestEffort"]: conflicting scopes`}},
		"limits":          {limits + "[{type: Container, max: {cpu: 2}, min: {cpu: 1}}]}}", nil},
		"limits, crossed": {limits + "[{type: Pod, max: {cpu: 1}, min: {cpu: 2}}, {type: Pod}]}}", []string{`spec.limits[0].min[cpu]: Invalid value: "2": min value 2 is greater than max value 1`, `spec.limits[1].type: Duplicate value: "Pod"`}},
		"volume":          {pv + "capacity: {storage: 1Gi}, accessModes: [ReadWriteOnce], hostPath: {path: /a}}}", nil},
		"volume, local":   {pv + "capacity: {storage: 1Gi}, accessModes: [ReadWriteOnce], local: {path: /a}, nodeAffinity: {required: {nodeSelectorTerms: [{matchExpressions: [{key: a, operator: Exists}]}]}}}}", nil},
		"volume, nothing": {pv + "}}", []string{`spec.accessModes: Required value`, `spec.capacity: Required value`, `spec.capacity: Unsupported value: null: supported values: "storage"`, `spec: Required value: must specify a volume type`}},
		"volume, two":     {pv + "capacity: {storage: 1Gi}, accessModes: [ReadWriteOnce], hostPath: {path: /a}, csi: {driver: a, volumeHandle: b}}}", []string{"spec.csi: Forbidden: may not specify more than 1 volume type"}},
		"volume, nowhere": {pv + "capacity: {storage: 1Gi}, accessModes: [ReadWriteOnce], local: {path: /a}}}", []string{`spec.nodeAffinity: Required value: Local volume requires node affinity`}},
		"volume, nfs":     {pv + "capacity: {storage: 1Gi}, accessModes: [ReadWriteOnce], nfs: {server: a, path: b}}}", []string{`spec.nfs.path: Invalid value: "b": must be an absolute path`}},
		"class":           {class + "provisioner: Example.com/p}", nil},
		"class, nothing":  {class + "volumeBindingMode: Later}", []string{"provisioner: Required value", `volumeBindingMode: Unsupported value: "Later": supported values: "Immediate", "WaitForFirstConsumer"`}},
		"driver":          {csiDriver + "{}}", nil},
		"driver, token":   {csiDriver + "{tokenRequests: [{audience: a, expirationSeconds: 1}, {audience: a}]}}", []string{"spec.tokenRequests[0].expirationSeconds: Invalid value: 1: may not specify a duration less than 10 minutes", `spec.tokenRequests[1].audience: Duplicate value: "a"`}},
		"policy":          {netpol + "egress: [{ports: [{port: 80, endPort: 90}], to: [{ipBlock: {cidr: 10.0.0.0/8, except: [10.1.0.0/16]}}]}]}}", nil},
		"policy, peers":   {netpol + "ingress: [{from: [{}, {ipBlock: {cidr: 10.0.0.0/8, except: [11.0.0.0/16]}, podSelector: {}}]}]}}", []string{"spec.ingress[0].from[0]: Required value: must specify a peer", `spec.ingress[0].from[1].ipBlock.except[0]: Invalid value: "11.0.0.0/16": must be a strict subset of ` + "`cidr`", "spec.ingress[0].from[1]: Forbidden: may not specify both ipBlock and another peer"}},
		"policy, ports":   {netpol + "ingress: [{ports: [{endPort: 3}, {port: web, endPort: 3}]}]}}", []string{"spec.ingress[0].ports[0].endPort: Invalid value: 3: may not be specified when `port` is not specified", "spec.ingress[0].ports[1].endPort: Invalid value: 3: may not be specified when `port` is non-numeric"}},
		"ingress":         {ing + "rules: [{host: '*.example.com', http: {paths: [{path: /a, pathType: Prefix, backend: {service: {name: s, port: {name: web}}}}]}}]}}", nil},
		"ingress, bare":   {ing + "}}", []string{"spec: Invalid value: null: either `defaultBackend` or `rules` must be specified"}},
		"ingress, path":   {ing + "rules: [{host: 10.0.0.1, http: {paths: [{path: a, pathType: Exact, backend: {}}]}}]}}", []string{`spec.rules[0].host: Invalid value: "10.0.0.1": must be a DNS name, not an IP address`, `spec.rules[0].http.paths[0].path: Invalid value: "a": must be an absolute path`, `spec.rules[0].http.paths[0].backend: Invalid value: "": resource or service backend is required`}},
		"networks":        {cidr + "[10.0.0.0/16, 'fd00::/64']}}", nil},
		"networks, odd":   {cidr + "[10.0.0.1/16, 10.1.0.0/16]}}", []string{`spec.cidrs[0]: Invalid value: "10.0.0.1/16": must not have bits set beyond the prefix length`, `spec.cidrs: Invalid value: ["10.0.0.1/16","10.1.0.0/16"]: may specify no more than one IP for each IP family, i.e 192.168.0.0/24 and 2001:db8::/64`}},
		"address":         {address + "{resource: services}}}", []string{"spec.parentRef.name: Required value"}},
		"handler":         {handler + "runc, overhead: {podFixed: {cpu: 10m}}}", nil},
	})
	validatesUpdates(t, map[string]change{
		"scopes":                 {quotas + "spec: {scopes: [BestEffort]}}", quotas + "spec: {}}", []string{"spec.scopes: Invalid value: null: field is immutable"}},
		"label of another name":  {pv + "hostPath: {path: /a}, nodeAffinity: {required: {nodeSelectorTerms: [{matchExpressions: [{key: failure-domain.beta.kubernetes.io/zone, operator: In, values: [z]}]}]}}}}", pv + "hostPath: {path: /a}, nodeAffinity: {required: {nodeSelectorTerms: [{matchExpressions: [{key: topology.kubernetes.io/zone, operator: In, values: [z]}]}]}}}}", nil},
		"label of another value": {pv + "hostPath: {path: /a}, nodeAffinity: {required: {nodeSelectorTerms: [{matchExpressions: [{key: beta.kubernetes.io/os, operator: In, values: [a]}]}]}}}}", pv + "hostPath: {path: /a}, nodeAffinity: {required: {nodeSelectorTerms: [{matchExpressions: [{key: kubernetes.io/os, operator: In, values: [b]}]}]}}}}", []string{`nodeAffinity: Invalid value: {"required":{"nodeSelectorTerms":[{"matchExpressions":[{"key":"kubernetes.io/os","operator":"In","values":["b"]}]}]}}: field is immutable, except for updating from beta label to GA`}},
		"source": {pv + "hostPath: {path: /a}}}", pv + "hostPath: {path: /b}}}", []string{"spec.persistentvolumesource: Forbidden: spec.persistentvolumesource is immutable after creation\n" +
			"@@ -2,7 +2,7 @@\n  \"GCEPersistentDisk\": null,\n  \"AWSElasticBlockStore\": null,\n  \"HostPath\": {\n-  \"Path\": \"/a\",\n" +
			"+  \"Path\": \"/b\",\n   \"Type\": \"\"\n  },\n  \"Glusterfs\": null,\n"}},
		"class":    {class + "provisioner: a/b}", class + "provisioner: a/c}", []string{`provisioner: Invalid value: "a/c": field is immutable`}},
		"handler":  {handler + "a}", handler + "b}", []string{`handler: Invalid value: "b": field is immutable`}},
		"networks": {cidr + "[10.0.0.0/16]}}", cidr + "[10.1.0.0/16]}}", []string{`spec.cidrs[0]: Invalid value: "10.1.0.0/16": field is immutable`}},
	})
}

func TestClusterColumns(t *testing.T) {
	t.Parallel()
	shows(t, map[string]shown{
		"quota":           {quotas + "status: {hard: {pods: 4, limits.cpu: 2}, used: {pods: 1}}}", "Name|Request|Limit|Age", "a|pods: 1/4|limits.cpu: 0/2|<unknown>"},
		"volume":          {pv + "capacity: {storage: 1Gi}, accessModes: [ReadWriteOnce], claimRef: {namespace: b, name: c}, storageClassName: d}, status: {phase: Bound}}", "Name|Capacity|Access Modes|Reclaim Policy|Status|Claim|StorageClass|VolumeAttributesClass|Reason|Age|[VolumeMode]", "a|1Gi|RWO|Retain|Bound|b/c|d|<unset>||<unknown>|Filesystem"},
		"class":           {"{apiVersion: storage.k8s.io/v1, kind: StorageClass, metadata: {name: a, annotations: {storageclass.kubernetes.io/is-default-class: 'true'}}, provisioner: b/c}", "Name|Provisioner|ReclaimPolicy|VolumeBindingMode|AllowVolumeExpansion|Age", "a (default)|b/c|Delete|Immediate|false|<unknown>"},
		"driver":          {csiDriver + "{}}", "Name|AttachRequired|PodInfoOnMount|StorageCapacity|TokenRequests|RequiresRepublish|Modes|Age", "example.com|true|false|false|<unset>|false|Persistent|<unknown>"},
		"policy":          {netpol + "}}", "Name|Pod-Selector|Age", "a|<none>|<unknown>"},
		"ingress":         {ing + "ingressClassName: c, tls: [{}], rules: [{host: b.c}]}, status: {loadBalancer: {ingress: [{ip: 10.0.0.1}]}}}", "Name|Class|Hosts|Address|Ports|Age", "a|c|b.c|10.0.0.1|80, 443|<unknown>"},
		"address":         {address + "{resource: services, namespace: b, name: c}}}", "Name|ParentRef", "10.0.0.1|services/b/c|<unknown>"},
		"foreign address": {address + "{group: B.c, resource: Ds, name: E}}}", "Name|ParentRef", "10.0.0.1|ds.b.c/E|<unknown>"},
		"request":         {"{apiVersion: certificates.k8s.io/v1, kind: CertificateSigningRequest, metadata: {name: a}, spec: {request: '', signerName: b.c/d, username: me, expirationSeconds: 3600}, status: {certificate: YQ==, conditions: [{type: Approved, status: 'True'}]}}", "Name|Age|SignerName|Requestor|RequestedDuration|Condition", "a|<unknown>|b.c/d|me|60m|Approved,Issued"},
	})
}

// A request says who made it, whatever its maker says; approval and signing are apart.
func TestSigningRequest(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("testdata/defaults/certificatesigningrequest.in.yaml")
	if err != nil {
		t.Fatal(err)
	}
	k, obj := parse(t, strings.Replace(string(text), "spec:", "spec:\n  username: root\n  groups: [system:masters]", 1))
	k.PrepareCreate(obj)
	k.Complete(obj, registry.Caller{Name: "jane", Groups: []string{"team"}})
	r := obj.(*certificatesv1.CertificateSigningRequest)
	if r.Spec.Username != "jane" || !slices.Equal(r.Spec.Groups, []string{"team"}) {
		t.Errorf("made by %s of %v", r.Spec.Username, r.Spec.Groups)
	}
	expect(t, k.Validate(r))
	approved := certificatesv1.CertificateSigningRequestCondition{Type: "Approved", Status: "True"}
	signed := r.DeepCopy()
	signed.Status.Certificate = []byte("c")
	signed.Status.Conditions = append(signed.Status.Conditions, approved)
	k.Status.PrepareUpdate(signed, r)
	if string(signed.Status.Certificate) != "c" {
		t.Errorf("the signer cannot sign: %+v", signed.Status)
	}
	expect(t, k.Status.ValidateUpdate(signed, r), `status.certificate: Invalid value: "<certificate data>": must contain at least one CERTIFICATE PEM block`,
		`status.conditions: Forbidden: updates may not add a condition of type "Approved"`)
	said := r.DeepCopy()
	said.Status = certificatesv1.CertificateSigningRequestStatus{Certificate: []byte("x"), Conditions: []certificatesv1.CertificateSigningRequestCondition{approved, {Type: "Checked", Status: "True"}}}
	k.Writes["approval"].PrepareUpdate(said, r)
	if c := said.Status.Conditions; len(c) != 2 || c[0].LastUpdateTime.IsZero() || c[1].LastTransitionTime.IsZero() || said.Status.Certificate != nil {
		t.Errorf("the approver signed: %+v", said.Status)
	}
	expect(t, k.Writes["approval"].ValidateUpdate(r, said), `status.conditions: Forbidden: updates may not remove a condition of type "Approved"`)
}
