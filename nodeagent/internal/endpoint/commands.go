package endpoint

import (
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"time"

	podspec "howdah.dev/nodeagent/internal/pod"
)

// plain answers with a text alone, as a kubelet does there.
func plain(w http.ResponseWriter, code int, text string) {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.WriteHeader(code)
	_, _ = io.WriteString(w, text) // the caller may have gone
}

// run answers with what a command has written, once it has ended. The command stands in one parameter, its arguments apart by single spaces.
func (s *Server) run(w http.ResponseWriter, r *http.Request) {
	pod, ok := s.find(w, r)
	if !ok {
		return
	}
	output, err := s.cfg.Streams.Run(r.Context(), pod, r.PathValue("container"), strings.Split(r.URL.Query().Get("cmd"), " "))
	if err != nil {
		plain(w, http.StatusInternalServerError, err.Error())
		return
	}
	if len(output) > 0 {
		w.Header().Set("Content-Type", "application/json") // whatever it is: a kubelet's word
	}
	_, _ = w.Write(output)
}

// checkpoint answers with where a container's checkpoint is (Kubernetes' reference, "Kubelet Checkpoint API").
func (s *Server) checkpoint(w http.ResponseWriter, r *http.Request) {
	pod, ok := s.find(w, r)
	if !ok {
		return
	}
	container := r.PathValue("container")
	if podspec.Find(pod, container) == nil {
		plain(w, http.StatusNotFound, fmt.Sprintf("container %s does not exist", container))
		return
	}
	var timeout time.Duration
	if given := r.URL.Query()["timeout"]; len(given) > 0 {
		seconds, err := strconv.ParseInt(given[len(given)-1], 10, 32)
		if err != nil {
			plain(w, http.StatusNotFound, "cannot parse value of timeout parameter")
			return
		}
		timeout = time.Duration(seconds) * time.Second
	}
	at, err := s.cfg.Streams.Checkpoint(r.Context(), pod, container, timeout)
	if err != nil {
		plain(w, http.StatusInternalServerError, fmt.Sprintf("checkpointing of %s/%s/%s failed (%v)", pod.Namespace, pod.Name, container, err))
		return
	}
	answer(w, map[string][]string{"items": {at}})
}
