package pod

import (
	"time"

	corev1 "k8s.io/api/core/v1"
)

// Memory is what a pod's worker remembers between rounds beside what the
// runtime holds. A restarted agent begins with an empty one.
type Memory struct {
	// Trouble says why a container waits, by container name.
	Trouble map[string]Trouble
	// Backoff holds the restart delays, by container name.
	Backoff map[string]Backoff
	// MaxDelay is the longest of them; 0 is BackoffMax.
	MaxDelay time.Duration
	// Probes holds what probes found, by container ID.
	Probes map[string]Probed
	// Again holds runs, by container ID, that were stopped so that their containers start again, whatever they ended with.
	Again map[string]bool
	// Sandbox is why the last sandbox could not be made, and when to try again.
	Sandbox Trouble
	// Volumes is why the volumes could not be made, and when to try again.
	Volumes Trouble
	// Claims is why the devices that the pod claims could not be prepared, and when to try again.
	Claims Trouble
	// Given holds the resources that the pod has been given, by container name and WholePod.
	Given map[string]corev1.ResourceRequirements
	// Applied holds the resources that runs have, by container ID, and the pod's group has of the pod's own, under WholePod.
	Applied map[string]corev1.ResourceRequirements
	// Around holds what the pod asked for as a whole when its runs were given their resources, by container ID.
	Around map[string]corev1.ResourceRequirements
	// Pending is why the pod does not get other resources that it asks for; nil where it has what it asks for.
	Pending *Pending
	// Resize says what went wrong with giving the pod and its containers other resources, by container name and WholePod.
	Resize map[string]Trouble
	// Life is the newest of the pod's lives of which it is known that it is about to begin.
	Life int32
	// Failed is why the agent itself ended the pod; sticky.
	Failed *Failure
}

// Trouble is a reason to wait, for people, and the time before which nothing
// is tried again.
type Trouble struct {
	Reason, Message string
	Until           time.Time
	// Pause is how long it waits this time; the next failure doubles it.
	Pause time.Duration
}

// Probed is what a container's probes found so far.
type Probed struct {
	Started, Ready bool
	// Kill, where set, says why a probe wants the container restarted.
	Kill string
}

// Failure is why a pod failed as a whole.
type Failure struct {
	Reason, Message string
	// Rejected says that the node did not take it: nothing was made of it.
	Rejected bool
	// Disruption, where set, is the message of the condition that tells who counts failures that the pod was not to blame.
	Disruption string
	// Grace, where set, is how long its containers may take to end, in seconds, instead of the pod's own time.
	Grace *int64
}

// NewMemory returns an empty memory.
func NewMemory() *Memory {
	return &Memory{Trouble: map[string]Trouble{}, Backoff: map[string]Backoff{}, Probes: map[string]Probed{}, Again: map[string]bool{},
		Given: map[string]corev1.ResourceRequirements{}, Applied: map[string]corev1.ResourceRequirements{}, Around: map[string]corev1.ResourceRequirements{}, Resize: map[string]Trouble{}}
}

// Apply notes that a run has what the container asks for, in a pod that asks for whole.
func (m *Memory) Apply(id string, whole, own corev1.ResourceRequirements) {
	m.Applied[id], m.Around[id] = *own.DeepCopy(), *whole.DeepCopy()
}

// Has are the resources of a run's control group.
func (m *Memory) Has(p *corev1.Pod, id string) corev1.ResourceRequirements {
	whole, known := m.Around[id]
	if !known {
		whole = Whole(p)
	}
	return Within(whole, m.Applied[id])
}

// Backoff bounds how often a failing container is started: 10 s after its
// second end, doubled each time up to a maximum, of 5 minutes where the node
// is told no other, forgotten after 10 minutes of peace, whatever the maximum.
type Backoff struct {
	Delay   time.Duration
	Updated time.Time
}

// Restart delays.
const (
	BackoffBase = 10 * time.Second
	BackoffMax  = 5 * time.Minute

	backoffPeace = 10 * time.Minute
)

// Until returns when a container that ended at finished may start again, the
// zero time where it may at once.
func (b Backoff) Until(finished, now time.Time) time.Time {
	if b.Delay == 0 || finished.Sub(b.Updated) > backoffPeace {
		return time.Time{}
	}
	if until := finished.Add(b.Delay); until.After(now) {
		return until
	}
	return time.Time{}
}

// Next returns the delays after another start that follows an end at finished; most, where not 0, is the longest, and so the first, too, where it is shorter.
func (b Backoff) Next(finished, now time.Time, most time.Duration) Backoff {
	if most == 0 {
		most = BackoffMax
	}
	if b.Delay == 0 || finished.Sub(b.Updated) > backoffPeace {
		return Backoff{min(BackoffBase, most), now}
	}
	return Backoff{min(2*b.Delay, most), now}
}
