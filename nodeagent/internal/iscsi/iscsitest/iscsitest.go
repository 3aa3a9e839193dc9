// Package iscsitest is a node with open-iscsi that is made of files: targets that answer or do not, and sysfs and devices as the kernel and udev would
// have them.
package iscsitest

import (
	"context"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"k8s.io/utils/clock"

	"howdah.dev/nodeagent/internal/iscsi"
)

// Node is the node, and all targets, which have the same disks.
type Node struct {
	t        *testing.T
	Sys, Dev string

	// Down are portals that do not answer, Units the disks that targets have.
	Down  map[string]bool
	Units []int
	// Multipath has a device made of all paths to a disk.
	Multipath bool
	// InUse are devices that somebody has mounted.
	InUse map[string]bool
	// Refuse has commands that contain a text end with a code, and say all that they were asked for.
	Refuse map[string]int
	// Lost says that open-iscsi has forgotten what it is logged in to.
	Lost bool
	// Formatted are devices with a file system. Mounted is called with where one is mounted.
	Formatted map[string]bool
	Mounted   func(dir string)

	mu       sync.Mutex
	ran      []string
	sessions int
	disks    int
}

// New returns a node whose targets have one disk, 0.
func New(t *testing.T) *Node {
	t.Helper()
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	n := &Node{
		t: t, Sys: filepath.Join(dir, "sys"), Dev: filepath.Join(dir, "dev"), Down: map[string]bool{}, Units: []int{0}, InUse: map[string]bool{},
		Refuse: map[string]int{}, Formatted: map[string]bool{}, Mounted: func(string) {},
	}
	n.folder(filepath.Join(n.Dev, "disk", "by-path"))
	n.folder(filepath.Join(n.Sys, "block"))
	return n
}

// Initiator returns one that is patient for a moment.
func (n *Node) Initiator() *iscsi.Initiator {
	return iscsi.New(iscsi.Config{
		Command: n.Run, Sys: n.Sys, Dev: n.Dev, Write: n.Write, Clock: clock.RealClock{}, Patience: 20 * time.Millisecond, Rest: 10 * time.Millisecond,
		Busy: func(device string) (bool, error) { return n.InUse[filepath.Base(device)], nil },
	})
}

// Ran returns what was run since it was last asked, and forgets it.
func (n *Node) Ran() []string {
	n.mu.Lock()
	defer n.mu.Unlock()
	out := n.ran
	n.ran = nil
	return out
}

// Sessions are the portals by way of which the node is logged in, with the interface.
func (n *Node) Sessions() []string {
	var out []string
	for _, s := range n.all() {
		out = append(out, s.portal+" "+s.iface)
	}
	return out
}

// Devices are those that disks are.
func (n *Node) Devices() []string {
	entries, err := os.ReadDir(filepath.Join(n.Sys, "block"))
	if err != nil {
		n.t.Error(err)
	}
	var out []string
	for _, e := range entries {
		out = append(out, e.Name())
	}
	return out
}

// LogIn makes a session, as an administrator would.
func (n *Node) LogIn(iqn, iface, portal string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.login(iqn, iface, portal)
}

// Run is the node's Command.
func (n *Node) Run(_ context.Context, name string, args ...string) (string, int, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	line := strings.Join(append([]string{name}, args...), " ")
	n.ran = append(n.ran, strings.ReplaceAll(line, n.Dev, "/dev"))
	for text, code := range n.Refuse {
		if strings.Contains(line, text) {
			return "refused: " + line, code, nil
		}
	}
	switch last := args[len(args)-1]; {
	case name == "iscsiadm":
		return n.admin(args)
	case name == "multipath":
		n.remove(filepath.Join(n.Sys, "block", "dm-0"), filepath.Join(n.Dev, "dm-0"))
	case name == "blkid" && !n.Formatted[filepath.Base(last)]:
		return "", 2, nil
	case name == "blkid":
		return "TYPE=ext4", 0, nil
	case strings.HasPrefix(name, "mkfs."):
		n.Formatted[filepath.Base(last)] = true
	case name == "mount" && !slices.Contains(args, "remount,rw"):
		n.Mounted(last)
	}
	return "", 0, nil
}

const shown = `# BEGIN RECORD 2.1.9
iface.iscsi_ifacename = default
iface.net_ifacename = <empty>
iface.transport_name = tcp
iface.initiatorname = <empty>
iface.mtu = 9000
# END RECORD
`

func (n *Node) admin(args []string) (string, int, error) {
	value := func(flag string) string {
		if i := slices.Index(args, flag); i >= 0 {
			return args[i+1]
		}
		return ""
	}
	portal := value("-p")
	switch {
	case slices.Contains(args, "show"):
		return shown, 0, nil
	case slices.Contains(args, "--discover") && n.Down[portal]:
		return "cannot make connection to " + portal + ": No route to host", 4, nil
	case slices.Contains(args, "--login"):
		n.login(value("-T"), value("-I"), portal)
	case slices.Contains(args, "--logout") && value("-m") == "node" && n.Lost:
		return "No records found", 21, nil
	case slices.Contains(args, "--logout"):
		for _, s := range n.all() {
			if s.id == value("-r") || s.portal == portal && s.target == value("-T") && s.iface == value("-I") {
				n.end(s)
			}
		}
	}
	return "", 0, nil
}

// session is one of the kernel's.
type session struct{ id, target, iface, portal string }

func (s session) dir() string {
	return filepath.Join("devices", "platform", "host"+s.id, "session"+s.id)
}

func (n *Node) login(iqn, iface, portal string) {
	n.sessions++
	s := session{strconv.Itoa(n.sessions), iqn, iface, portal}
	at, err := netip.ParseAddrPort(portal)
	if err != nil {
		n.t.Error(err)
	}
	dir := filepath.Join(n.Sys, s.dir(), "iscsi_session", "session"+s.id)
	n.file(filepath.Join(dir, "targetname"), iqn+"\n")
	n.file(filepath.Join(dir, "ifacename"), iface+"\n")
	n.file(filepath.Join(dir, "target_id"), "0\n")
	n.link(filepath.Join(n.Sys, s.dir()), filepath.Join(dir, "device"))
	n.link(dir, filepath.Join(n.Sys, "class", "iscsi_session", "session"+s.id))
	connection := filepath.Join(n.Sys, "class", "iscsi_connection", "connection"+s.id+":0")
	n.file(filepath.Join(connection, "persistent_address"), at.Addr().String()+"\n")
	n.file(filepath.Join(connection, "persistent_port"), strconv.Itoa(int(at.Port()))+"\n")
	n.file(filepath.Join(connection, "portal"), portal)
	n.file(filepath.Join(n.Sys, "class", "scsi_host", "host"+s.id, "scan"), "")
}

func (n *Node) all() []session {
	found, err := filepath.Glob(filepath.Join(n.Sys, "class", "iscsi_session", "session*"))
	if err != nil {
		n.t.Error(err)
	}
	var out []session
	for _, dir := range found {
		id := strings.TrimPrefix(filepath.Base(dir), "session")
		out = append(out, session{id, n.read(dir, "targetname"), n.read(dir, "ifacename"), n.read(n.Sys, "class/iscsi_connection/connection"+id+":0/portal")})
	}
	return out
}

func (n *Node) end(s session) {
	for _, unit := range n.Units {
		n.unplug(s, unit)
	}
	n.remove(filepath.Join(n.Sys, "class", "iscsi_session", "session"+s.id), filepath.Join(n.Sys, "class", "iscsi_connection", "connection"+s.id+":0"),
		filepath.Join(n.Sys, "class", "scsi_host", "host"+s.id), filepath.Join(n.Sys, "devices", "platform", "host"+s.id))
}

// Write is what the kernel does when something is written to a file of sysfs.
func (n *Node) Write(path, text string) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.ran = append(n.ran, "echo "+text+" >"+strings.TrimPrefix(path, n.Sys))
	if _, err := os.Stat(path); err != nil {
		return err
	}
	for _, s := range n.all() {
		for _, unit := range n.Units {
			switch {
			case path == filepath.Join(n.Sys, "class", "scsi_host", "host"+s.id, "scan") && text == "0 0 "+strconv.Itoa(unit):
				n.plug(s, unit)
			case strings.HasSuffix(path, "/device/delete") && filepath.Base(filepath.Dir(filepath.Dir(path))) == n.disk(s, unit):
				n.unplug(s, unit)
			}
		}
	}
	return nil
}

func (n *Node) unit(s session, unit int) string {
	return filepath.Join(n.Sys, s.dir(), "target"+s.id+":0:0", fmt.Sprintf("%s:0:0:%d", s.id, unit))
}

// disk is the name of the device that a disk is by way of a session, "" where it is none.
func (n *Node) disk(s session, unit int) string {
	entries, err := os.ReadDir(filepath.Join(n.unit(s, unit), "block"))
	if err != nil || len(entries) == 0 {
		return ""
	}
	return entries[0].Name()
}

func (n *Node) byPath(s session, unit int) string {
	at := strings.NewReplacer("[", "", "]", "").Replace(s.portal)
	return filepath.Join(n.Dev, "disk", "by-path", fmt.Sprintf("ip-%s-iscsi-%s-lun-%d", at, s.target, unit))
}

func (n *Node) plug(s session, unit int) {
	if n.disk(s, unit) != "" {
		return
	}
	name := "sd" + string(rune('a'+n.disks))
	n.disks++
	n.folder(filepath.Join(n.unit(s, unit), "block", name))
	n.file(filepath.Join(n.unit(s, unit), "delete"), "")
	n.folder(filepath.Join(n.Sys, "block", name))
	n.link(n.unit(s, unit), filepath.Join(n.Sys, "block", name, "device"))
	n.file(filepath.Join(n.Dev, name), strings.Repeat("\x00", 1024))
	n.remove(n.byPath(s, unit))
	n.link(filepath.Join(n.Dev, name), n.byPath(s, unit))
	if !n.Multipath {
		return
	}
	dm := filepath.Join(n.Sys, "block", "dm-0")
	n.file(filepath.Join(dm, "slaves", name), "")
	if entries, _ := os.ReadDir(filepath.Join(dm, "slaves")); len(entries) > 1 {
		n.file(filepath.Join(dm, "dm", "uuid"), "mpath-3600\n")
		n.file(filepath.Join(dm, "dm", "name"), "mpatha\n")
		n.file(filepath.Join(n.Dev, "dm-0"), strings.Repeat("\x00", 1024))
	}
}

func (n *Node) unplug(s session, unit int) {
	if name := n.disk(s, unit); name != "" {
		n.remove(n.byPath(s, unit), n.unit(s, unit), filepath.Join(n.Sys, "block", name), filepath.Join(n.Dev, name))
	}
}

func (n *Node) folder(path string) {
	if err := os.MkdirAll(path, 0o750); err != nil {
		n.t.Error(err)
	}
}

func (n *Node) file(path, text string) {
	n.folder(filepath.Dir(path))
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		n.t.Error(err)
	}
}

func (n *Node) link(to, path string) {
	n.folder(filepath.Dir(path))
	if err := os.Symlink(to, path); err != nil {
		n.t.Error(err)
	}
}

func (n *Node) read(dir, name string) string {
	data, err := os.ReadFile(filepath.Join(dir, name))
	if err != nil {
		n.t.Error(err)
	}
	return strings.TrimSpace(string(data))
}

func (n *Node) remove(paths ...string) {
	for _, path := range paths {
		if err := os.RemoveAll(path); err != nil {
			n.t.Error(err)
		}
	}
}
