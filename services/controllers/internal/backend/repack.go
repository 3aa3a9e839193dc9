package backend

import (
	"cmp"
	"encoding/hex"
	"fmt"
	"hash/fnv"
	"maps"
	"slices"
	"strconv"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/dump"
)

// Repack brings subsets into the one form in which Kubernetes has them: ports that the same addresses have are together, in one subset; an address is
// once in it, and not ready where any says so. Ports and subsets are in the order of their hashes, which differs from cluster to cluster for subsets, and
// nobody should count on; addresses are sorted.
func Repack(subsets []corev1.EndpointSubset) []corev1.EndpointSubset {
	addresses := map[addressKey]corev1.EndpointAddress{}
	byPort := map[corev1.EndpointPort]map[addressKey]bool{} // true where ready
	add := func(port corev1.EndpointPort, list []corev1.EndpointAddress, ready bool) {
		if byPort[port] == nil {
			byPort[port] = map[addressKey]bool{}
		}
		for _, a := range list {
			key := keyOf(&a)
			if _, known := addresses[key]; !known {
				addresses[key] = a
			}
			if was, known := byPort[port][key]; !known || was {
				byPort[port][key] = ready
			}
		}
	}
	for _, s := range subsets {
		ports := s.Ports
		if len(ports) == 0 {
			ports = []corev1.EndpointPort{{Port: noPort}}
		}
		for _, port := range ports {
			add(shared(port), s.Addresses, true)
			add(shared(port), s.NotReadyAddresses, false)
		}
	}
	sets := map[string]*corev1.EndpointSubset{}
	for port, has := range byPort {
		keys := slices.SortedFunc(maps.Keys(has), func(a, b addressKey) int { return cmp.Or(cmp.Compare(a.ip, b.ip), cmp.Compare(a.uid, b.uid)) })
		name := nameOf(keys, has)
		set := sets[name]
		if set == nil {
			set = &corev1.EndpointSubset{}
			for _, key := range keys {
				if has[key] {
					set.Addresses = append(set.Addresses, addresses[key])
				} else {
					set.NotReadyAddresses = append(set.NotReadyAddresses, addresses[key])
				}
			}
			sets[name] = set
		}
		if port.Port != noPort {
			set.Ports = append(set.Ports, own(port))
		}
	}
	repacked := make([]corev1.EndpointSubset, 0, len(sets))
	for _, set := range sets {
		sortByHash(set.Ports)
		repacked = append(repacked, *set)
	}
	sortByHash(repacked)
	return repacked
}

// nameOf tells sets of addresses apart, ready and not. It is called for thousands at every change of one.
func nameOf(keys []addressKey, ready map[addressKey]bool) string {
	var name []byte
	for _, key := range keys {
		name = strconv.AppendQuote(name, key.ip)
		name = strconv.AppendQuote(name, string(key.uid))
		name = strconv.AppendBool(name, ready[key])
	}
	return string(name)
}

// noPort stands for a subset without ports.
const noPort = -1

type addressKey struct {
	ip  string
	uid types.UID
}

func keyOf(a *corev1.EndpointAddress) addressKey {
	key := addressKey{ip: a.IP}
	if a.TargetRef != nil {
		key.uid = a.TargetRef.UID
	}
	return key
}

// shared is a port as a key: what a pointer leads to is put into its name, behind a byte that no name has.
func shared(p corev1.EndpointPort) corev1.EndpointPort {
	if p.AppProtocol != nil {
		p.Name += "\x00" + *p.AppProtocol
		p.AppProtocol = nil
	}
	return p
}

// own undoes shared.
func own(p corev1.EndpointPort) corev1.EndpointPort {
	for i := range len(p.Name) {
		if p.Name[i] == 0 {
			protocol := p.Name[i+1:]
			p.Name, p.AppProtocol = p.Name[:i], &protocol
			break
		}
	}
	return p
}

// sortByHash puts what has no order of its own into one.
func sortByHash[T any](list []T) {
	hash := func(v T) string {
		h := fnv.New128a()
		_, _ = fmt.Fprint(h, dump.ForHash(v))
		return hex.EncodeToString(h.Sum(nil))
	}
	if len(list) < 2 {
		return
	}
	slices.SortFunc(list, func(a, b T) int { return cmp.Compare(hash(a), hash(b)) })
}
