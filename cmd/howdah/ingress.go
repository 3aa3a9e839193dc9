package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"strconv"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/utils/clock"

	"howdah.dev/kit/object"
	"howdah.dev/kit/task"
	"howdah.dev/nodeagent"
	"howdah.dev/services/ingress"
)

// ingressFlags are the settings of an ingress controller.
type ingressFlags struct {
	api, http, https                string
	controller, gatewayController   string
	published                       []string
	publishService                  string
	trusted, podRanges, otherRanges []string
	redirectPort, connections       int
	header, answer, idle, drain     time.Duration
}

func (i *ingressFlags) flags(cmd *cobra.Command) {
	f := cmd.Flags()
	f.StringVar(&i.api, "apiserver", "dns:///apiserver:7443", "gRPC target of the apiservers")
	f.StringVar(&i.http, "http-listen", ":80", "address that takes plain HTTP")
	f.StringVar(&i.https, "https-listen", ":443", "address that takes HTTPS")
	f.StringVar(&i.controller, "ingress-controller", ingress.Controller, "spec.controller of the IngressClasses whose Ingresses are served")
	f.StringVar(&i.gatewayController, "gateway-controller", ingress.GatewayController, "spec.controllerName of the GatewayClasses whose Gateways are served")
	f.StringSliceVar(&i.published, "publish-address", nil, "addresses or names at which clients reach the proxy, for the status of Ingresses and Gateways")
	f.StringVar(&i.publishService, "publish-service", "", "NAMESPACE/NAME of the Service in front of the proxy, whose addresses are for the status of Ingresses and Gateways")
	f.StringSliceVar(&i.trusted, "trusted-proxies", nil, "ranges of addresses of proxies in front, whose X-Forwarded-* headers are believed")
	f.StringSliceVar(&i.podRanges, "cluster-cidr", nil, "addresses of pods: routes to them are kept on this machine, which needs CAP_NET_ADMIN; empty keeps none, for machines that have them")
	f.StringSliceVar(&i.otherRanges, "service-cidr", nil, "addresses of Services: with --cluster-cidr, they are made unreachable instead of going elsewhere")
	f.IntVar(&i.redirectPort, "redirect-port", 0, "port of HTTPS for clients that named a port, where ports are published as others; 0 is the usual one")
	f.IntVar(&i.connections, "max-connections", 8192, "clients' connections at a time; further ones wait")
	f.DurationVar(&i.header, "header-timeout", 10*time.Second, "how long a client may take for a request's header")
	f.DurationVar(&i.answer, "answer-timeout", time.Minute, "how long an endpoint may take to begin its answer")
	f.DurationVar(&i.idle, "idle-timeout", 5*time.Minute, "how long nothing may pass on a connection in use, upgraded ones too")
	f.DurationVar(&i.drain, "drain-period", 8*time.Second, "how long requests have to end when the proxy stops")
}

// validate reports all problems at once.
func (i *ingressFlags) validate() error {
	var errs []error
	if i.connections < 1 {
		errs = append(errs, fmt.Errorf("--max-connections: %d is not positive", i.connections))
	}
	if i.redirectPort < 0 || i.redirectPort > 65535 {
		errs = append(errs, fmt.Errorf("--redirect-port: %d is no port", i.redirectPort))
	}
	for name, d := range map[string]time.Duration{"header-timeout": i.header, "answer-timeout": i.answer, "idle-timeout": i.idle, "drain-period": i.drain} {
		if d <= 0 {
			errs = append(errs, fmt.Errorf("--%s: %v is not positive", name, d))
		}
	}
	if len(i.otherRanges) > 0 && len(i.podRanges) == 0 {
		errs = append(errs, errors.New("--service-cidr is for --cluster-cidr, which is empty"))
	}
	return errors.Join(errs...)
}

func ingressCommand() *cobra.Command {
	r := &role{name: "ingress"}
	var flags ingressFlags
	cmd := r.command("Route requests from outside as Ingresses and Gateways say", func(ctx context.Context) error { return r.ingress(ctx, flags) })
	r.flags(cmd)
	flags.flags(cmd)
	return cmd
}

func (r *role) ingress(ctx context.Context, flags ingressFlags) error {
	trusted, err1 := prefixes("--trusted-proxies", flags.trusted)
	pods, err2 := prefixes("--cluster-cidr", flags.podRanges)
	services, err3 := prefixes("--service-cidr", flags.otherRanges)
	if err := errors.Join(flags.validate(), err1, err2, err3); err != nil {
		return err
	}
	holder, err := os.Hostname()
	if err != nil {
		return err
	}
	conn, err := r.dialAPI(flags.api)
	if err != nil {
		return err
	}
	defer conn.Close()
	plain, err := listenFor("--http-listen", flags.http)
	if err != nil {
		return err
	}
	defer plain.Close()
	secure, err := listenFor("--https-listen", flags.https)
	if err != nil {
		return err
	}
	defer secure.Close()
	client := object.NewClient(conn, ingress.Manager)
	var parts []task.Func
	var reachable func(context.Context) bool
	if len(pods) > 0 {
		routes := nodeagent.NewRoutes(client, pods, services)
		parts, reachable = append(parts, routes.Run), routes.Ready
	}
	s, err := ingress.New(ingress.Config{
		Objects: client, Holder: holder, HTTP: plain, HTTPS: secure, Controller: flags.controller, GatewayController: flags.gatewayController, Listen: beside(flags.http),
		PublishAddresses: flags.published, PublishService: flags.publishService, TrustedProxies: trusted, RedirectPort: flags.redirectPort,
		MaxConnections: flags.connections, HeaderTimeout: flags.header, AnswerTimeout: flags.answer, IdleTimeout: flags.idle, DrainPeriod: flags.drain,
		Reachable: reachable, Clock: clock.RealClock{}, Registerer: r.registry,
	})
	if err != nil {
		return err
	}
	return task.Run(ctx, append(parts, func(ctx context.Context) error { return r.serve(ctx, s, s.Ready) })...)
}

// beside returns what opens other ports at the addresses of that which takes plain HTTP.
func beside(address string) func(port int32) (net.Listener, error) {
	return func(port int32) (net.Listener, error) {
		host, _, err := net.SplitHostPort(address)
		if err != nil {
			return nil, err
		}
		return net.Listen("tcp", net.JoinHostPort(host, strconv.Itoa(int(port))))
	}
}

// listenFor listens for clients; what fails is told with the flag to change.
func listenFor(flag, address string) (net.Listener, error) {
	l, err := net.Listen("tcp", address)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", flag, err)
	}
	return l, nil
}
