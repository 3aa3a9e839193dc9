package dra

import (
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	drahealth "k8s.io/kubelet/pkg/apis/dra-health/v1alpha1"
	drav1 "k8s.io/kubelet/pkg/apis/dra/v1"

	"howdah.dev/nodeagent/internal/dra/dratest"
)

// text is a status in short.
func text(list []corev1.ResourceStatus) string {
	var out []string
	for _, s := range list {
		for _, r := range s.Resources {
			line := string(s.Name) + " " + string(r.ResourceID) + " " + string(r.Health)
			if r.Message != nil {
				line += " (" + *r.Message + ")"
			}
			out = append(out, line)
		}
	}
	return strings.Join(out, ", ")
}

func told(name string, health drahealth.HealthStatus, message string) *drahealth.DeviceHealth {
	return &drahealth.DeviceHealth{Device: &drahealth.DeviceIdentifier{PoolName: "n", DeviceName: name}, Health: health, Message: message}
}

// Pods hear of how their devices are, and of a driver that tells no more.
func TestHealth(t *testing.T) {
	t.Parallel()
	n := newNode(t)
	woken := make(chan []types.UID, 16)
	n.m.cfg.Changed = func(pods []types.UID) { woken <- pods }
	d := n.drive(&dratest.Driver{Name: "gpu.example.com", Tells: true, Devices: map[string][]*drav1.Device{
		"x": {device("a", []string{"one"}, "example.com/gpu=a", "example.com/gpu=a-too"), device("b", []string{"two"})},
	}})
	n.claim("x", []string{d.Name}, "p")
	p := podWith("p", "x")
	p.Spec.Containers[0].Resources.Claims = append(p.Spec.Containers[0].Resources.Claims, corev1.ResourceClaim{Name: "x", Request: "two"})
	c := &p.Spec.Containers[0]
	if got := n.m.Health(p, c); got != nil {
		t.Errorf("of what is not prepared is told %s", text(got))
	}
	n.prepare(p)
	d.Report(told("a", drahealth.HealthStatus_HEALTHY, ""), told("b", drahealth.HealthStatus_UNHEALTHY, "too hot"), told("other", drahealth.HealthStatus_HEALTHY, ""))
	want := "claim:x example.com/gpu=a Healthy, claim:x gpu.example.com/n/b Unhealthy (too hot), claim:x/two gpu.example.com/n/b Unhealthy (too hot)"
	eventually(t, "told: "+want, func() bool { return text(n.m.Health(p, c)) == want })
	if pods := <-woken; len(pods) != 1 || pods[0] != p.UID {
		t.Errorf("%v heard of it", pods)
	}
	d.Stop()
	want = "claim:x example.com/gpu=a Unknown, claim:x gpu.example.com/n/b Unknown, claim:x/two gpu.example.com/n/b Unknown"
	if pods := <-woken; len(pods) != 1 || pods[0] != p.UID {
		t.Errorf("%v heard that nobody tells", pods)
	}
	if got := n.m.Health(p, c); got != nil { // it may come back: its silence is no news yet
		t.Errorf("soon after the start it is told %s", text(got))
	}
	n.m.began = n.m.began.Add(-healthTimeout)
	if got := text(n.m.Health(p, c)); got != want {
		t.Errorf("it is told %s", got)
	}
}

func TestHealthCountsForAWhile(t *testing.T) {
	t.Parallel()
	h, now, at := healths{byDriver: map[string]map[place]condition{}}, time.Unix(1e9, 0), place{"n", "a"}
	own := told("a", drahealth.HealthStatus_HEALTHY, strings.Repeat("x", 2000))
	own.HealthCheckTimeoutSeconds = 60
	c := conditionOf(own, now)
	if len(c.message) != corev1.ResourceHealthMessageMaxLength || c.timeout != time.Minute {
		t.Errorf("%d characters, %v", len(c.message), c.timeout)
	}
	if news := h.set("d", map[place]condition{at: c}); !news[at] {
		t.Error("the first report is no news")
	}
	if news := h.set("d", map[place]condition{at: conditionOf(own, now.Add(time.Second))}); len(news) > 0 {
		t.Error("the same again is news")
	}
	for after, want := range map[time.Duration]corev1.ResourceHealthStatus{time.Minute: "Healthy", 2 * time.Minute: "Unknown"} {
		if is, told := h.of("d", at, now.Add(after)); is.health != want || !told {
			t.Errorf("after %v it is %s", after, is.health)
		}
	}
	if is, told := h.of("nobody", at, now); is.health != "Unknown" || told {
		t.Errorf("of an unknown driver: %s", is.health)
	}
}
