// Package container translates pods into the runtime's terms: sandbox and
// container configurations, environment, resources, security, DNS and hosts.
package container

import (
	"context"
	"encoding/json"
	"fmt"
	"path"
	"path/filepath"
	"strconv"

	corev1 "k8s.io/api/core/v1"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"howdah.dev/nodeagent/internal/cri"
)

// Node is what the translation needs to know of the node.
type Node struct {
	Name                  string
	RootDir, LogDir       string
	KubeletDir            string // in which profiles lie where a kubelet looks for them
	ClusterDNS            []string
	ClusterDomain         string
	HostDNS               DNS // of the node's resolv.conf
	HostsFile             string
	Capacity, Allocatable corev1.ResourceList
	Handlers              []corev1.NodeRuntimeHandler // the runtime's ways to run pods
	PageLimits            bool                        // control groups can limit huge pages
	Swap                  Swap
	SeccompDefault        bool // containers that name no profile have the runtime's
	NoCPUQuota            bool // limits of CPUs are not enforced
}

// Builder translates one pod.
type Builder struct {
	Pod     *corev1.Pod
	Status  *corev1.PodStatus // addresses of the pod and the node
	Node    Node
	Objects Objects
	// Handler is the runtime's way to run the pod, "" for its default.
	Handler string
	// Users are the pod's own.
	Users Users
	// CgroupParent is the pod's own control group.
	CgroupParent string
}

// PodDir is where the agent keeps a pod's files.
func PodDir(root string, pod *corev1.Pod) string {
	return filepath.Join(root, "pods", string(pod.UID))
}

// LogFile is the name of a run's log in the folder of its container.
func LogFile(attempt int32) string { return strconv.Itoa(int(attempt)) + ".log" }

// LogDirectory is where the runtime writes a pod's logs.
func LogDirectory(root, namespace, name, uid string) string {
	return filepath.Join(root, namespace+"_"+name+"_"+uid)
}

func (b *Builder) logDirectory() string {
	return LogDirectory(b.Node.LogDir, b.Pod.Namespace, b.Pod.Name, string(b.Pod.UID))
}

// Sandbox returns the configuration of the pod's sandbox.
func (b *Builder) Sandbox(attempt uint32) (*runtimeapi.PodSandboxConfig, error) {
	dns, err := b.dns()
	if err != nil {
		return nil, err
	}
	config := &runtimeapi.PodSandboxConfig{
		Metadata: &runtimeapi.PodSandboxMetadata{
			Name: b.Pod.Name, Namespace: b.Pod.Namespace, Uid: string(b.Pod.UID), Attempt: attempt,
		},
		LogDirectory: b.logDirectory(),
		DnsConfig:    dns,
		Labels:       cri.PodLabels(b.Pod),
		Annotations:  sandboxAnnotations(b.Pod),
		Linux: &runtimeapi.LinuxPodSandboxConfig{
			CgroupParent:    b.CgroupParent,
			SecurityContext: b.sandboxSecurity(),
			Sysctls:         b.sysctls(),
		},
	}
	for k, v := range b.Pod.Labels {
		if _, own := config.Labels[k]; !own {
			config.Labels[k] = v
		}
	}
	if !b.Pod.Spec.HostNetwork { // the node's name is not the pod's to set
		if config.Hostname = b.Hostname(); len(config.Hostname) > maxHostname {
			return nil, fmt.Errorf("failed to construct FQDN from pod hostname and cluster domain, FQDN %s is too long (%d characters is the max, %d characters requested)",
				config.Hostname, maxHostname, len(config.Hostname))
		}
	}
	for i := range b.Pod.Spec.Containers {
		for _, p := range b.Pod.Spec.Containers[i].Ports {
			config.PortMappings = append(config.PortMappings, &runtimeapi.PortMapping{
				Protocol: protocol(p.Protocol), ContainerPort: p.ContainerPort, HostPort: p.HostPort, HostIp: p.HostIP,
			})
		}
	}
	return config, nil
}

func protocol(p corev1.Protocol) runtimeapi.Protocol {
	switch p {
	case corev1.ProtocolUDP:
		return runtimeapi.Protocol_UDP
	case corev1.ProtocolSCTP:
		return runtimeapi.Protocol_SCTP
	}
	return runtimeapi.Protocol_TCP
}

func (b *Builder) sysctls() map[string]string {
	if b.Pod.Spec.SecurityContext == nil || len(b.Pod.Spec.SecurityContext.Sysctls) == 0 {
		return nil
	}
	out := map[string]string{}
	for _, s := range b.Pod.Spec.SecurityContext.Sysctls {
		out[s.Name] = s.Value
	}
	return out
}

// Run describes one run of a container beside its specification.
type Run struct {
	Container *corev1.Container
	Attempt   int32
	Life      int32  // of the pod's
	ImageRef  string // the image's ID in the runtime
	ImageUser ImageUser
	// Target is the ID of the container whose processes it sees, "" for none but its own.
	Target string
	// Volumes are the pod's that are on the node.
	Volumes Volumes
	// Images are those of its image volumes, by the volume's name.
	Images map[string]VolumeImage
	// SubPath makes and returns the path below a volume.
	SubPath func(volume, sub string) (string, error)
	// Own is what it has of the node for itself.
	Own Own
}

// Volumes say where a pod's volumes are on the node, by their names.
type Volumes struct {
	Mounts  map[string]string // the folder or file that containers mount
	Devices map[string]string // the block device, or a link to it
}

// VolumeImage is an image that is there to be mounted.
type VolumeImage struct {
	ID        string // by which the runtime knows it
	Reference string // as the volume names it
}

// MessageFile is where a run's termination message lands on the node.
func (b *Builder) MessageFile(name string, attempt int32) string {
	return filepath.Join(PodDir(b.Node.RootDir, b.Pod), "containers", name, strconv.Itoa(int(attempt))+".message")
}

// Container returns the configuration of one run of a container.
func (b *Builder) Container(ctx context.Context, run Run) (*runtimeapi.ContainerConfig, error) {
	c := run.Container
	envs, err := b.environment(ctx, run)
	if err != nil {
		return nil, err
	}
	look := func(name string) (string, bool) {
		for _, e := range envs {
			if e.GetKey() == name {
				return string(e.GetValue()), true
			}
		}
		return "", false
	}
	security, err := b.security(c, run.ImageUser, run.Target)
	if err != nil {
		return nil, err
	}
	mounts, err := b.mounts(run, look)
	if err != nil {
		return nil, err
	}
	devices, err := b.devices(run)
	if err != nil {
		return nil, err
	}
	config := &runtimeapi.ContainerConfig{
		Metadata:    &runtimeapi.ContainerMetadata{Name: c.Name, Attempt: uint32(run.Attempt)},
		Image:       &runtimeapi.ImageSpec{Image: run.ImageRef, UserSpecifiedImage: c.Image},
		WorkingDir:  c.WorkingDir,
		Envs:        envs,
		Mounts:      mounts,
		Devices:     devices,
		Labels:      cri.PodLabels(b.Pod),
		Annotations: b.annotations(run),
		LogPath:     path.Join(c.Name, LogFile(run.Attempt)),
		Stdin:       c.Stdin, StdinOnce: c.StdinOnce, Tty: c.TTY,
		Linux: &runtimeapi.LinuxContainerConfig{
			Resources:       Resources(b.Pod, c, b.Node),
			SecurityContext: security,
		},
	}
	run.Own.add(config)
	config.Labels[cri.LabelContainer] = c.Name
	for _, word := range c.Command {
		config.Command = append(config.Command, Expand(word, look))
	}
	for _, word := range c.Args {
		config.Args = append(config.Args, Expand(word, look))
	}
	if c.Lifecycle != nil && c.Lifecycle.StopSignal != nil {
		signal, ok := cri.Signal(*c.Lifecycle.StopSignal)
		if !ok {
			return nil, fmt.Errorf("unknown stop signal %s", *c.Lifecycle.StopSignal)
		}
		config.StopSignal = signal
	}
	return config, nil
}

// annotations record what an agent that knows nothing else needs to end the
// run well and to report on it.
func (b *Builder) annotations(run Run) map[string]string {
	c := run.Container
	a := map[string]string{
		cri.AnnotationHash:          cri.Hash(c),
		cri.AnnotationRestartCount:  strconv.Itoa(int(run.Attempt)),
		cri.AnnotationMessagePath:   c.TerminationMessagePath,
		cri.AnnotationMessagePolicy: string(c.TerminationMessagePolicy),
		cri.AnnotationMessageFile:   b.MessageFile(c.Name, run.Attempt),
	}
	if run.Life > 0 {
		a[cri.AnnotationLife] = strconv.Itoa(int(run.Life))
	}
	if grace := b.Pod.Spec.TerminationGracePeriodSeconds; grace != nil {
		a[cri.AnnotationGracePeriod] = strconv.FormatInt(*grace, 10)
	}
	if c.Lifecycle != nil && c.Lifecycle.PreStop != nil {
		if raw, err := json.Marshal(c.Lifecycle.PreStop); err == nil {
			a[cri.AnnotationPreStop] = string(raw)
		}
	}
	return a
}
