package attachdetach

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

// standing is what the pods of a node have been told, and still holds.
type standing map[news]bool

// news is an event to one pod: what tells it from others.
type news struct {
	pod     types.UID
	message string
	at      int64 // Unix time in seconds
}

// tell returns what pods have not been told, and all that is so now. What has ceased to hold is told anew when it comes back.
func (s standing) tell(events []Event) (fresh []Event, now standing) {
	now = standing{}
	for _, e := range events {
		var untold []*corev1.Pod
		for _, pod := range e.Pods {
			n := news{pod.UID, e.Message, e.At.Unix()}
			if !s[n] && !now[n] {
				untold = append(untold, pod)
			}
			now[n] = true
		}
		if len(untold) > 0 {
			e.Pods = untold
			fresh = append(fresh, e)
		}
	}
	return fresh, now
}

// news returns what the pods of a node have not been told, and takes it as told.
func (c *attacher) news(node string, events []Event) []Event {
	c.mu.Lock()
	defer c.mu.Unlock()
	fresh, now := c.standing[node].tell(events)
	if len(now) > 0 {
		c.standing[node] = now
	} else {
		delete(c.standing, node)
	}
	return fresh
}
