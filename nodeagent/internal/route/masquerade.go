package route

import (
	"encoding/binary"
	"fmt"
	"net/netip"
	"os"
	"slices"

	"github.com/google/nftables"
	"github.com/google/nftables/expr"
	"golang.org/x/sys/unix"
)

// Masquerade says whose packets get the node's address, and where to they keep their own.
type Masquerade struct {
	// From are this node's pods.
	From []netip.Prefix
	// Except are destinations that know the way back: the cluster's pod ranges and the nodes' addresses.
	Except []netip.Prefix
	// Tunnel says that there is one: its packets are taken from nodes alone, which Except has.
	Tunnel bool
}

// NewMasquerade leaves out pods and nodes.
func NewMasquerade(own []netip.Prefix, ranges Ranges, peers []netip.Addr) Masquerade {
	m := Masquerade{From: own, Except: slices.Clone(ranges.Pods)}
	for _, p := range peers {
		m.Except = append(m.Except, netip.PrefixFrom(p, p.BitLen()))
	}
	return m
}

// Apply replaces our nft table, one for both families, in one transaction. Connections that exist keep their translation.
func (m Masquerade) Apply() error {
	c, err := nftables.New()
	if err != nil {
		return fmt.Errorf("masquerade: open nftables: %w", err)
	}
	table := &nftables.Table{Family: nftables.TableFamilyINet, Name: "howdah"}
	c.AddTable(table) // so that deleting it works the first time, too
	c.DelTable(table)
	c.AddTable(table)
	chain := c.AddChain(&nftables.Chain{
		Name: "masquerade", Table: table,
		Type: nftables.ChainTypeNAT, Hooknum: nftables.ChainHookPostrouting, Priority: nftables.ChainPriorityNATSource,
	})
	// Accepting ends only this chain. Single addresses, which may be many, are looked up in a set a family.
	var v4, v6 []nftables.SetElement
	for _, p := range m.Except {
		switch {
		case !p.IsSingleIP():
			c.AddRule(&nftables.Rule{Table: table, Chain: chain, Exprs: append(matches(p, false), &expr.Verdict{Kind: expr.VerdictAccept})})
		case p.Addr().Is4():
			v4 = append(v4, nftables.SetElement{Key: p.Addr().AsSlice()})
		default:
			v6 = append(v6, nftables.SetElement{Key: p.Addr().AsSlice()})
		}
	}
	var fromNodes [][]expr.Any
	for _, s := range []struct {
		name     string
		key      nftables.SetDatatype
		elements []nftables.SetElement
		family   byte
		offset   uint32
	}{{"nodes4", nftables.TypeIPAddr, v4, unix.NFPROTO_IPV4, 16}, {"nodes6", nftables.TypeIP6Addr, v6, unix.NFPROTO_IPV6, 24}} {
		if len(s.elements) == 0 {
			continue
		}
		set := &nftables.Set{Table: table, Name: s.name, KeyType: s.key}
		if err := c.AddSet(set, s.elements); err != nil {
			return fmt.Errorf("masquerade: set of nodes: %w", err)
		}
		c.AddRule(&nftables.Rule{Table: table, Chain: chain, Exprs: []expr.Any{
			&expr.Meta{Key: expr.MetaKeyNFPROTO, Register: 1},
			&expr.Cmp{Op: expr.CmpOpEq, Register: 1, Data: []byte{s.family}},
			&expr.Payload{DestRegister: 1, Base: expr.PayloadBaseNetworkHeader, Offset: s.offset, Len: s.key.Bytes},
			&expr.Lookup{SourceRegister: 1, SetName: set.Name, SetID: set.ID},
			&expr.Verdict{Kind: expr.VerdictAccept},
		}})
		fromNodes = append(fromNodes, []expr.Any{
			&expr.Meta{Key: expr.MetaKeyNFPROTO, Register: 1},
			&expr.Cmp{Op: expr.CmpOpEq, Register: 1, Data: []byte{s.family}},
			&expr.Payload{DestRegister: 1, Base: expr.PayloadBaseNetworkHeader, Offset: s.offset - s.key.Bytes, Len: s.key.Bytes}, // the source is before it
			&expr.Lookup{SourceRegister: 1, SetName: set.Name, SetID: set.ID},
			&expr.Verdict{Kind: expr.VerdictAccept},
		})
	}
	if m.Tunnel {
		guardTunnel(c, table, fromNodes)
	}
	for _, p := range m.From {
		c.AddRule(&nftables.Rule{Table: table, Chain: chain, Exprs: append(matches(p, true), &expr.Masq{})})
	}
	if err := c.Flush(); err != nil {
		return fmt.Errorf("masquerade: write nftables rules (the kernel needs CONFIG_NFT_MASQ and CONFIG_NF_TABLES_INET): %w", err)
	}
	if err := os.WriteFile(closeWaitFile, []byte(closeWait), 0o644); err != nil {
		return fmt.Errorf("masquerade: let half-closed connections live: %w", err)
	}
	return nil
}

// guardTunnel takes packets of the tunnel from nodes alone: what is in them is believed.
func guardTunnel(c *nftables.Conn, table *nftables.Table, fromNodes [][]expr.Any) {
	chain := c.AddChain(&nftables.Chain{
		Name: "tunnel", Table: table,
		Type: nftables.ChainTypeFilter, Hooknum: nftables.ChainHookInput, Priority: nftables.ChainPriorityFilter,
	})
	toTunnel := []expr.Any{
		&expr.Meta{Key: expr.MetaKeyL4PROTO, Register: 1},
		&expr.Cmp{Op: expr.CmpOpEq, Register: 1, Data: []byte{unix.IPPROTO_UDP}},
		&expr.Payload{DestRegister: 1, Base: expr.PayloadBaseTransportHeader, Offset: 2, Len: 2},
		&expr.Cmp{Op: expr.CmpOpEq, Register: 1, Data: binary.BigEndian.AppendUint16(nil, TunnelPort)},
	}
	for _, from := range append(fromNodes, []expr.Any{&expr.Verdict{Kind: expr.VerdictDrop}}) {
		c.AddRule(&nftables.Rule{Table: table, Chain: chain, Exprs: slices.Concat(toTunnel, from)})
	}
}

// closeWait is for how many seconds the kernel knows whose a connection is that the far end has closed, while the pod still sends. By default it is one
// minute: what the pod sends after a longer silence would be answered with a reset.
const (
	closeWait     = "3600"
	closeWaitFile = "/proc/sys/net/netfilter/nf_conntrack_tcp_timeout_close_wait"
)

// matches compares the packet's family, and its source or destination with a prefix.
func matches(p netip.Prefix, source bool) []expr.Any {
	family, offset, length := byte(unix.NFPROTO_IPV4), uint32(16), uint32(4)
	if source {
		offset = 12
	}
	if p.Addr().Is6() {
		family, offset, length = unix.NFPROTO_IPV6, 24, 16
		if source {
			offset = 8
		}
	}
	p = p.Masked()
	mask := make([]byte, length)
	for i := range p.Bits() {
		mask[i/8] |= 0x80 >> (i % 8)
	}
	return []expr.Any{
		&expr.Meta{Key: expr.MetaKeyNFPROTO, Register: 1},
		&expr.Cmp{Op: expr.CmpOpEq, Register: 1, Data: []byte{family}},
		&expr.Payload{DestRegister: 1, Base: expr.PayloadBaseNetworkHeader, Offset: offset, Len: length},
		&expr.Bitwise{SourceRegister: 1, DestRegister: 1, Len: length, Mask: mask, Xor: make([]byte, length)},
		&expr.Cmp{Op: expr.CmpOpEq, Register: 1, Data: p.Addr().AsSlice()},
	}
}
