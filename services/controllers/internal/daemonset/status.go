package daemonset

import (
	"time"

	appsv1 "k8s.io/api/apps/v1"

	"howdah.dev/services/controllers/internal/pod"
)

// status counts nodes. Of the pods of a node the one counts that would be kept.
func (d *daemons) status() appsv1.DaemonSetStatus {
	s := *d.set.Status.DeepCopy()
	s.DesiredNumberScheduled = int32(d.desired)
	s.CurrentNumberScheduled, s.NumberMisscheduled, s.UpdatedNumberScheduled = 0, 0, 0
	s.NumberReady, s.NumberAvailable = 0, 0
	for _, site := range d.sites {
		switch {
		case site.gone || len(site.pods) == 0:
			continue
		case !site.Run:
			s.NumberMisscheduled++
			continue
		}
		first := site.pods[0]
		s.CurrentNumberScheduled++
		if pod.Ready(first) {
			s.NumberReady++
		}
		if d.available(first) {
			s.NumberAvailable++
		}
		if d.updated(first) {
			s.UpdatedNumberScheduled++
		}
	}
	s.NumberUnavailable = s.DesiredNumberScheduled - s.NumberAvailable
	return s
}

// ripening is how long it takes until the next pod has been ready for minReadySeconds; 0 where none is on its way there.
func (d *daemons) ripening() time.Duration {
	var next time.Duration
	for _, s := range d.sites {
		for _, p := range s.pods {
			if _, rest := pod.Available(p, d.minReady(), d.now); rest > 0 && (next == 0 || rest < next) {
				next = rest
			}
		}
	}
	return next
}
