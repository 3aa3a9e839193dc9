package dra

import (
	"fmt"
	"maps"
	"slices"

	"k8s.io/apimachinery/pkg/types"
	drav1 "k8s.io/kubelet/pkg/apis/dra/v1"
)

// calls are the claims that each driver is to be asked about, by driver.
type calls map[string][]*drav1.Claim

func (c calls) add(claim *Claim) {
	for driver := range claim.Drivers {
		c[driver] = append(c[driver], &drav1.Claim{Namespace: claim.Namespace, Name: claim.Name, Uid: string(claim.UID)})
	}
}

// drivers are sorted, so that what happens does not depend on chance.
func (c calls) drivers() []string { return slices.Sorted(maps.Keys(c)) }

// planPrepare returns what is prepared once a pod has what it wants, as far as it is known before drivers are asked, and what they are to be asked. What is prepared
// already is the pod's, too.
func planPrepare(s state, pod types.UID, wants []want) (state, calls, error) {
	next, asked := maps.Clone(s), calls{}
	for _, w := range wants {
		claim := &Claim{Namespace: w.Namespace, Name: w.Name, UID: w.uid, Drivers: map[string][]Device{}}
		if before := next[w.key]; before != nil {
			if before.UID != w.uid {
				return nil, nil, fmt.Errorf("old ResourceClaim with same name %s and different UID %s still exists (previous pod force-deleted?!)", w.Name, before.UID)
			}
			claim = before.clone()
		}
		for _, driver := range w.drivers {
			if _, known := claim.Drivers[driver]; !known && !claim.sure {
				claim.Drivers[driver] = nil
			}
		}
		if !slices.Contains(claim.Pods, pod) {
			claim.Pods = append(claim.Pods, pod)
		}
		twice := next[w.key] != nil && next[w.key] != s[w.key] // the pod names it twice
		next[w.key] = claim
		if !claim.sure && !twice {
			asked.add(claim)
		}
	}
	return next, asked, nil
}

// prepared is the state once all drivers have answered.
func prepared(s state, answers map[types.UID]map[string][]Device) state {
	next := maps.Clone(s)
	for k, c := range s {
		answer, asked := answers[c.UID]
		if !asked {
			continue
		}
		c = c.clone()
		maps.Copy(c.Drivers, answer)
		c.Prepared, c.sure = true, true
		next[k] = c
	}
	return next
}

// planUnprepare returns what is prepared once a pod has gone, and what drivers are to be asked first: claims that only it has used stay until they have answered.
func planUnprepare(s state, pod types.UID) (state, calls) {
	next, asked := maps.Clone(s), calls{}
	for _, c := range s.of(pod) {
		left := c.clone()
		if len(c.Pods) > 1 {
			left.Pods = slices.DeleteFunc(left.Pods, func(uid types.UID) bool { return uid == pod })
		} else {
			left.sure = false // some driver may have taken it back, and another not
			asked.add(left)
		}
		next[c.key()] = left
	}
	return next, asked
}

// unprepared is the state without claims that only a pod has used, but those of which some driver has not taken its part back.
func unprepared(s state, pod types.UID, failed map[types.UID]bool) state {
	next := maps.Clone(s)
	for _, c := range s.of(pod) {
		if len(c.Pods) == 1 && !failed[c.UID] {
			delete(next, c.key())
		}
	}
	return next
}
