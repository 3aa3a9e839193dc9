package endpoint

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/pprof"
	"os"
	"strings"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"howdah.dev/nodeagent/internal/nodelog"
	"howdah.dev/nodeagent/internal/usage/meter"
	"howdah.dev/nodeagent/internal/usage/summary"
)

// healthy are the paths that tell whether the agent does its work.
func (s *Server) healthy() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("/healthz", s.health("ping", "log", "syncloop"))
	for _, check := range []string{"ping", "log", "syncloop"} {
		mux.HandleFunc("/healthz/"+check, s.health(check))
	}
	return mux
}

// readable are the paths that only tell.
func (s *Server) readable() http.Handler {
	mux := http.NewServeMux()
	health := s.healthy()
	mux.Handle("/healthz", health)
	mux.Handle("/healthz/", health)
	for _, method := range []string{"GET", "POST"} { // a kubelet's takes both
		mux.HandleFunc(method+" /stats/summary", s.summary)
	}
	mux.HandleFunc("GET /pods", s.pods)
	mux.HandleFunc("GET /pods/{$}", s.pods)
	if s.cfg.Gatherer != nil {
		mux.Handle("GET /metrics", gathered(s.cfg.Gatherer))
	}
	mux.Handle("GET /metrics/resource", collected(meter.Resource(s.cfg.Usage)))
	mux.Handle("GET /metrics/cadvisor", collected(meter.Cadvisor(s.cfg.Usage, s.cfg.Version, s.cfg.Cores)))
	mux.Handle("GET /metrics/probes", collected(s.cfg.Probes...))
	mux.Handle("/metrics/slis", s.slis())
	return mux
}

// everything adds what leads into containers and shows the agent's inside.
func (s *Server) everything(open http.Handler) http.Handler {
	mux := http.NewServeMux()
	mux.Handle("/", open)
	mux.HandleFunc("GET /runningpods/", s.running)
	mux.HandleFunc("GET /configz", s.settings)
	mux.Handle("GET /logs/", http.StripPrefix("/logs/", s.logFiles()))
	mux.HandleFunc("GET /containerLogs/{namespace}/{pod}/{container}", s.containerLog)
	for _, method := range []string{"GET", "POST"} {
		for path, kind := range map[string]string{"/exec": "exec", "/attach": "attach"} {
			mux.HandleFunc(method+" "+path+"/{namespace}/{pod}/{container}", s.join(kind))
			mux.HandleFunc(method+" "+path+"/{namespace}/{pod}/{uid}/{container}", s.join(kind))
		}
		mux.HandleFunc(method+" /portForward/{namespace}/{pod}", s.join("portforward"))
		mux.HandleFunc(method+" /portForward/{namespace}/{pod}/{uid}", s.join("portforward"))
	}
	mux.HandleFunc("POST /run/{namespace}/{pod}/{container}", s.run)
	mux.HandleFunc("POST /run/{namespace}/{pod}/{uid}/{container}", s.run)
	mux.HandleFunc("POST /checkpoint/{namespace}/{pod}/{container}", s.checkpoint)
	mux.HandleFunc("/flagz", s.flags)
	mux.HandleFunc("/statusz", s.statusPage)
	mux.HandleFunc("GET /debug/pprof/", pprof.Index)
	mux.HandleFunc("GET /debug/pprof/cmdline", pprof.Cmdline)
	mux.HandleFunc("GET /debug/pprof/profile", pprof.Profile)
	mux.HandleFunc("GET /debug/pprof/symbol", pprof.Symbol)
	mux.HandleFunc("GET /debug/pprof/trace", pprof.Trace)
	return mux
}

// refuse answers with a Status.
func refuse(w http.ResponseWriter, code int, message string) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(code)
	_ = json.NewEncoder(w).Encode(metav1.Status{ // the caller may have gone
		TypeMeta: metav1.TypeMeta{Kind: "Status", APIVersion: "v1"}, Status: metav1.StatusFailure, Message: message, Code: int32(code),
		Reason: metav1.StatusReason(strings.ReplaceAll(http.StatusText(code), " ", "")),
	})
}

func answer(w http.ResponseWriter, object any) {
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(object) // the caller may have gone
}

// health tells of the checks; only syncloop can fail: who answers pings and logs is alive.
func (s *Server) health(checks ...string) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		var told strings.Builder
		failed := false
		for _, check := range checks {
			err := error(nil)
			if check == "syncloop" {
				err = s.cfg.Healthy()
			}
			s.checks.Observe("healthz", check, err)
			if err != nil {
				failed = true
				fmt.Fprintf(&told, "[-]%s failed: %v\n", check, err)
			} else {
				fmt.Fprintf(&told, "[+]%s ok\n", check)
			}
		}
		w.Header().Set("Content-Type", "text/plain; charset=utf-8")
		w.Header().Set("X-Content-Type-Options", "nosniff")
		_, verbose := r.URL.Query()["verbose"]
		switch {
		case failed:
			w.WriteHeader(http.StatusInternalServerError)
			fmt.Fprint(w, told.String(), "healthz check failed\n")
		case verbose:
			fmt.Fprint(w, told.String(), "healthz check passed\n")
		default:
			fmt.Fprint(w, "ok")
		}
	}
}

func (s *Server) summary(w http.ResponseWriter, r *http.Request) {
	reading := s.cfg.Usage.Read(r.Context())
	if reading.Err != nil {
		http.Error(w, fmt.Sprintf("Internal Error: %v", reading.Err), http.StatusInternalServerError)
		return
	}
	answer(w, summary.Of(s.cfg.NodeName, reading, r.URL.Query().Get("only_cpu_and_memory") == "true"))
}

func (s *Server) pods(w http.ResponseWriter, _ *http.Request) {
	list := corev1.PodList{TypeMeta: metav1.TypeMeta{Kind: "PodList", APIVersion: "v1"}, Items: []corev1.Pod{}}
	for _, pod := range s.cfg.Pods() {
		list.Items = append(list.Items, *pod)
	}
	answer(w, &list)
}

// running lists the pods that the runtime runs, with no more than it knows of them.
func (s *Server) running(w http.ResponseWriter, r *http.Request) {
	reading := s.cfg.Usage.Read(r.Context())
	if reading.Err != nil {
		http.Error(w, reading.Err.Error(), http.StatusInternalServerError)
		return
	}
	list := corev1.PodList{TypeMeta: metav1.TypeMeta{Kind: "PodList", APIVersion: "v1"}, Items: []corev1.Pod{}}
	for i := range reading.Pods {
		p := &reading.Pods[i]
		pod := corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: p.Namespace, Name: p.Name, UID: p.UID}}
		for _, c := range p.Containers {
			pod.Spec.Containers = append(pod.Spec.Containers, corev1.Container{Name: c.Name, Image: c.Image})
		}
		list.Items = append(list.Items, pod)
	}
	answer(w, &list)
}

func (s *Server) settings(w http.ResponseWriter, _ *http.Request) {
	answer(w, map[string]any{"kubeletconfig": s.cfg.Settings})
}

// logFiles shows the node's own logs. No link leads out of the folder.
func (s *Server) logFiles() http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		root, err := os.OpenRoot(s.cfg.LogDir)
		if err != nil {
			refuse(w, http.StatusNotFound, "this node keeps no logs")
			return
		}
		defer root.Close()
		if s.cfg.Journal != nil && s.logQuery(w, r, root) {
			return
		}
		http.FileServerFS(root.FS()).ServeHTTP(w, r)
	})
}

// logQuery answers what is asked of services' logs. It reports false where a file is to be shown: that of the path, which may be changed to the
// one that is asked for.
func (s *Server) logQuery(w http.ResponseWriter, r *http.Request, root *os.Root) bool {
	query, errs := nodelog.Parse(r.URL.Query())
	switch {
	case len(errs) > 0:
		http.Error(w, errs.ToAggregate().Error(), http.StatusBadRequest)
		return true
	case query == nil:
		return false
	case r.URL.Path != "":
		http.Error(w, "path not allowed in query mode", http.StatusNotAcceptable)
		return true
	}
	errs = query.Check(func(file string) error {
		_, err := root.Stat(file)
		return err
	})
	switch {
	case len(errs) > 0:
		http.Error(w, errs.ToAggregate().Error(), http.StatusNotAcceptable)
	case len(query.Services) == 0:
		r.URL.Path = query.File()
		return false
	default:
		w.Header().Set("Content-Type", "text/plain;charset=UTF-8")
		w.Header().Set("X-Content-Type-Options", "nosniff")
		query.Show(r.Context(), w, s.cfg.Journal, s.cfg.LogDir)
	}
	return true
}

func gathered(g prometheus.Gatherer) http.Handler {
	return promhttp.HandlerFor(g, promhttp.HandlerOpts{ErrorHandling: promhttp.ContinueOnError})
}

// collected serves collectors by themselves.
func collected(all ...prometheus.Collector) http.Handler {
	registry := prometheus.NewRegistry()
	registry.MustRegister(all...)
	return gathered(registry)
}
