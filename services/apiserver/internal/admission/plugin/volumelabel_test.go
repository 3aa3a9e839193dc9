package plugin

import (
	"strings"
	"testing"

	"howdah.dev/services/apiserver/internal/admission"
)

func TestPersistentVolumeLabel(t *testing.T) {
	t.Parallel()
	p, err := NewPersistentVolumeLabel([]byte(`{apiVersion: persistentvolumelabel.admission.howdah.dev/v1alpha1, kind: Configuration, volumes: [
		{source: gcePersistentDisk, id: "eu-*-a", zone: europe-west1-b, region: europe-west1},
		{source: gcePersistentDisk, id: regional, zone: z2__z1, region: r},
		{source: azureDisk, id: "*", region: westeurope}, {source: vsphereVolume, id: "[ds1] *", zone: rack1},
		{source: awsElasticBlockStore, id: "aws://us-east-1a/moved", zone: elsewhere}]}`))
	if err != nil {
		t.Fatal(err)
	}
	volume := func(meta, spec string) write {
		return write{resource: "persistentvolumes", object: "{metadata: {name: v" + meta + "}, spec: {" + spec + "}}"}
	}
	requires := func(key, value string) string {
		return "- key: " + key + "\n          operator: In\n          values:\n          - " + value
	}
	verdicts(t, p, map[string]verdict{
		"by pattern": {write: volume("", "gcePersistentDisk: {pdName: eu-7-a}"), becomes: []string{
			"topology.kubernetes.io/zone: europe-west1-b", "topology.kubernetes.io/region: europe-west1",
			"failure-domain.beta.kubernetes.io/zone: europe-west1-b", "failure-domain.beta.kubernetes.io/region: europe-west1",
			requires("topology.kubernetes.io/zone", "europe-west1-b"), requires("topology.kubernetes.io/region", "europe-west1"),
		}, not: []string{"key: failure-domain"}},
		"several zones": {write: volume("", "gcePersistentDisk: {pdName: regional}"), becomes: []string{
			"topology.kubernetes.io/zone: z2__z1", requires("topology.kubernetes.io/zone", "z1\n          - z2"),
		}},
		"region alone":    {write: volume("", "azureDisk: {diskName: d, diskURI: u}"), becomes: []string{"topology.kubernetes.io/region: westeurope"}, not: []string{"/zone"}},
		"no regexp":       {write: volume("", "vsphereVolume: {volumePath: '[ds1] a.vmdk'}"), becomes: []string{"topology.kubernetes.io/zone: rack1"}},
		"id says it":      {write: volume("", "awsElasticBlockStore: {volumeID: 'aws://ap-northeast-1c/vol-1'}"), becomes: []string{"topology.kubernetes.io/zone: ap-northeast-1c", "topology.kubernetes.io/region: ap-northeast-1\n"}},
		"config is first": {write: volume("", "awsElasticBlockStore: {volumeID: 'aws://us-east-1a/moved'}"), becomes: []string{"topology.kubernetes.io/zone: elsewhere"}},
		"replaces labels": {write: volume(", labels: {topology.kubernetes.io/zone: mine}", "gcePersistentDisk: {pdName: eu-7-a}"), becomes: []string{"topology.kubernetes.io/zone: europe-west1-b"}, not: []string{"mine"}},
		"adds to terms": {write: volume("", "gcePersistentDisk: {pdName: eu-7-a}, nodeAffinity: {required: {nodeSelectorTerms: [{matchExpressions: [{key: disk, operator: Exists}]}]}}"),
			becomes: []string{"key: disk", requires("topology.kubernetes.io/zone", "europe-west1-b")}},
		"keeps terms": {write: volume("", "gcePersistentDisk: {pdName: eu-7-a}, nodeAffinity: {required: {nodeSelectorTerms: [{matchExpressions: [{key: topology.kubernetes.io/zone, operator: Exists}]}]}}"),
			becomes: []string{"operator: Exists"}, not: []string{"operator: In"}},
		"provisioned": {write: volume(", annotations: {pv.kubernetes.io/provisioned-by: x}, labels: {topology.kubernetes.io/zone: a, topology.kubernetes.io/region: b}", "gcePersistentDisk: {pdName: unknown}"),
			becomes: []string{requires("topology.kubernetes.io/zone", "a")}},
		"provisioned of old": {write: volume(", annotations: {pv.kubernetes.io/provisioned-by: x}, labels: {failure-domain.beta.kubernetes.io/zone: a, failure-domain.beta.kubernetes.io/region: b}", "cinder: {volumeID: unknown}"),
			becomes: []string{requires("failure-domain.beta.kubernetes.io/zone", "a")}, not: []string{"topology.kubernetes.io"}},
		"being made":     {write: volume("", "gcePersistentDisk: {pdName: placeholder-for-provisioning}"), not: []string{"labels", "nodeAffinity"}},
		"no cloud":       {write: volume("", "hostPath: {path: /x}"), not: []string{"labels", "nodeAffinity"}},
		"update":         {write: write{op: admission.Update, resource: "persistentvolumes", object: "{metadata: {name: v}, spec: {gcePersistentDisk: {pdName: unknown}}}"}},
		"unknown GCE":    {write: volume("", "gcePersistentDisk: {pdName: unknown}"), refused: `persistentvolumes "v" is forbidden: error querying GCE PD volume unknown: unable to build GCE cloud provider for PD`},
		"unknown EBS":    {write: volume("", "awsElasticBlockStore: {volumeID: vol-1}"), refused: `error querying AWS EBS volume vol-1: unable to build AWS cloud provider for EBS`},
		"unknown Cinder": {write: volume("", "cinder: {volumeID: c}"), refused: `error querying Cinder volume c: unable to build OpenStack cloud provider for Cinder disk`},
		"unknown disk":   {write: volume("", "vsphereVolume: {volumePath: p}"), refused: `error querying vSphere Volume p: unable to build vSphere cloud provider`},
	})
	bare, err := NewPersistentVolumeLabel(nil)
	if err != nil {
		t.Fatal(err)
	}
	verdicts(t, bare, map[string]verdict{
		"bare Azure": {write: volume("", "azureDisk: {diskName: d, diskURI: u}"), refused: `error querying AzureDisk volume d: unable to build Azure cloud provider for AzureDisk`},
	})
}

func TestPersistentVolumeLabelConfig(t *testing.T) {
	t.Parallel()
	head := "apiVersion: persistentvolumelabel.admission.howdah.dev/v1alpha1\nkind: Configuration\nvolumes:\n"
	for text, want := range map[string]string{
		"kind: Configuration": `is not Configuration of persistentvolumelabel`, head + "- {colour: red}": "colour",
		head + "- {source: nfs, id: a, zone: b}": "volumes[0].source: Unsupported value", head + "- {source: cinder, zone: b}": "volumes[0].id: Required value",
		head + "- {source: cinder, id: b}": "volumes[0].zone: Required value: or a region", head + "- {source: cinder, id: b, zone: a b}": "volumes[0].zone: Invalid value",
		head + "- {source: cinder, id: b, zone: a____b}": "one of the zones has no name",
	} {
		if _, err := NewPersistentVolumeLabel([]byte(text)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", text, err)
		}
	}
}
