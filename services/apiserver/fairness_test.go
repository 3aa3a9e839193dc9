package apiserver

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"howdah.dev/kit/apistatus"
	"howdah.dev/kit/rpc"
	apiv1 "howdah.dev/proto/gen/howdah/api/v1"
	"howdah.dev/services/apiserver/internal/memstore"
	"howdah.dev/services/apiserver/internal/objects"
	"howdah.dev/services/apiserver/internal/store"
)

// slow is a store on a disk that takes its time.
type slow struct{ memory }

func (s slow) Write(ctx context.Context, w store.Write) store.Result {
	if strings.HasPrefix(w.Key, "/core/configmaps/default/flood") {
		time.Sleep(5 * time.Millisecond)
	}
	return s.memory.Write(ctx, w)
}

// TestOverload floods the server as one user: another's requests are served, every one of them, and so are an administrator's.
func TestOverload(t *testing.T) {
	t.Parallel()
	f := start(t, slow{memory{memstore.New()}}, func(c *Config) {
		c.MaxReads, c.MaxWrites, c.AuthorizationModes = 10, 10, []string{"AlwaysAllow"}
	})
	flood, stop := context.WithCancel(t.Context())
	defer stop()
	flooder := apiv1.NewObjectServiceClient(f.dial(rpc.User{Name: "flooder"}))
	var refused, served atomic.Int64
	var running sync.WaitGroup
	for n := range 600 {
		running.Go(func() {
			for i := 0; flood.Err() == nil; i++ {
				_, err := flooder.Create(flood, &apiv1.CreateRequest{Version: "v1", Resource: "configmaps", Namespace: "default",
					Object: fmt.Appendf(nil, `{"metadata":{"name":"flood-%d-%d"}}`, n, i)})
				switch {
				case err == nil:
					served.Add(1)
				case apistatus.Of(apistatus.FromGRPC(err)).Code == 429:
					refused.Add(1)
					select { // as Retry-After says, about
					case <-flood.Done():
					case <-time.After(50 * time.Millisecond):
					}
				}
			}
		})
	}
	defer running.Wait()
	defer stop()
	for deadline := time.Now().Add(time.Minute); refused.Load() < 100 || served.Load() < 20; {
		if time.Now().After(deadline) {
			t.Fatalf("no flood: %d refused, %d served", refused.Load(), served.Load())
		}
		time.Sleep(time.Millisecond)
	}
	for _, user := range []rpc.User{{Name: "jane"}, {Name: "admin", Groups: []string{"system:masters"}}} {
		client := apiv1.NewObjectServiceClient(f.dial(user))
		for n := range 20 {
			name := fmt.Sprintf("%s-%d", user.Name, n)
			if _, err := client.Create(t.Context(), &apiv1.CreateRequest{Version: "v1", Resource: "configmaps", Namespace: "default",
				Object: fmt.Appendf(nil, `{"metadata":{"name":%q}}`, name)}); err != nil {
				t.Fatalf("create %s while another floods: %v", name, apistatus.FromGRPC(err))
			}
			if _, err := client.Get(t.Context(), &apiv1.GetRequest{Version: "v1", Resource: "configmaps", Namespace: "default", Name: name}); err != nil {
				t.Fatalf("get %s while another floods: %v", name, apistatus.FromGRPC(err))
			}
		}
	}
	before := refused.Load()
	for deadline := time.Now().Add(time.Minute); refused.Load() == before; {
		if time.Now().After(deadline) {
			t.Fatal("the flood had ended before the others came")
		}
		time.Sleep(time.Millisecond)
	}
}

// TestClassification tells the caller how its request was classified, and follows a schema that is changed.
func TestClassification(t *testing.T) {
	t.Parallel()
	f := startMemory(t, func(c *Config) { c.AuthorizationModes = []string{"AlwaysAllow"} })
	jane := apiv1.NewObjectServiceClient(f.dial(rpc.User{Name: "jane"}))
	classified := func(ctx context.Context) (schema, level string) {
		t.Helper()
		var header metadata.MD
		if _, err := jane.Get(ctx, &apiv1.GetRequest{Version: "v1", Resource: "namespaces", Name: "default"}, grpc.Header(&header)); err != nil {
			t.Fatal(apistatus.FromGRPC(err))
		}
		return header.Get("x-kubernetes-pf-flowschema-uid")[0], header.Get("x-kubernetes-pf-prioritylevel-uid")[0]
	}
	uid := func(resource, name string) string {
		t.Helper()
		body, err := f.get("flowcontrol.apiserver.k8s.io/v1/"+resource, "", name)
		if err != nil {
			t.Fatal(err)
		}
		var obj metav1.PartialObjectMetadata
		if err := json.Unmarshal(body, &obj); err != nil {
			t.Fatal(err)
		}
		return string(obj.UID)
	}
	schema, level := classified(t.Context())
	if schema == "" || schema != uid("flowschemas", "global-default") || level != uid("prioritylevelconfigurations", "global-default") {
		t.Fatalf("classified as %q in %q", schema, level)
	}
	body := `{"metadata":{"name":"janes"},"spec":{"priorityLevelConfiguration":{"name":"workload-high"},"matchingPrecedence":500,"rules":[{
		"subjects":[{"kind":"User","user":{"name":"jane"}}],
		"resourceRules":[{"verbs":["get"],"apiGroups":[""],"resources":["namespaces"],"clusterScope":true,"namespaces":["*"]}]}]}}`
	janes := f.must(f.create("flowcontrol.apiserver.k8s.io/v1/flowschemas", "", body))
	knowing := metadata.AppendToOutgoingContext(t.Context(), objects.KnowKey, at(janes, "metadata", "resourceVersion").(string)) // as a gateway asks
	if schema, level = classified(knowing); schema != uid("flowschemas", "janes") || level != uid("prioritylevelconfigurations", "workload-high") {
		t.Fatalf("classified as %q in %q", schema, level)
	}
	for deadline := time.Now().Add(time.Minute); ; {
		got, err := f.get("flowcontrol.apiserver.k8s.io/v1/flowschemas", "", "janes")
		if err != nil {
			t.Fatal(err)
		}
		if strings.Contains(string(got), `"type":"Dangling","status":"False"`) {
			break
		}
		if time.Now().After(deadline) {
			t.Fatalf("no condition: %s", got)
		}
		time.Sleep(10 * time.Millisecond)
	}
}

// TestWatchesHoldNoSeat opens more watches than there are seats.
func TestWatchesHoldNoSeat(t *testing.T) {
	t.Parallel()
	f := startMemory(t, func(c *Config) {
		c.MaxReads, c.MaxWrites, c.AuthorizationModes = 4, 4, []string{"AlwaysAllow"}
	})
	jane := apiv1.NewObjectServiceClient(f.dial(rpc.User{Name: "jane"}))
	for range 50 {
		stream, err := jane.Watch(t.Context(), &apiv1.WatchRequest{Version: "v1", Resource: "namespaces"})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := stream.Recv(); err != nil {
			t.Fatal(apistatus.FromGRPC(err))
		}
	}
	if _, err := jane.Get(t.Context(), &apiv1.GetRequest{Version: "v1", Resource: "namespaces", Name: "default"}); err != nil {
		t.Fatal(apistatus.FromGRPC(err))
	}
}

// TestWithoutPriorityAndFairness refuses what is more than the limits.
func TestWithoutPriorityAndFairness(t *testing.T) {
	t.Parallel()
	f := start(t, slow{memory{memstore.New()}}, func(c *Config) {
		c.MaxReads, c.MaxWrites, c.NoPriorityAndFairness = 1, 1, true
	})
	var refused atomic.Int64
	var running sync.WaitGroup
	for n := range 50 {
		running.Go(func() {
			_, err := f.create("v1/configmaps", "default", fmt.Sprintf(`{"metadata":{"name":"flood-%d"}}`, n))
			if err != nil && apistatus.Of(err).Code == 429 {
				refused.Add(1)
			}
		})
	}
	running.Wait()
	if refused.Load() == 0 {
		t.Error("nobody was refused")
	}
}
