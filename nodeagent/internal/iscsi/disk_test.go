package iscsi

import (
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"
)

const iqn = "iqn.2001-04.com.example:storage.disk1"

func TestPortals(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"192.0.2.7": "192.0.2.7:3260", "192.0.2.7:3261": "192.0.2.7:3261", "2001:db8::7": "[2001:db8::7]:3260", "[2001:db8::7]": "[2001:db8::7]:3260",
		"[2001:DB8:0::7]:860": "[2001:db8::7]:860", "": "", "storage.example.com": "", "-h": "", "192.0.2.7:0x1": "", "fe80::1%../x": "", "[fe80::1%a/b]:3260": "", "192.0.2.7/24": "",
	} {
		got, err := portalOf(text)
		if got != want || (err == nil) != (want != "") {
			t.Errorf("%q: %q, %v, want %q", text, got, err, want)
		}
	}
}

func TestDisks(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		source corev1.ISCSIVolumeSource
		want   Disk
		err    string
	}{
		"plain": {corev1.ISCSIVolumeSource{TargetPortal: "192.0.2.7", IQN: iqn, Lun: 3},
			Disk{Portals: []string{"192.0.2.7:3260"}, IQN: iqn, LUN: 3, Interface: "default"}, ""},
		"portals": {corev1.ISCSIVolumeSource{TargetPortal: "192.0.2.7", Portals: []string{"192.0.2.8:3261", "192.0.2.7:3260"}, IQN: iqn, ISCSIInterface: "fast"},
			Disk{Portals: []string{"192.0.2.7:3260", "192.0.2.8:3261"}, IQN: iqn, Interface: "fast"}, ""},
		"a name of its own": {corev1.ISCSIVolumeSource{TargetPortal: "2001:db8::7", IQN: iqn, ISCSIInterface: "fast", InitiatorName: ptr.To("iqn.2024-01.com.example:me")},
			Disk{Portals: []string{"[2001:db8::7]:3260"}, IQN: iqn, Interface: "[2001:db8::7]:3260:v", Base: "fast", Initiator: "iqn.2024-01.com.example:me"}, ""},
		"chap": {corev1.ISCSIVolumeSource{TargetPortal: "192.0.2.7", IQN: "eui.0123456789abcdef", SessionCHAPAuth: true, DiscoveryCHAPAuth: true},
			Disk{Portals: []string{"192.0.2.7:3260"}, IQN: "eui.0123456789abcdef", Interface: "default", SessionCHAP: true, DiscoveryCHAP: true}, ""},
		"a path as target":    {corev1.ISCSIVolumeSource{TargetPortal: "192.0.2.7", IQN: "iqn.2001-04.com.example:../../x"}, Disk{}, "is no iSCSI name"},
		"a path before it":    {corev1.ISCSIVolumeSource{TargetPortal: "192.0.2.7", IQN: "../" + iqn}, Disk{}, "is no iSCSI name"},
		"a path as initiator": {corev1.ISCSIVolumeSource{TargetPortal: "192.0.2.7", IQN: iqn, InitiatorName: ptr.To(iqn + "/x")}, Disk{}, "initiatorName"},
		"a path as interface": {corev1.ISCSIVolumeSource{TargetPortal: "192.0.2.7", IQN: iqn, ISCSIInterface: ".."}, Disk{}, "is no name of an iSCSI interface"},
		"an option":           {corev1.ISCSIVolumeSource{TargetPortal: "192.0.2.7", IQN: iqn, ISCSIInterface: "--x"}, Disk{}, "is no name of an iSCSI interface"},
		"no portal":           {corev1.ISCSIVolumeSource{TargetPortal: "192.0.2.7", Portals: []string{"x"}, IQN: iqn}, Disk{}, `portal "x" is not an address`},
	} {
		got, err := Of("v", &test.source)
		if test.err == "" && (err != nil || !reflect.DeepEqual(got, test.want)) {
			t.Errorf("%s: %+v, %v, want %+v", name, got, err, test.want)
		}
		if test.err != "" && (err == nil || !strings.Contains(err.Error(), test.err)) {
			t.Errorf("%s: %v, want %s", name, err, test.err)
		}
	}
}

func TestLinks(t *testing.T) {
	t.Parallel()
	d := Disk{IQN: iqn, LUN: 1}
	for entry, want := range map[string]bool{
		"ip-192.0.2.7:3260-iscsi-" + iqn + "-lun-1": true, "pci-0000:05:00.2-ip-192.0.2.7:3260-iscsi-" + iqn + "-lun-1": true,
		"ip-192.0.2.7:3260-iscsi-" + iqn + "-lun-11": false, "ip-192.0.2.7:3260-iscsi-" + iqn + "-lun-1-part1": false, "ip-1192.0.2.7:3260-iscsi-" + iqn + "-lun-1": false,
		"x-ip-192.0.2.7:3260-iscsi-" + iqn + "-lun-1": false,
	} {
		if got := slices.ContainsFunc(d.links("192.0.2.7:3260"), func(link string) bool { return named(entry, link) }); got != want {
			t.Errorf("%s: %v", entry, got)
		}
	}
	if got, want := d.links("[2001:db8::7]:3260"), []string{"ip-[2001:db8::7]:3260-iscsi-" + iqn + "-lun-1", "ip-2001:db8::7:3260-iscsi-" + iqn + "-lun-1"}; !slices.Equal(got, want) {
		t.Errorf("IPv6: %q", got)
	}
}

func TestCopied(t *testing.T) {
	t.Parallel()
	shown := "# BEGIN RECORD 2.1.9\niface.iscsi_ifacename = fast\niface.net_ifacename = eth1\niface.ipaddress = <empty>\niface.transport_name = tcp\niface.initiatorname = iqn.old\n# END RECORD"
	want := []setting{{"iface.net_ifacename", "eth1"}, {"iface.transport_name", "tcp"}, {"iface.initiatorname", "iqn.new"}}
	if got := copied(shown, "iqn.new"); !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}

// TestBusy tells nothing of what is no block device, and does not take what is gone for in use.
func TestBusy(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{file, file + "-none"} {
		if busy, err := Busy(path); busy || err != nil {
			t.Errorf("%s: %v, %v", path, busy, err)
		}
	}
}
