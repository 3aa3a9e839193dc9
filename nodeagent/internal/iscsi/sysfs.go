package iscsi

import (
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// session is a login that the kernel has.
type session struct {
	id            string // "7" of session7
	dir           string // of its device in sysfs
	host          string // "host3", through which its disks are
	channelTarget string // "0 0": where its disks are at that host
	target, iface string
	portal        string
}

// sessions are those of the kernel that are as asked, in order. A node without iSCSI has none.
func (i *Initiator) sessions(is func(*session) bool) ([]session, error) {
	class := filepath.Join(i.cfg.Sys, "class", "iscsi_session")
	entries, err := os.ReadDir(class)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	var out []session
	for _, e := range entries {
		s, err := i.readSession(filepath.Join(class, e.Name()))
		if errors.Is(err, fs.ErrNotExist) {
			continue // it ends just now
		}
		if err != nil {
			return nil, fmt.Errorf("look at %s: %w", e.Name(), err)
		}
		if is(&s) {
			out = append(out, s)
		}
	}
	return out, nil
}

func (i *Initiator) readSession(dir string) (session, error) {
	s := session{id: strings.TrimPrefix(filepath.Base(dir), "session"), iface: usualInterface, channelTarget: "0 0"}
	var err error
	if s.target, err = attribute(dir, "targetname"); err != nil {
		return session{}, err
	}
	if name, err := attribute(dir, "ifacename"); err == nil && name != "" {
		s.iface = name
	}
	if id, err := attribute(dir, "target_id"); err == nil {
		if n, err := strconv.Atoi(id); err == nil && n >= 0 { // it is none before there is a disk
			s.channelTarget = "0 " + id
		}
	}
	if s.dir, err = filepath.EvalSymlinks(filepath.Join(dir, "device")); err != nil {
		return session{}, err
	}
	s.host = filepath.Base(filepath.Dir(s.dir))
	connection := filepath.Join(i.cfg.Sys, "class", "iscsi_connection", "connection"+s.id+":0")
	address, err := attribute(connection, "persistent_address")
	if err != nil {
		return session{}, err
	}
	port, err := attribute(connection, "persistent_port")
	if err != nil {
		return session{}, err
	}
	text := net.JoinHostPort(strings.Trim(address, "[]"), port)
	if s.portal, err = portalOf(text); err != nil {
		s.portal = text // of somebody else's: ours have addresses
	}
	return s, nil
}

func attribute(dir, name string) (string, error) {
	data, err := os.ReadFile(filepath.Join(dir, name))
	return strings.TrimSpace(string(data)), err
}

// session is the one to the disk's target by way of a portal, nil where there is none.
func (i *Initiator) session(d *Disk, portal string) (*session, error) {
	found, err := i.sessions(func(s *session) bool { return d.has(s) && s.portal == portal })
	if err != nil || len(found) == 0 {
		return nil, err
	}
	return &found[0], nil
}

// has reports whether a session is to the disk's target by its interface.
func (d *Disk) has(s *session) bool { return s.target == d.IQN && s.iface == d.Interface }

// scan has the kernel look for one disk of a session, and for no other.
func (i *Initiator) scan(s *session, lun int32) error {
	path := filepath.Join(i.cfg.Sys, "class", "scsi_host", s.host, "scan")
	if err := i.cfg.Write(path, fmt.Sprintf("%s %d", s.channelTarget, lun)); err != nil {
		return fmt.Errorf("look for logical unit %d: %w", lun, err)
	}
	return nil
}

// devices are the names of those that the kernel has made of the disk by way of portals.
func (i *Initiator) devices(d *Disk, portals []string) ([]string, error) {
	found, err := i.sessions(func(s *session) bool { return d.has(s) && slices.Contains(portals, s.portal) })
	if err != nil {
		return nil, err
	}
	var names []string
	for _, s := range found {
		units, _ := filepath.Glob(filepath.Join(s.dir, "target*", "*:*:*:"+strconv.Itoa(int(d.LUN)), "block", "*")) // sysfs has no odd names
		for _, unit := range units {
			names = append(names, filepath.Base(unit))
		}
	}
	return names, nil
}

// multipath is the device that multipathd has made of one of devices, by its name and by what it calls it; "" where there is none.
func (i *Initiator) multipath(devices []string) (device, name string, err error) {
	blocks := filepath.Join(i.cfg.Sys, "block")
	entries, err := os.ReadDir(blocks)
	if errors.Is(err, fs.ErrNotExist) {
		return "", "", nil
	}
	if err != nil {
		return "", "", err
	}
	for _, e := range entries {
		dir := filepath.Join(blocks, e.Name())
		if uuid, err := attribute(dir, "dm/uuid"); err != nil || !strings.HasPrefix(uuid, "mpath-") {
			continue // a volume of LVM, say, is not the disk
		}
		if !slices.ContainsFunc(devices, func(device string) bool { _, err := os.Lstat(filepath.Join(dir, "slaves", device)); return err == nil }) {
			continue
		}
		name, err := attribute(dir, "dm/name")
		return e.Name(), name, err
	}
	return "", "", nil
}

// Write writes to a file of sysfs, which has to be there.
func Write(path, text string) error {
	file, err := os.OpenFile(path, os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	_, err = file.WriteString(text)
	return errors.Join(err, file.Close())
}
