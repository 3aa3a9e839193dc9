package job

import (
	"slices"
	"sync"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

// memory is what is remembered of jobs while this process leads. Nothing of it is missed after a failover.
type memory struct {
	mu   sync.Mutex
	jobs map[types.UID]*memo
}

// memo is of one job. Its fields belong to the one reconcile of the job that is under way.
type memo struct {
	failures Failures
	// current says that the caches have shown what there was when this process first saw the job. Until then they may be behind what an
	// earlier leader did.
	current bool
	// without are the pods that have lost their finalizer and whose copies in the cache have it still. The status may have counted them
	// already.
	without map[types.UID]bool
	// refused says that the last creation of pods failed.
	refused bool
	// leaving says that it failed since the namespace is about to go.
	leaving bool
}

func (m *memory) of(job types.UID) *memo {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.jobs == nil {
		m.jobs = map[types.UID]*memo{}
	}
	known := m.jobs[job]
	if known == nil {
		known = &memo{}
		m.jobs[job] = known
	}
	return known
}

// untracked notes the pods that have lost their finalizer.
func (m *memo) untracked(pods []*corev1.Pod, err error) error {
	if m.without == nil && len(pods) > 0 {
		m.without = map[types.UID]bool{}
	}
	for _, p := range pods {
		m.without[p.UID] = true
	}
	return err
}

// seen returns a job's pods of the cache as they are since they have lost their finalizer.
func (m *memo) seen(cached []*corev1.Pod) []*corev1.Pod {
	if len(m.without) == 0 {
		return cached
	}
	pods, still := slices.Clone(cached), map[types.UID]bool{}
	for n, p := range pods {
		if !m.without[p.UID] || !tracked(p) {
			continue
		}
		still[p.UID] = true
		bare := *p
		bare.Finalizers = slices.DeleteFunc(slices.Clone(p.Finalizers), func(f string) bool { return f == batchv1.JobTrackingFinalizer })
		pods[n] = &bare
	}
	m.without = still
	return pods
}

func (m *memory) forget(job types.UID) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.jobs, job)
}
