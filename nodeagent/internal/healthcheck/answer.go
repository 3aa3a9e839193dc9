package healthcheck

import (
	"encoding/json"
	"io"
	"net/http"
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

// leaving is the taint of nodes that an autoscaler is about to remove.
const leaving = "ToBeDeletedByClusterAutoscaler"

// serviceAnswer is Kubernetes' answer at a healthCheckNodePort.
type serviceAnswer struct {
	Service             serviceName `json:"service"`
	LocalEndpoints      int         `json:"localEndpoints"`
	ServiceProxyHealthy bool        `json:"serviceProxyHealthy"`
}

type serviceName struct {
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
}

// nodeAnswer is Kubernetes' answer at /healthz and /livez of port 10256. Status has the families that the node balances.
type nodeAnswer struct {
	LastUpdated  time.Time               `json:"lastUpdated"`
	CurrentTime  time.Time               `json:"currentTime"`
	NodeEligible *bool                   `json:"nodeEligible,omitempty"`
	Status       map[string]familyAnswer `json:"status"`
}

type familyAnswer struct {
	LastUpdated time.Time `json:"lastUpdated"`
	Healthy     bool      `json:"healthy"`
}

// service answers 200 while the node has ready endpoints of the service, and 503 otherwise, at every path.
func (s *Server) service(name types.NamespacedName) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		s.mu.Lock()
		endpoints := s.services[name].Endpoints
		s.mu.Unlock()
		healthy := s.cfg.Health().Healthy
		w.Header().Set("X-Load-Balancing-Endpoint-Weight", strconv.Itoa(endpoints))
		answer(w, endpoints > 0 && healthy, serviceAnswer{
			Service: serviceName{Namespace: name.Namespace, Name: name.Name}, LocalEndpoints: endpoints, ServiceProxyHealthy: healthy,
		})
	})
}

// node answers whether the node takes traffic (/healthz: not while it is about to leave the cluster) and whether it balances (/livez).
func (s *Server) node() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("/healthz", func(w http.ResponseWriter, _ *http.Request) {
		eligible := stays(s.cfg.Node())
		s.answerNode(w, &eligible, s.healthz)
	})
	mux.HandleFunc("/livez", func(w http.ResponseWriter, _ *http.Request) { s.answerNode(w, nil, s.livez) })
	return mux
}

func (s *Server) answerNode(w http.ResponseWriter, eligible *bool, answers *prometheus.CounterVec) {
	health, now := s.cfg.Health(), s.cfg.Clock.Now()
	healthy := health.Healthy && (eligible == nil || *eligible)
	family := familyAnswer{LastUpdated: health.Written, Healthy: health.Healthy}
	body := nodeAnswer{
		LastUpdated: health.Written, CurrentTime: now, NodeEligible: eligible,
		Status: map[string]familyAnswer{string(corev1.IPv4Protocol): family, string(corev1.IPv6Protocol): family},
	}
	if healthy {
		body.LastUpdated = now // who is healthy is up to date, however long ago something had to be written
	}
	code := http.StatusOK
	if !healthy {
		code = http.StatusServiceUnavailable
	}
	answers.WithLabelValues(strconv.Itoa(code)).Inc()
	answer(w, healthy, body)
}

// mode says what balances, in a word.
func (s *Server) mode() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("/proxyMode", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/plain; charset=utf-8")
		w.Header().Set("X-Content-Type-Options", "nosniff")
		_, _ = io.WriteString(w, "ebpf")
	})
	return mux
}

// stays says whether the node remains in the cluster.
func stays(node *corev1.Node) bool {
	if node == nil || !node.DeletionTimestamp.IsZero() {
		return false
	}
	for _, taint := range node.Spec.Taints {
		if taint.Key == leaving {
			return false
		}
	}
	return true
}

func answer(w http.ResponseWriter, ok bool, body any) {
	data, err := json.Marshal(body)
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("X-Content-Type-Options", "nosniff")
	if !ok {
		w.WriteHeader(http.StatusServiceUnavailable)
	}
	_, _ = w.Write(data)
}
