package iscsi_test

import (
	"context"
	"errors"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"howdah.dev/nodeagent/internal/iscsi"
	"howdah.dev/nodeagent/internal/iscsi/iscsitest"
)

const (
	iqn = "iqn.2001-04.com.example:storage.disk1"
	one = "192.0.2.7:3260"
	two = "[2001:db8::7]:3260"
)

func diskAt(portals ...string) *iscsi.Disk {
	return &iscsi.Disk{Portals: portals, IQN: iqn, Interface: "default"}
}

// login notes where it began.
func login(begun *[]string) iscsi.Login {
	return iscsi.Login{
		Secrets: func(context.Context) (map[string]string, error) {
			return map[string]string{
				"discovery.sendtargets.auth.username": "finder", "discovery.sendtargets.auth.password": "hush-find",
				"node.session.auth.username": "user", "node.session.auth.password": "hush-session",
				"node.session.auth.username_in": "target", "node.session.auth.password_in": "hush-target", "other": "hush-other",
			}, nil
		},
		Begin: func(portal string) error { *begun = append(*begun, portal); return nil },
	}
}

func plainLogin(portal, iface string) []string {
	node := "iscsiadm -m node -p " + portal + " -T " + iqn + " -I " + iface
	discovery := "iscsiadm -m discoverydb -t sendtargets -p " + portal + " -I " + iface
	return []string{
		discovery + " -o new", discovery + " --discover", node + " -o update -n node.startup -v manual", node + " -o update -n node.session.scan -v manual", node + " --login",
	}
}

func equal(t *testing.T, what string, got, want []string) {
	t.Helper()
	if !slices.Equal(got, want) {
		t.Errorf("%s: ran\n%s\nwant\n%s", what, strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

// TestConnect logs in by way of each portal, in whichever family, has the kernel look for the one disk, and does none of it twice.
func TestConnect(t *testing.T) {
	t.Parallel()
	n := iscsitest.New(t)
	n.Units = []int{0, 5}
	i, d := n.Initiator(), diskAt(one, two)
	d.LUN = 5
	var begun []string
	device, err := i.Connect(t.Context(), d, login(&begun))
	if err != nil || device != filepath.Join(n.Dev, "sda") || !slices.Equal(begun, []string{one, two}) {
		t.Errorf("%s, %v, begun %v", device, err, begun)
	}
	want := append(plainLogin(one, "default"), "echo 0 0 5 >/class/scsi_host/host1/scan")
	equal(t, "first", n.Ran(), append(append(want, plainLogin(two, "default")...), "echo 0 0 5 >/class/scsi_host/host2/scan"))
	if device, err := i.Connect(t.Context(), d, login(&begun)); err != nil || device != filepath.Join(n.Dev, "sda") || len(begun) != 2 {
		t.Errorf("again: %s, %v, begun %v", device, err, begun)
	}
	equal(t, "again", n.Ran(), []string{"echo 0 0 5 >/class/scsi_host/host1/scan", "echo 0 0 5 >/class/scsi_host/host2/scan"})
	for device, want := range map[string]bool{"sda": true, "sdb": true, "sdc": false} {
		if is, err := i.Is(d, filepath.Join(n.Dev, device)); is != want || err != nil {
			t.Errorf("%s: %v, %v", device, is, err)
		}
	}
}

// TestMultipath has the device that is made of all paths, and flushes it before its paths go.
func TestMultipath(t *testing.T) {
	t.Parallel()
	n := iscsitest.New(t)
	n.Multipath = true
	i, d := n.Initiator(), diskAt(one, two)
	var begun []string
	device, err := i.Connect(t.Context(), d, login(&begun))
	if err != nil || device != filepath.Join(n.Dev, "dm-0") {
		t.Errorf("%s, %v", device, err)
	}
	if is, err := i.Is(d, device); !is || err != nil {
		t.Errorf("it is not taken for the disk: %v", err)
	}
	n.Ran()
	n.InUse["dm-0"] = true
	if err := i.Disconnect(t.Context(), d, iscsi.Leave{Mine: begun, Out: begun}); err == nil || len(n.Ran()) > 0 {
		t.Errorf("a device in use goes: %v", err)
	}
	n.InUse["dm-0"] = false
	if err := i.Disconnect(t.Context(), d, iscsi.Leave{Mine: begun, Out: begun}); err != nil {
		t.Error(err)
	}
	ran := n.Ran()
	if len(ran) == 0 || ran[0] != "multipath -f mpatha" || len(n.Devices()) > 0 || len(n.Sessions()) > 0 {
		t.Errorf("ran %q, devices %v, sessions %v", ran, n.Devices(), n.Sessions())
	}
}

// TestOnePortalIsEnough uses what works, and says what does not where nothing does.
func TestOnePortalIsEnough(t *testing.T) {
	t.Parallel()
	n := iscsitest.New(t)
	n.Down[one] = true
	var begun []string
	device, err := n.Initiator().Connect(t.Context(), diskAt(one, two), login(&begun))
	if err != nil || device != filepath.Join(n.Dev, "sda") || !slices.Equal(n.Sessions(), []string{two + " default"}) {
		t.Errorf("%s, %v, sessions %v", device, err, n.Sessions())
	}
	none := iscsitest.New(t)
	none.Down[one], none.Down[two] = true, true
	_, err = none.Initiator().Connect(t.Context(), diskAt(one, two), login(&begun))
	const want = "discover the targets at " + one + ": iscsiadm ended with 4: cannot make connection to " + one + ": No route to host\n" +
		"discover the targets at " + two + ": iscsiadm ended with 4: cannot make connection to " + two + ": No route to host"
	if err == nil || err.Error() != want {
		t.Errorf("%v, want %s", err, want)
	}
	absent := iscsitest.New(t)
	absent.Units = nil
	_, err = absent.Initiator().Connect(t.Context(), diskAt(one), login(&begun))
	if err == nil || !strings.Contains(err.Error(), "no device has appeared at") || !strings.HasSuffix(err.Error(), "-lun-0 within 20ms") {
		t.Errorf("no such disk: %v", err)
	}
}

// TestCHAP gives open-iscsi the names and passwords of both steps before the step, and has no password in any error, whatever goes wrong.
func TestCHAP(t *testing.T) {
	t.Parallel()
	d := diskAt(one)
	d.DiscoveryCHAP, d.SessionCHAP = true, true
	n := iscsitest.New(t)
	var begun []string
	if _, err := n.Initiator().Connect(t.Context(), d, login(&begun)); err != nil {
		t.Fatal(err)
	}
	discovery, node := "iscsiadm -m discoverydb -t sendtargets -p "+one+" -I default", "iscsiadm -m node -p "+one+" -T "+iqn+" -I default"
	steps := []string{
		discovery + " -o new",
		discovery + " -o update -n discovery.sendtargets.auth.authmethod -v CHAP",
		discovery + " -o update -n discovery.sendtargets.auth.username -v finder",
		discovery + " -o update -n discovery.sendtargets.auth.password -v hush-find",
		discovery + " --discover",
		node + " -o update -n node.session.auth.authmethod -v CHAP",
		node + " -o update -n node.session.auth.username -v user",
		node + " -o update -n node.session.auth.password -v hush-session",
		node + " -o update -n node.session.auth.username_in -v target",
		node + " -o update -n node.session.auth.password_in -v hush-target",
		node + " -o update -n node.startup -v manual",
		node + " -o update -n node.session.scan -v manual",
		node + " --login",
	}
	equal(t, "CHAP", n.Ran(), append(slices.Clone(steps), "echo 0 0 0 >/class/scsi_host/host1/scan"))
	for _, step := range steps {
		if strings.Contains(step, "session.scan") {
			continue // which old ones do not know
		}
		n := iscsitest.New(t)
		n.Refuse[step] = 7
		_, err := n.Initiator().Connect(t.Context(), d, login(&begun))
		if err == nil || strings.Contains(err.Error(), "hush") || !strings.Contains(err.Error(), "iscsiadm ended with 7") {
			t.Errorf("%s is refused: %v", step, err)
		}
		if name, is := strings.CutPrefix(step, node+" -o update -n "); is && !strings.Contains(err.Error(), "startup") && !strings.Contains(err.Error(), strings.Fields(name)[0]) {
			t.Errorf("%s is refused, and the error does not say which setting: %v", step, err)
		}
	}
	old := iscsitest.New(t)
	old.Refuse["node.session.scan"] = 7
	if _, err := old.Initiator().Connect(t.Context(), d, login(&begun)); err != nil {
		t.Errorf("an open-iscsi that cannot keep other disks away: %v", err)
	}
}

// TestSecretsAreAskedForToLogIn asks nobody where there is a login, and does not begin without an answer.
func TestSecretsAreAskedForToLogIn(t *testing.T) {
	t.Parallel()
	d := diskAt(one)
	d.SessionCHAP = true
	n := iscsitest.New(t)
	refused := iscsi.Login{
		Secrets: func(context.Context) (map[string]string, error) { return nil, errors.New("no secret") },
		Begin:   func(string) error { t.Error("it begins"); return nil },
	}
	if _, err := n.Initiator().Connect(t.Context(), d, refused); err == nil || err.Error() != "no secret" {
		t.Errorf("%v", err)
	}
	n.LogIn(iqn, "default", one)
	if _, err := n.Initiator().Connect(t.Context(), d, refused); err != nil {
		t.Errorf("with a login: %v", err)
	}
}

// TestFailedLoginIsForgotten leaves no password behind of a login that was refused.
func TestFailedLoginIsForgotten(t *testing.T) {
	t.Parallel()
	n := iscsitest.New(t)
	n.Refuse["--login"] = 24
	var begun []string
	_, err := n.Initiator().Connect(t.Context(), diskAt(one), login(&begun))
	if err == nil || !strings.Contains(err.Error(), "log in to "+iqn+" at "+one+": iscsiadm ended with 24") {
		t.Errorf("%v", err)
	}
	if ran := n.Ran(); ran[len(ran)-1] != "iscsiadm -m node -p "+one+" -T "+iqn+" -I default -o delete" {
		t.Errorf("ran %q", ran)
	}
}

// TestOwnInterface makes a copy of the interface with the name that the node is to have, logs in by it, and removes it in the end.
func TestOwnInterface(t *testing.T) {
	t.Parallel()
	n := iscsitest.New(t)
	d := diskAt(one)
	d.Base, d.Interface, d.Initiator = "fast", one+":v", "iqn.2024-01.com.example:me"
	var begun []string
	if _, err := n.Initiator().Connect(t.Context(), d, login(&begun)); err != nil {
		t.Fatal(err)
	}
	iface := "iscsiadm -m iface -I " + d.Interface
	want := []string{
		"iscsiadm -m iface -I fast -o show", iface + " -o new", iface + " -o update -n iface.transport_name -v tcp", iface + " -o update -n iface.mtu -v 9000",
		iface + " -o update -n iface.initiatorname -v iqn.2024-01.com.example:me",
	}
	equal(t, "made", n.Ran(), append(append(want, plainLogin(one, d.Interface)...), "echo 0 0 0 >/class/scsi_host/host1/scan"))
	if err := n.Initiator().Disconnect(t.Context(), d, iscsi.Leave{Mine: begun, Out: begun, Interface: true}); err != nil {
		t.Error(err)
	}
	node := "iscsiadm -m node -p " + one + " -T " + iqn + " -I " + d.Interface
	equal(t, "removed", n.Ran(), []string{"echo 1 >/block/sda/device/delete", node + " --logout", node + " -o delete", iface + " -o delete"})
}

// TestDisconnect leaves alone what an administrator has, removes no device that is in use, and ends a session that open-iscsi has forgotten.
func TestDisconnect(t *testing.T) {
	t.Parallel()
	n := iscsitest.New(t)
	n.LogIn(iqn, "default", one)
	d := diskAt(one, two)
	var begun []string
	if _, err := n.Initiator().Connect(t.Context(), d, login(&begun)); err != nil || !slices.Equal(begun, []string{two}) {
		t.Fatalf("%v, begun %v", err, begun)
	}
	n.Ran()
	leave := iscsi.Leave{Mine: begun, Out: begun}
	n.InUse["sdb"] = true
	if err := n.Initiator().Disconnect(t.Context(), d, leave); err == nil || err.Error() != filepath.Join(n.Dev, "sdb")+" is still in use" || len(n.Ran()) > 0 {
		t.Errorf("in use: %v", err)
	}
	delete(n.InUse, "sdb")
	n.Lost = true
	if err := n.Initiator().Disconnect(t.Context(), d, leave); err != nil {
		t.Error(err)
	}
	if !slices.Equal(n.Sessions(), []string{one + " default"}) || !slices.Equal(n.Devices(), []string{"sda"}) {
		t.Errorf("sessions %v, devices %v are left", n.Sessions(), n.Devices())
	}
}

// TestConnectEnds with its context, and not when it pleases a device to come.
func TestConnectEnds(t *testing.T) {
	t.Parallel()
	n := iscsitest.New(t)
	n.Units = nil
	ctx, cancel := context.WithCancel(t.Context())
	_, err := n.Initiator().Connect(ctx, diskAt(one), iscsi.Login{Begin: func(string) error { cancel(); return nil }})
	if !errors.Is(err, context.Canceled) {
		t.Errorf("%v", err)
	}
}
