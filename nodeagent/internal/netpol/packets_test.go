package netpol

import (
	"bytes"
	"context"
	"errors"
	"net"
	"strings"
	"testing"
	"time"

	"go.opentelemetry.io/otel/attribute"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"golang.org/x/sys/unix"

	"howdah.dev/nodeagent/internal/route/netnstest"
)

// A datagram in fragments follows its first one, in both directions and families; those of a datagram that is not let pass are dropped.
func TestFragments(t *testing.T) {
	n := newNode(t)
	web, client, stranger := webAndClients(n)
	web.Echo(t, "udp", ":80", "web")
	big := `{metadata: {name: big}, spec: {podSelector: {matchLabels: {app: web}}, policyTypes: [Ingress, Egress], ingress: [{from: [{podSelector: {matchLabels: {app: client}}}], ports: [{port: 80, protocol: UDP}]}]}}`
	n.start(namespaceObject("default", nil), policyObject(t, big))
	send := func(from *netnstest.Namespace, address string, wait time.Duration) error {
		c, err := from.Dial("udp", address, wait)
		if err != nil {
			return err
		}
		defer c.Close()
		c.SetDeadline(time.Now().Add(wait))
		word := bytes.Repeat([]byte("x"), 5000)
		if _, err := c.Write(word); err != nil {
			return err
		}
		buf := make([]byte, 8000)
		read, err := c.Read(buf)
		if err == nil && string(buf[:read]) != "web "+string(word) {
			return errors.New("another answer")
		}
		return err
	}
	for _, address := range []string{"10.77.0.2:80", "[fd00:77::2]:80"} {
		if err := send(client.Namespace, address, 20*time.Second); err != nil {
			t.Errorf("fragments from who is let in to %s: %v", address, err)
		}
		var timeout net.Error
		if err := send(stranger.Namespace, address, patience); !errors.As(err, &timeout) || !timeout.Timeout() {
			t.Errorf("fragments from who is not let in to %s: %v", address, err)
		}
	}
}

// ping sends one echo request and waits for the answer.
func ping(ns *netnstest.Namespace, address string, wait time.Duration) error {
	return ns.Try(func() error {
		family, protocol, request, answer := unix.AF_INET, unix.IPPROTO_ICMP, byte(8), byte(0)
		var to unix.Sockaddr
		ip := net.ParseIP(address)
		if v4 := ip.To4(); v4 != nil {
			to = &unix.SockaddrInet4{Addr: [4]byte(v4)}
		} else {
			family, protocol, request, answer = unix.AF_INET6, unix.IPPROTO_ICMPV6, 128, 129
			to = &unix.SockaddrInet6{Addr: [16]byte(ip)}
		}
		fd, err := unix.Socket(family, unix.SOCK_RAW, protocol)
		if err != nil {
			return err
		}
		defer unix.Close(fd)
		tv := unix.NsecToTimeval(int64(wait))
		if err := unix.SetsockoptTimeval(fd, unix.SOL_SOCKET, unix.SO_RCVTIMEO, &tv); err != nil {
			return err
		}
		packet := []byte{request, 0, 0, 0, 0x12, 0x34, 0, 1}
		if family == unix.AF_INET { // the kernel sums up ICMPv6
			sum := uint32(0x0800) + 0x1234 + 1
			sum = ^(sum>>16 + sum&0xffff)
			packet[2], packet[3] = byte(sum>>8), byte(sum)
		}
		if err := unix.Sendto(fd, packet, 0, to); err != nil {
			return err
		}
		buf := make([]byte, 256)
		for deadline := time.Now().Add(wait); time.Now().Before(deadline); {
			n, _, err := unix.Recvfrom(fd, buf, 0)
			if err != nil {
				return err
			}
			got := buf[:n]
			if family == unix.AF_INET && n > 20 {
				got = got[20:]
			}
			if len(got) > 5 && got[0] == answer && got[4] == 0x12 && got[5] == 0x34 {
				return nil
			}
		}
		return unix.EAGAIN
	})
}

// Echoes are allowed by rules without ports alone, and answered; errors always pass.
func TestEchoesAndErrors(t *testing.T) {
	n := newNode(t)
	web, client, stranger := webAndClients(n)
	client.Echo(t, "tcp", ":80", "client")
	n.start(namespaceObject("default", nil), policyObject(t, letIn))
	both := func(from *machine, last string, want bool, why string) {
		t.Helper()
		for _, address := range []string{"10.77.0." + last, "fd00:77::" + last} {
			wait := patience
			if want {
				wait = 5 * time.Second
			}
			if err := ping(from.Namespace, address, wait); (err == nil) != want || err != nil && !errors.Is(err, unix.EAGAIN) {
				t.Errorf("%s: echo of %s: %v, want an answer: %v", why, address, err, want)
			}
		}
	}
	both(client, "2", false, "a rule with ports")
	both(web, "3", true, "an isolated pod's own echo")
	n.apply(policyObject(t, strings.Replace(letIn, ", ports: [{port: 80}]", "", 1)))
	both(client, "2", true, "a rule without ports")
	both(stranger, "2", false, "a stranger")
	// Nobody listens at that port: the ICMP error reaches the pod although it lets nobody in.
	if _, err := web.Ask("udp", outsideAddress+":9", 20*time.Second); !errors.Is(err, unix.ECONNREFUSED) {
		t.Errorf("an ICMP error for an isolated pod: %v", err)
	}
}

// A policy's change is enforced in its own trace.
func TestSpan(t *testing.T) {
	n := newNode(t)
	recorder := tracetest.NewSpanRecorder()
	tracer := sdktrace.NewTracerProvider(sdktrace.WithSpanProcessor(recorder)).Tracer("t")
	n.config = func(c *Config) { c.Tracer = tracer }
	webAndClients(n)
	n.start(namespaceObject("default", nil))
	ctx, cause := tracer.Start(context.Background(), "kubectl apply")
	n.e.Update(ctx, policyObject(t, letIn))
	n.settled()
	cause.End()
	var found bool
	for _, s := range recorder.Ended() {
		if s.Name() != "netpol.update" {
			continue
		}
		found = true
		attributes := attribute.NewSet(s.Attributes()...)
		if name, _ := attributes.Value("k8s.name"); name.AsString() != "let-in" || s.Parent().SpanID() != cause.SpanContext().SpanID() {
			t.Errorf("span of %v, a child of %v", s.Attributes(), s.Parent().SpanID())
		}
	}
	if !found {
		t.Error("no span")
	}
}
