package pod

import (
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"

	"howdah.dev/nodeagent/internal/cri"
)

// life is one of the times that a pod has begun in its sandbox. A container whose end a rule answers with RestartAllContainers begins the next one:
// what runs is stopped, and all start over from the first init container. Every run says of which life it is, so that the runtime alone tells
// where the pod stands, whenever the agent ends.
type life struct {
	// number counts the lives, from 0. Runs of lower ones are past: nothing of what became of them decides any more.
	number int32
	// causes are the runs whose ends ask for this life, while nothing of it has been made.
	causes []*cri.Container
}

// lifeOf returns the life that the pod is in, or is about to begin.
func lifeOf(p *corev1.Pod, observed *cri.Pod) life {
	var l life
	for _, c := range containers(p) {
		if run := observed.Latest(c.Name); run != nil {
			l.number = max(l.number, run.Life)
		}
	}
	for _, c := range containers(p) {
		if run := observed.Latest(c.Name); run != nil && run.Life == l.number && restartsAll(c, run) {
			l.causes = append(l.causes, run)
		}
	}
	if len(l.causes) > 0 {
		l.number++
	}
	return l
}

// latest returns the newest run of a container in this life, nil where there is none yet.
func (l life) latest(observed *cri.Pod, name string) *cri.Container {
	if run := observed.Latest(name); run != nil && !l.past(run) {
		return run
	}
	return nil
}

func (l life) past(run *cri.Container) bool { return run.Life < l.number }

// restartsAll reports whether a run has ended in a way that makes all containers of its pod start over.
func restartsAll(c *corev1.Container, run *cri.Container) bool {
	if run.State != cri.Exited {
		return false
	}
	rule := ruleFor(c, run.ExitCode)
	return rule != nil && rule.Action == corev1.ContainerRestartRuleActionRestartAllContainers
}

// mayRestartAll reports whether some container's end may do that.
func mayRestartAll(p *corev1.Pod) bool {
	for _, c := range containers(p) {
		for i := range c.RestartPolicyRules {
			if c.RestartPolicyRules[i].Action == corev1.ContainerRestartRuleActionRestartAllContainers {
				return true
			}
		}
	}
	return false
}

// begin plans the end of what is left of the life before, and reports whether the present one may begin. Who asks for it again and again waits
// as a container that fails does.
func (p *planner) begin() bool {
	at := map[string]bool{}
	for _, c := range containers(p.pod) {
		at[c.Name] = true
	}
	none := int64(0)
	for i := range p.observed.Containers {
		run := &p.observed.Containers[i]
		switch {
		case !at[run.Name] || !p.life.past(run): // ephemeral containers go on
		case run.State == cri.Running:
			p.plan.Stop = append(p.plan.Stop, Stop{Run: run, Message: "killing", Grace: &none})
		case run.State == cri.Created:
			p.plan.Remove = append(p.plan.Remove, run.ID)
		}
	}
	p.plan.Restarting = len(p.plan.Stop) > 0 || len(p.life.causes) > 0 && p.memory.Life < p.life.number
	if p.plan.Restarting {
		return false
	}
	var until time.Time
	for _, run := range p.life.causes {
		if wait := p.backOff(run.Name, p.memory.Backoff[run.Name], run); wait.After(until) {
			until = wait
		}
	}
	return until.IsZero()
}

// backOff plans that a container waits for its next run, until the time that it returns; the zero time is no wait.
func (p *planner) backOff(name string, backoff Backoff, run *cri.Container) time.Time {
	until := backoff.Until(run.Finished, p.now)
	if until.IsZero() {
		return until
	}
	p.plan.Waiting[name] = Trouble{
		Reason: "CrashLoopBackOff",
		Message: fmt.Sprintf("back-off %s restarting failed container=%s pod=%s_%s(%s)",
			backoff.Delay, name, p.pod.Name, p.pod.Namespace, p.pod.UID),
		Until: until,
	}
	p.wake(until)
	return until
}

// restartingAll is the reason of what happens to a container because all of its pod start over.
const restartingAll = "RestartingAllContainers"

// removedToRestart is the message that goes with it.
const removedToRestart = "The container is removed because RestartAllContainers in place"

// restartCondition says whether the containers are being stopped to start over, of pods to which that may happen.
func restartCondition(s *corev1.PodStatus, pod *corev1.Pod, plan Plan, now time.Time) {
	if !mayRestartAll(pod) {
		return
	}
	c := corev1.PodCondition{Type: corev1.AllContainersRestarting, Status: corev1.ConditionFalse}
	switch {
	case s.Phase == corev1.PodSucceeded:
		c.Reason = "PodCompleted"
	case s.Phase == corev1.PodFailed:
		c.Reason = "PodFailed"
	case plan.Restarting:
		c.Status, c.Reason, c.Message = corev1.ConditionTrue, "RestartAllContainersStarted", "container exited with restart policy rule"
	}
	setCondition(s, pod, now, c)
}

// owed reports whether a container has not run yet in this life, and did in an earlier one, or was stopped to start again.
func (w *writer) owed(name string) bool {
	run := w.observed.Latest(name)
	return run != nil && (w.life.past(run) || w.memory.Again[run.ID] && w.plan.Terminate == nil)
}

// ended describes a run that has ended. latest is the life of the pod by then: what was stopped for it says so.
func (w *writer) ended(c *corev1.Container, run *cri.Container, latest int32) corev1.ContainerState {
	s := terminated(run)
	if t := s.Terminated; run.Life < latest && run.ExitCode == killed && t.Reason == "Error" && !restartsAll(c, run) {
		t.Reason, t.Message = restartingAll, removedToRestart
	}
	return s
}

// killed is the exit code of what is stopped without grace.
const killed = 137
