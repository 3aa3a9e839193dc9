package endpoint

import (
	"errors"
	"fmt"
	"net/http"
	"net/url"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/proxy"
)

// find returns the pod that a path names, or answers that there is none.
func (s *Server) find(w http.ResponseWriter, r *http.Request) (*corev1.Pod, bool) {
	return s.named(w, r, "pod does not exist")
}

// named is find with the words for a pod that is not there.
func (s *Server) named(w http.ResponseWriter, r *http.Request, none string) (*corev1.Pod, bool) {
	pod, ok := s.cfg.Pod(r.PathValue("namespace"), r.PathValue("pod"))
	if uid := r.PathValue("uid"); ok && uid != "" && pod.UID != types.UID(uid) {
		ok = false
	}
	if !ok {
		plain(w, http.StatusNotFound, none)
	}
	return pod, ok
}

// fail tells an error as its Status says.
func fail(w http.ResponseWriter, err error) {
	code := http.StatusInternalServerError
	if status := apierrors.APIStatus(nil); errors.As(err, &status) && status.Status().Code != 0 {
		code = int(status.Status().Code)
	}
	refuse(w, code, err.Error())
}

func (s *Server) containerLog(w http.ResponseWriter, r *http.Request) {
	pod, ok := s.named(w, r, fmt.Sprintf("pod %q does not exist", r.PathValue("pod")))
	if !ok {
		return
	}
	query := r.URL.Query()
	query.Set("container", r.PathValue("container"))
	if tail := query.Get("tail"); tail != "" && tail != "all" {
		query.Set("tailLines", tail)
	}
	write, err := s.cfg.Streams.Log(r.Context(), pod, query)
	if err != nil {
		fail(w, err)
		return
	}
	w.Header().Set("Content-Type", "text/plain")
	_ = write(r.Context(), &flushing{w, http.NewResponseController(w)}) // the answer has begun; its end tells
}

// flushing sends every piece at once.
type flushing struct {
	http.ResponseWriter
	control *http.ResponseController
}

// Write implements io.Writer.
func (f *flushing) Write(p []byte) (int, error) {
	n, err := f.ResponseWriter.Write(p)
	if err == nil {
		err = f.control.Flush()
	}
	return n, err
}

// join connects the caller to the stream that the runtime serves.
func (s *Server) join(kind string) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		pod, ok := s.find(w, r)
		if !ok {
			return
		}
		at, err := s.cfg.Streams.Join(r.Context(), kind, pod, wished(r))
		if err != nil {
			fail(w, err)
			return
		}
		r.Header.Del("Authorization") // it is not the runtime's
		proxy.NewUpgradeAwareHandler(at, nil, false, true, responder{}).ServeHTTP(w, r)
	}
}

// wished names what a caller wants in the API's words: a kubelet's are others.
func wished(r *http.Request) url.Values {
	query := r.URL.Query()
	for theirs, ours := range map[string]string{"input": "stdin", "output": "stdout", "error": "stderr"} {
		if query.Get(ours) == "" {
			query.Set(ours, query.Get(theirs))
		}
	}
	if name := r.PathValue("container"); name != "" {
		query.Set("container", name)
	}
	return query
}

type responder struct{}

// Error implements proxy.ErrorResponder.
func (responder) Error(w http.ResponseWriter, _ *http.Request, err error) { fail(w, err) }
