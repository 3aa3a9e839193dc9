package iscsi

import (
	"context"
	"fmt"
	"log/slog"
)

// Login is what it takes to log in.
type Login struct {
	// Secrets are names and passwords, by the settings of open-iscsi that they are for. It is asked only if somebody has to log in.
	Secrets func(ctx context.Context) (map[string]string, error)
	// Begin is told of a portal before it is logged in to, so that it is not forgotten who has to log out.
	Begin func(portal string) error
}

// reach has a session by way of a portal: the one that is there, or a new one.
func (i *Initiator) reach(ctx context.Context, d *Disk, portal string, secrets map[string]string, begin func(string) error) error {
	s, err := i.session(d, portal)
	if err != nil {
		return err
	}
	if s == nil {
		if err := begin(portal); err != nil {
			return err
		}
		if err := i.login(ctx, d, portal, secrets); err != nil {
			return err
		}
		if s, err = i.session(d, portal); err != nil {
			return err
		}
	}
	if s == nil {
		return fmt.Errorf("the node is logged in to %s by way of %s, and the kernel knows no such session", d.IQN, portal)
	}
	return i.scan(s, d.LUN)
}

// login discovers a target and logs in to it.
func (i *Initiator) login(ctx context.Context, d *Disk, portal string, secrets map[string]string) error {
	if err := i.makeInterface(ctx, d); err != nil {
		return err
	}
	if err := i.discover(ctx, d, portal, secrets); err != nil {
		return err
	}
	node := d.node(portal)
	if d.SessionCHAP {
		if err := i.chap(ctx, "node.session.auth", node, d.IQN, secrets); err != nil {
			return err
		}
	}
	// Who starts the machine is not to log in before a pod wants it.
	if _, err := i.admin(ctx, call{step: "keep the login to " + d.IQN + " from being made at boot"}, set(node, "node.startup", "manual")...); err != nil {
		return err
	}
	// Nothing but the disk that is asked for is to become a device. An open-iscsi that does not know the setting makes all of them devices.
	if _, err := i.admin(ctx, call{step: "keep other disks of " + d.IQN + " from becoming devices"}, set(node, "node.session.scan", "manual")...); err != nil {
		slog.WarnContext(ctx, "log in to an iSCSI target", "target", d.IQN, "portal", portal, "err", err)
	}
	_, err := i.admin(ctx, call{step: fmt.Sprintf("log in to %s at %s", d.IQN, portal), within: loginWithin, fine: []int{sessionExists}}, with(node, "--login")...)
	if err != nil {
		// Else open-iscsi keeps the password of a login that nobody has. That this fails, too, changes nothing: the next try writes it anew.
		_, _ = i.admin(context.WithoutCancel(ctx), call{step: "forget " + d.IQN}, with(node, "-o", "delete")...)
	}
	return err
}

// discover asks a portal which targets are there, which is how the node comes to know the target.
func (i *Initiator) discover(ctx context.Context, d *Disk, portal string, secrets map[string]string) error {
	discovery := d.discovery(portal)
	if _, err := i.admin(ctx, call{step: "note the portal " + portal}, with(discovery, "-o", "new")...); err != nil {
		return err
	}
	if d.DiscoveryCHAP {
		if err := i.chap(ctx, "discovery.sendtargets.auth", discovery, portal, secrets); err != nil {
			return err
		}
	}
	_, err := i.admin(ctx, call{step: "discover the targets at " + portal, within: discoverWithin}, with(discovery, "--discover")...)
	return err
}

// chap has a password used, and one of the target's own where the secret has one.
func (i *Initiator) chap(ctx context.Context, group string, args []string, what string, secrets map[string]string) error {
	if _, err := i.admin(ctx, call{step: fmt.Sprintf("set %s.authmethod for %s", group, what)}, set(args, group+".authmethod", "CHAP")...); err != nil {
		return err
	}
	for _, key := range []string{"username", "password", "username_in", "password_in"} {
		name := group + "." + key
		value := secrets[name]
		if value == "" {
			continue
		}
		if _, err := i.admin(ctx, call{step: fmt.Sprintf("set %s for %s", name, what), hush: true}, set(args, name, value)...); err != nil {
			return err
		}
	}
	return nil
}
