// Package pod decides, without any effect, what is to be done for a pod and
// what is to be said of it: Plan and Status map the pod's specification, what
// the runtime holds, what the worker remembers, and the time.
package pod

import (
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"

	"howdah.dev/nodeagent/internal/cri"
)

// Plan is what is to be done for a pod now. Where Terminate is set, nothing
// else is.
type Plan struct {
	// Terminate stops the whole pod.
	Terminate *Termination
	// NewSandbox makes a sandbox with Attempt, after everything of older ones is stopped.
	NewSandbox bool
	Attempt    uint32
	// Stop ends running containers.
	Stop []Stop
	// Start creates and starts containers, in order.
	Start []Start
	// Resize changes the resources of running containers.
	Resize []Resize
	// Regroup says that the pod's containers as a whole get other resources: some are resized, or started anew for it.
	Regroup bool
	// Resizing says that some container has not the resources that it was given, be it tried now or later.
	Resizing bool
	// Remove deletes ended containers that nobody asks for any more, by ID.
	Remove []string
	// RemoveSandboxes deletes sandboxes that newer ones have replaced, by ID.
	RemoveSandboxes []string
	// Restarting says that all containers are being stopped, to start over.
	Restarting bool
	// Life is the one of the pod that is, or is about to begin.
	Life int32
	// Waiting says which containers wait for a restart, and for how long.
	Waiting map[string]Trouble
	// Wake is when to plan again if nothing happens before; zero is never.
	Wake time.Time
}

// Termination ends a pod.
type Termination struct {
	// Grace is how long containers may take to end, in seconds; nil is the pod's own.
	Grace *int64
	// Delete says that the pod is to leave the API once it has ended.
	Delete bool
	// Failure is set where the agent ends the pod for a reason of its own.
	Failure *Failure
}

// Stop ends one run of a container.
type Stop struct {
	Run     *cri.Container
	Message string // for the event
	// Grace, in seconds, where it is not the pod's own.
	Grace *int64
	// Again says that the container starts again whatever the run ends with, which the worker remembers (Memory.Again).
	Again bool
}

// Start makes one run of a container.
type Start struct {
	Container *corev1.Container
	Init      bool
	Attempt   int32
	Life      int32
	// Replaces says that the last run was of another definition, as of another image.
	Replaces bool
	// Backoff is what to remember of restart delays once it runs.
	Backoff Backoff
}

// Make returns what is to be done for the pod at now.
func Make(pod *corev1.Pod, observed *cri.Pod, memory *Memory, now time.Time) Plan {
	l := lifeOf(pod, observed)
	p := planner{pod: pod, observed: observed, memory: memory, now: now, life: l, plan: Plan{Waiting: map[string]Trouble{}, Life: l.number}}
	p.make()
	return p.plan
}

type planner struct {
	pod      *corev1.Pod
	observed *cri.Pod
	memory   *Memory
	now      time.Time
	life     life
	plan     Plan
	sandbox  *cri.Sandbox // the one that is ready, or nil
}

func (p *planner) make() {
	if p.terminate() {
		return
	}
	if newest := p.observed.Sandbox(); newest != nil && newest.Ready {
		p.sandbox = newest
	}
	if p.sandbox == nil {
		p.renew()
		return
	}
	p.collect()
	if p.begin() && p.init() {
		p.main()
	}
	p.ephemeral()
	p.resizeWhole()
}

// terminate decides whether the pod ends as a whole.
func (p *planner) terminate() bool {
	if failure := p.deadline(); failure != nil {
		p.plan.Terminate = &Termination{Failure: failure}
	} else if p.memory.Failed != nil || Finished(p.pod) || Ended(p.pod, p.observed, p.memory) {
		p.plan.Terminate = &Termination{Failure: p.memory.Failed}
		if failed := p.memory.Failed; failed != nil {
			p.plan.Terminate.Grace = failed.Grace
		}
	}
	if p.pod.DeletionTimestamp != nil {
		grace := p.pod.DeletionGracePeriodSeconds
		if failed := p.memory.Failed; failed != nil && failed.Grace != nil && (grace == nil || *failed.Grace < *grace) {
			grace = failed.Grace // the node cannot wait so long
		}
		p.plan.Terminate = &Termination{Delete: true, Grace: grace}
	}
	return p.plan.Terminate != nil
}

func (p *planner) deadline() *Failure {
	if p.pod.Spec.ActiveDeadlineSeconds == nil || p.pod.Status.StartTime == nil {
		return nil
	}
	end := p.pod.Status.StartTime.Add(time.Duration(*p.pod.Spec.ActiveDeadlineSeconds) * time.Second)
	if p.now.Before(end) {
		p.wake(end)
		return nil
	}
	return &Failure{Reason: "DeadlineExceeded", Message: "Pod was active on the node longer than the specified deadline"}
}

// Finished reports whether the API says already that the pod has ended.
func Finished(pod *corev1.Pod) bool {
	return pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed
}

// Ended reports whether no container of the pod is to run any more, by its
// restart policy.
func Ended(pod *corev1.Pod, observed *cri.Pod, memory *Memory) bool {
	l := lifeOf(pod, observed)
	for i := range pod.Spec.InitContainers {
		c := &pod.Spec.InitContainers[i]
		last := l.latest(observed, c.Name)
		if last != nil && last.State == cri.Exited && last.ExitCode != 0 && !restarts(pod, c, true, last.ExitCode) {
			return true
		}
	}
	for i := range pod.Spec.Containers {
		c := &pod.Spec.Containers[i]
		last := l.latest(observed, c.Name)
		if last == nil || last.State != cri.Exited || memory.Again[last.ID] || restarts(pod, c, false, last.ExitCode) {
			return false
		}
	}
	return true
}

// restarts reports whether a container that ended with the exit code is to
// run again.
func restarts(pod *corev1.Pod, c *corev1.Container, init bool, exitCode int32) bool {
	policy := pod.Spec.RestartPolicy
	if c.RestartPolicy != nil {
		policy = corev1.RestartPolicy(*c.RestartPolicy)
	}
	if ruleFor(c, exitCode) != nil {
		return true // alone or with all others
	}
	if init && !Sidecar(c) {
		return exitCode != 0 && policy != corev1.RestartPolicyNever
	}
	switch policy {
	case corev1.RestartPolicyNever:
		return false
	case corev1.RestartPolicyOnFailure:
		return exitCode != 0
	}
	return true
}

// ruleFor returns the first rule of a container that is about the exit code, nil where none is.
func ruleFor(c *corev1.Container, exitCode int32) *corev1.ContainerRestartRule {
	for i := range c.RestartPolicyRules {
		if matches(c.RestartPolicyRules[i].ExitCodes, exitCode) {
			return &c.RestartPolicyRules[i]
		}
	}
	return nil
}

// matches reports whether a rule is about the exit code.
func matches(rule *corev1.ContainerRestartRuleOnExitCodes, exitCode int32) bool {
	if rule == nil {
		return false
	}
	return slices.Contains(rule.Values, exitCode) == (rule.Operator == corev1.ContainerRestartRuleOnExitCodesOpIn)
}

// Sidecar reports whether an init container keeps running beside the others.
func Sidecar(c *corev1.Container) bool {
	return c.RestartPolicy != nil && *c.RestartPolicy == corev1.ContainerRestartPolicyAlways
}

// renew plans a new sandbox, unless a failed one, failed volumes or failed claims
// are to be waited for.
func (p *planner) renew() {
	for i := range p.observed.Containers {
		if run := &p.observed.Containers[i]; run.State == cri.Running {
			p.plan.Stop = append(p.plan.Stop, Stop{Run: run, Message: "Stopping container " + run.Name})
		}
	}
	for _, wait := range []Trouble{p.memory.Sandbox, p.memory.Volumes, p.memory.Claims} {
		if wait.Until.After(p.now) {
			p.wake(wait.Until)
			return
		}
	}
	p.plan.NewSandbox = true
	if last := p.observed.Sandbox(); last != nil {
		p.plan.Attempt = last.Attempt + 1
	}
}

// init works through the init containers in order and reports whether the
// others may run.
func (p *planner) init() bool {
	// Containers of the main part are only ever made after all of init, so
	// one of them is proof, even where the init containers' runs are gone.
	passed := p.mainStarted()
	for i := range p.pod.Spec.InitContainers {
		c := &p.pod.Spec.InitContainers[i]
		run := p.current(c.Name)
		switch {
		case Sidecar(c):
			p.keep(c, run, true)
			if !passed && (run == nil || run.State != cri.Running || !p.started(c, run)) {
				return false
			}
		case passed:
		case run == nil || run.State == cri.Created:
			p.start(c, run, true)
			return false
		case run.State == cri.Running: // it ends by itself, with what it was started with
			p.resize(c, run)
			return false
		case run.State == cri.Unknown || run.ExitCode != 0:
			p.restart(c, run, true)
			return false
		}
	}
	return true
}

func (p *planner) mainStarted() bool {
	for i := range p.pod.Spec.Containers {
		if run := p.current(p.pod.Spec.Containers[i].Name); run != nil {
			return true
		}
	}
	return false
}

func (p *planner) main() {
	for i := range p.pod.Spec.Containers {
		c := &p.pod.Spec.Containers[i]
		p.keep(c, p.current(c.Name), false)
	}
}

// keep plans what one long-running container needs.
func (p *planner) keep(c *corev1.Container, run *cri.Container, init bool) {
	if run == nil { // in this sandbox; what ended for good in an older one stays ended
		if old := p.life.latest(p.observed, c.Name); old != nil && old.State == cri.Exited && !p.again(c, old, init) {
			return
		}
	}
	switch {
	case run == nil || run.State == cri.Created:
		p.start(c, run, init)
	case run.State == cri.Running:
		p.check(c, run, init)
	case p.again(c, run, init):
		p.restart(c, run, init)
	}
}

// again reports whether a container whose run has ended is to run again.
func (p *planner) again(c *corev1.Container, run *cri.Container, init bool) bool {
	return p.memory.Again[run.ID] || restarts(p.pod, c, init, run.ExitCode)
}

// check plans the stop of a running container that is to be replaced. One that was changed starts again by any restart policy, as Kubernetes has it, and a
// sidecar that has not started yet gets its time to start before.
func (p *planner) check(c *corev1.Container, run *cri.Container, init bool) {
	kill := p.memory.Probes[run.ID].Kill
	if changed(c, run) && (!init || p.started(c, run)) {
		p.plan.Stop = append(p.plan.Stop, Stop{Run: run, Message: stopping(c, init, "definition changed", true), Again: true})
		return
	}
	if kill == "" {
		p.resize(c, run)
		return
	}
	stop := Stop{Run: run, Again: p.restartsKilled(c), Message: stopping(c, init, "failed "+kill, true)}
	if !init && !restarts(p.pod, c, false, killed) {
		stop.Message = stopping(c, init, "failed "+kill, stop.Again)
		if p.alone(run) { // the pod ends with it
			stop.Message = "Stopping container " + c.Name
		}
	}
	probe := c.LivenessProbe
	if kill == "startup probe" {
		probe = c.StartupProbe
	}
	if probe != nil {
		stop.Grace = probe.TerminationGracePeriodSeconds
	}
	p.plan.Stop = append(p.plan.Stop, stop)
}

// stopping is the message of why a container is stopped.
func stopping(c *corev1.Container, init bool, why string, again bool) string {
	switch {
	case init:
		return fmt.Sprintf("Init container %s %s", c.Name, why)
	case again:
		return fmt.Sprintf("Container %s %s, will be restarted", c.Name, why)
	}
	return fmt.Sprintf("Container %s %s", c.Name, why)
}

// restartsKilled reports whether a container that is stopped because of a probe starts again by its policy, whatever it then ends with.
func (p *planner) restartsKilled(c *corev1.Container) bool {
	if c.RestartPolicy != nil {
		return *c.RestartPolicy != corev1.ContainerRestartPolicyNever
	}
	return p.pod.Spec.RestartPolicy != corev1.RestartPolicyNever
}

// alone reports whether no other main container runs.
func (p *planner) alone(run *cri.Container) bool {
	for i := range p.pod.Spec.Containers {
		if other := p.observed.Latest(p.pod.Spec.Containers[i].Name); other != nil && other.ID != run.ID && other.State == cri.Running {
			return false
		}
	}
	return true
}

// start plans the first run in this sandbox. made is a run that was created
// and never started: the agent ended in between.
func (p *planner) start(c *corev1.Container, made *cri.Container, init bool) {
	if made != nil {
		p.plan.Remove = append(p.plan.Remove, made.ID)
	}
	if wait := p.memory.Trouble[c.Name]; wait.Until.After(p.now) {
		p.wake(wait.Until)
		return
	}
	start := Start{Container: c, Init: init, Attempt: p.attempt(c.Name), Life: p.life.number, Backoff: p.memory.Backoff[c.Name]}
	if last := p.observed.Latest(c.Name); last != nil && p.life.past(last) && restartsAll(c, last) {
		start.Backoff = start.Backoff.Next(last.Finished, p.now, p.memory.MaxDelay) // the next time, all wait
	}
	p.plan.Start = append(p.plan.Start, start)
}

func (p *planner) restart(c *corev1.Container, run *cri.Container, init bool) {
	backoff := p.memory.Backoff[c.Name]
	replaces := changed(c, run)
	if replaces {
		backoff = Backoff{} // another program deserves a fresh try
	}
	if until := p.backOff(c.Name, backoff, run); !until.IsZero() {
		return
	}
	if wait := p.memory.Trouble[c.Name]; wait.Until.After(p.now) {
		p.wake(wait.Until)
		return
	}
	p.plan.Start = append(p.plan.Start, Start{
		Container: c, Init: init, Attempt: p.attempt(c.Name), Life: p.life.number, Replaces: replaces, Backoff: backoff.Next(run.Finished, p.now, p.memory.MaxDelay),
	})
}

// changed reports whether a run is of another definition of its container than the pod's.
func changed(c *corev1.Container, run *cri.Container) bool {
	return run.Hash != "" && run.Hash != cri.Hash(c)
}

// attempt is the number of the next run: above all runs that the runtime
// still holds and those that the API tells of.
func (p *planner) attempt(name string) int32 {
	var next int32
	if last := p.observed.Latest(name); last != nil {
		next = last.Attempt
		if last.State != cri.Created {
			next++
		}
	}
	if told := ToldStatus(p.pod, name); told != nil && told.ContainerID != "" {
		next = max(next, told.RestartCount+1)
	}
	return next
}

// current returns the newest run of a container in the present sandbox and life.
func (p *planner) current(name string) *cri.Container {
	if run := p.life.latest(p.observed, name); run != nil && p.sandbox != nil && run.SandboxID == p.sandbox.ID {
		return run
	}
	return nil
}

func (p *planner) started(c *corev1.Container, run *cri.Container) bool {
	return c.StartupProbe == nil || p.memory.Probes[run.ID].Started
}

// collect plans the removal of old runs (two of a name stay: the present one
// and the one before, for its log) and of replaced sandboxes without runs.
func (p *planner) collect() {
	seen := map[string]int{}
	used := map[string]bool{}
	for i := range p.observed.Containers {
		run := &p.observed.Containers[i]
		seen[run.Name]++
		if seen[run.Name] > 2 && run.State != cri.Running {
			p.plan.Remove = append(p.plan.Remove, run.ID)
			continue
		}
		used[run.SandboxID] = true
	}
	for _, s := range p.observed.Sandboxes[1:] {
		if !used[s.ID] {
			p.plan.RemoveSandboxes = append(p.plan.RemoveSandboxes, s.ID)
		}
	}
}

func (p *planner) wake(at time.Time) {
	if p.plan.Wake.IsZero() || at.Before(p.plan.Wake) {
		p.plan.Wake = at
	}
}
