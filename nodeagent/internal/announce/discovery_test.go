package announce

import (
	"bytes"
	"net"
	"net/netip"
	"testing"
)

var (
	mine6  = netip.MustParseAddr("fd00::40")
	asker6 = netip.MustParseAddr("fd00::1")
)

// solicit is a frame of a host that asks for a target, with these options.
func solicit(source, destination, target netip.Addr, options ...byte) []byte {
	message := append([]byte{solicitation, 0, 0, 0, 0, 0, 0, 0}, target.AsSlice()...)
	return icmpFrame(source, destination, there, net.HardwareAddr{0x33, 0x33, 0xff, 0, 0, 0x40}, append(message, options...))
}

var sourceOption = []byte{optionSource, 1, 2, 0, 0, 0, 0, 3}

func TestAdvertise(t *testing.T) {
	t.Parallel()
	group := solicitedNode(mine6)
	if want := netip.MustParseAddr("ff02::1:ff00:40"); group != want {
		t.Fatalf("group %s, want %s", group, want)
	}
	ours := func(a netip.Addr) bool { return a == mine6 }
	named := net.HardwareAddr{2, 0, 0, 0, 0, 3}
	for what, c := range map[string]struct {
		frame []byte
		to    net.HardwareAddr // nil where nobody is answered
		ip    netip.Addr
		flags byte
	}{
		"a question":                    {solicit(asker6, group, mine6, sourceOption...), named, asker6, flagSolicited | flagOverride},
		"without the sender's Ethernet": {solicit(asker6, group, mine6), there, asker6, flagSolicited | flagOverride},
		"to the address itself":         {solicit(asker6, mine6, mine6, sourceOption...), named, asker6, flagSolicited | flagOverride},
		"an option more":                {solicit(asker6, group, mine6, append([]byte{14, 1, 1, 2, 3, 4, 5, 6}, sourceOption...)...), named, asker6, flagSolicited | flagOverride},
		"is it in use":                  {solicit(netip.IPv6Unspecified(), group, mine6), allNodesMAC, allNodes, flagOverride},
		"is it in use, to somebody":     {solicit(netip.IPv6Unspecified(), mine6, mine6), nil, asker6, 0},
		"nobody with Ethernet":          {solicit(netip.IPv6Unspecified(), group, mine6, sourceOption...), nil, asker6, 0},
		"for another's":                 {solicit(asker6, group, asker6.Next()), nil, asker6, 0},
		"in its own name":               {solicit(mine6, group, mine6), nil, asker6, 0},
		"an option of no length":        {solicit(asker6, group, mine6, 14, 0, 0, 0, 0, 0, 0, 0), nil, asker6, 0},
		"half an option":                {solicit(asker6, group, mine6, 1, 1, 2), nil, asker6, 0},
		"an advertisement":              {unsolicited(mine6, there)[0], nil, asker6, 0},
		"another checksum":              {changed(solicit(asker6, group, mine6), etherStart+headerSize+3), nil, asker6, 0},
		"by a router":                   {changed(solicit(asker6, group, mine6), etherStart+7), nil, asker6, 0},
		"cut off":                       {solicit(asker6, group, mine6, sourceOption...)[:80], nil, asker6, 0},
	} {
		frame, ok := discoveryLanguage().reply(c.frame, here, ours)
		if ok != (c.to != nil) {
			t.Errorf("%s: answered %v", what, ok)
			continue
		}
		if !ok {
			continue
		}
		message := frame[etherStart+headerSize:]
		from, to := netip.AddrFrom16([16]byte(frame[22:38])), netip.AddrFrom16([16]byte(frame[38:54]))
		if !bytes.Equal(frame[:6], c.to) || !bytes.Equal(frame[6:12], here) || from != mine6 || to != c.ip || checksum(from, to, message) != 0 ||
			message[0] != advertisement || message[4] != c.flags || !bytes.Equal(message[8:24], mine6.AsSlice()) || !bytes.Equal(message[26:32], here) {
			t.Errorf("%s: %x", what, frame)
		}
	}
}

func TestClaims(t *testing.T) {
	t.Parallel()
	for what, c := range map[string]struct {
		language language
		frame    []byte
		address  netip.Addr // the zero one where nobody says that an address is his
	}{
		"ARP, a request nobody asked for": {arpLanguage(), gratuitous(mine, there)[0], mine},
		"ARP, a reply nobody asked for":   {arpLanguage(), gratuitous(mine, there)[1], mine},
		"no ARP":                          {arpLanguage(), unsolicited(mine6, there)[0], netip.Addr{}},
		"NDP, an advertisement":           {discoveryLanguage(), unsolicited(mine6, there)[0], mine6},
		"NDP, a question":                 {discoveryLanguage(), solicit(asker6, solicitedNode(mine6), mine6), netip.Addr{}},
		"NDP, another checksum":           {discoveryLanguage(), changed(unsolicited(mine6, there)[0], etherStart+headerSize+3), netip.Addr{}},
	} {
		address, holder, ok := c.language.claim(c.frame)
		if ok != c.address.IsValid() || ok && (address != c.address || !bytes.Equal(holder, there)) {
			t.Errorf("%s: %s at %s, %v", what, address, holder, ok)
		}
	}
}

// changed has one byte less one.
func changed(frame []byte, at int) []byte {
	frame[at]--
	return frame
}

func FuzzParseSolicitation(f *testing.F) {
	f.Add(solicit(asker6, solicitedNode(mine6), mine6, sourceOption...))
	f.Add(unsolicited(mine6, here)[0])
	f.Add([]byte("short"))
	f.Fuzz(func(t *testing.T, frame []byte) {
		q, ok := parseSolicitation(frame)
		if !ok {
			return
		}
		if q.target.IsMulticast() || len(q.mac) != 6 {
			t.Errorf("%+v", q)
		}
		if reply, ok := advertise(q, here, func(netip.Addr) bool { return true }); ok {
			if _, ok := parseSolicitation(reply); ok {
				t.Errorf("the answer asks again: %x", reply)
			}
		}
	})
}
