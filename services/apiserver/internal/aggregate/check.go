package aggregate

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/url"
	"strings"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	apiregistrationv1 "k8s.io/kube-aggregator/pkg/apis/apiregistration/v1"

	apiv1 "howdah.dev/proto/gen/howdah/api/v1"
	"howdah.dev/services/apiserver/internal/itself"
)

const (
	checkTimeout = 5 * time.Second
	// maxAnswer bounds what is read of an extension API server's documents, in bytes.
	maxAnswer = 8 << 20
	// again is how soon one that does not answer is asked again, the first time; then it takes twice as long, up to longest.
	again = time.Second
	// parallel bounds the checks that run at one time.
	parallel = 8
)

// checkAll checks what is due, and returns how long it will be until something is.
func (a *Aggregator) checkAll(ctx context.Context) time.Duration {
	now := a.cfg.Clock.Now()
	present := map[string]bool{}
	slots := make(chan struct{}, parallel)
	var running sync.WaitGroup
	for _, s := range a.remotes() {
		present[s.Name] = true
		if !a.due(s, now) {
			continue
		}
		slots <- struct{}{}
		running.Add(1)
		go func() {
			defer func() { <-slots; running.Done() }()
			a.check(ctx, s)
		}()
	}
	running.Wait()
	return a.tidy(present)
}

// due reports whether a check is due; one that has changed, or what is behind it, is so at once.
func (a *Aggregator) due(s *apiregistrationv1.APIService, now time.Time) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	k := a.known[s.Name]
	return k == nil || k.checkedVersion != specOf(s) || k.checkedBacking != a.backing.of(s) || !now.Before(k.due)
}

// specOf identifies what is checked: the object and its spec, not its status.
func specOf(s *apiregistrationv1.APIService) string {
	return fmt.Sprintf("%s %x", s.UID, sha256.Sum256(encode(s.Spec)))
}

// tidy forgets what is not there any more, and returns the time until the next check.
func (a *Aggregator) tidy(present map[string]bool) time.Duration {
	a.mu.Lock()
	defer a.mu.Unlock()
	next := longest
	for name, k := range a.known {
		if !present[name] {
			delete(a.known, name)
			a.drop(name)
			a.metrics.forget(name)
			a.generation.Add(1)
			continue
		}
		next = min(next, max(k.due.Sub(a.cfg.Clock.Now()), 0))
	}
	return next
}

func (a *Aggregator) check(ctx context.Context, s *apiregistrationv1.APIService) {
	behind := a.backing.of(s) // what changes from now on makes another check due
	a.mu.Lock()
	old := a.known[s.Name]
	a.mu.Unlock()
	resources, reason, err := a.ask(ctx, s)
	k := &knowledge{available: err == nil, reason: "Passed", message: "all checks passed", resources: resources, stale: resources == nil, checkedVersion: specOf(s), checkedBacking: behind}
	if old != nil {
		k.v2, k.v3, k.group = old.v2, old.v3, old.group // what was told before is better than nothing
		if old.checkedVersion != k.checkedVersion {
			k.v2.etag, k.v3.etag, k.group.etag = "", "", "" // another server may name something else the same
		}
	}
	if err != nil {
		k.reason, k.message = reason, err.Error()
	} else {
		group, version := s.Spec.Group, s.Spec.Version
		k.v2 = a.fetch(ctx, s, openapiV2, k.v2, own(group, version))
		if k.v3 = a.fetch(ctx, s, openapiV3+"/apis/"+group+"/"+version, k.v3, valid); k.v3.body == nil {
			k.v3 = converted(k.v2)
		}
		k.group = a.fetch(ctx, s, openapiV3+"/apis/"+group, k.group, valid)
	}
	if ctx.Err() != nil {
		return
	}
	a.mu.Lock()
	if old != nil && err != nil {
		k.failures = old.failures + 1
	}
	if old != nil && k.stale {
		k.resources = old.resources
	}
	wait := longest
	if err != nil && k.failures < 5 {
		wait = min(again<<k.failures, longest)
	}
	k.due = a.cfg.Clock.Now().Add(wait)
	a.known[s.Name] = k
	if old == nil || old.available != k.available || old.stale != k.stale || !k.sameOpenAPI(old) || string(encode(old.resources)) != string(encode(k.resources)) {
		a.generation.Add(1)
	}
	a.mu.Unlock()
	a.metrics.checked(s.Name, k.available, k.reason)
	a.tell(ctx, s, k)
}

// sameOpenAPI reports whether both have been told the same documents.
func (k *knowledge) sameOpenAPI(other *knowledge) bool {
	return k.v2.hash == other.v2.hash && k.v3.hash == other.v3.hash && k.group.hash == other.group.hash
}

// tell writes the condition where it has changed.
func (a *Aggregator) tell(ctx context.Context, s *apiregistrationv1.APIService, k *knowledge) {
	status := apiregistrationv1.ConditionFalse
	if k.available {
		status = apiregistrationv1.ConditionTrue
	}
	conditions, changed := setCondition(s.Status.Conditions, apiregistrationv1.APIServiceCondition{
		Type: apiregistrationv1.Available, Status: status, Reason: k.reason, Message: k.message,
		LastTransitionTime: metav1.NewTime(a.cfg.Clock.Now().Truncate(time.Second)),
	})
	if !changed {
		return
	}
	body := encode(map[string]any{"metadata": map[string]any{"uid": s.UID}, "status": map[string]any{"conditions": conditions}})
	_, err := a.cfg.API.Patch(ctx, &apiv1.PatchRequest{
		Group: apiregistrationv1.GroupName, Version: "v1", Resource: "apiservices", Name: s.Name, Subresource: "status",
		ContentType: "application/merge-patch+json", Object: body, FieldManager: itself.Name,
	})
	if err != nil && !apierrors.IsConflict(err) && !apierrors.IsNotFound(err) && ctx.Err() == nil {
		slog.WarnContext(ctx, "write the condition of an APIService", "name", s.Name, "err", err)
	}
}

// ask asks for the group version's document of discovery; the reason is that of Kubernetes' condition. A server is available where it answers that with
// anything, and need not tell its resources there: the aggregated document has them, too. nil: it does not tell them.
func (a *Aggregator) ask(ctx context.Context, s *apiregistrationv1.APIService) (resources *metav1.APIResourceList, reason string, err error) {
	if reason, err := a.reachable(ctx, s); err != nil {
		return nil, reason, err
	}
	got, err := a.get(ctx, s, discoveryPath(s), "", "")
	if err != nil {
		reason, err = "FailedDiscoveryCheck", a.missing(s, err)
	} else if list := (&metav1.APIResourceList{}); json.Unmarshal(got.body, list) == nil && list.Kind == "APIResourceList" {
		return list, "", nil
	}
	if document, failed := a.get(ctx, s, "/apis", aggregated, ""); failed == nil {
		resources = resourcesOf(document.body, s.Spec.Group, s.Spec.Version)
	}
	return resources, reason, err
}

// discoveryPath is that of the document that shows that the server answers.
func discoveryPath(s *apiregistrationv1.APIService) string {
	return "/apis/" + s.Spec.Group + "/" + s.Spec.Version
}

func (a *Aggregator) url(s *apiregistrationv1.APIService, path string) string {
	return "https://" + a.backing.host(s) + path
}

// missing is why there is no such document, in Kubernetes' words.
func (a *Aggregator) missing(s *apiregistrationv1.APIService, err error) error {
	return fmt.Errorf("failing or missing response from %s: %w", a.url(s, discoveryPath(s)), err)
}

// reachable tells the usual reasons why there is nothing to ask.
func (a *Aggregator) reachable(ctx context.Context, s *apiregistrationv1.APIService) (string, error) {
	service := s.Spec.Service
	ctx, cancel := context.WithTimeout(ctx, checkTimeout)
	defer cancel()
	conn, err := a.cfg.Network.Service(ctx, service.Namespace, service.Name, port(s))
	if err == nil {
		_ = conn.Close()
		return "", nil
	}
	switch text := err.Error(); {
	case strings.HasPrefix(text, "service ") && strings.HasSuffix(text, "not found"):
		return "ServiceNotFound", fmt.Errorf("service/%s in %q is not present", service.Name, service.Namespace)
	case strings.HasPrefix(text, "no service port"):
		return "ServicePortError", fmt.Errorf("service/%s in %q is not listening on port %d", service.Name, service.Namespace, port(s))
	case strings.HasPrefix(text, "no endpoints available"):
		name, found := a.backing.endpoints(service.Namespace, service.Name, port(s))
		if !found {
			return "EndpointsNotFound", fmt.Errorf("cannot find endpointslices for service/%s in %q", service.Name, service.Namespace)
		}
		return "MissingEndpoints", fmt.Errorf("endpointslices for service/%s in %q have no addresses with port name %q", service.Name, service.Namespace, name)
	}
	return "FailedDiscoveryCheck", a.missing(s, &url.Error{Op: "Get", URL: a.url(s, discoveryPath(s)), Err: err})
}
