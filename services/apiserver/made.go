package apiserver

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"howdah.dev/services/apiserver/internal/objects"
	"howdah.dev/services/apiserver/internal/usage"
)

// made are the resources whose objects are made when they are read.
func (s *Server) made() []objects.Made {
	all := []objects.Made{objects.ComponentStatuses(s.components)}
	if s.cfg.Usage != nil {
		all = append(all, usage.New(s.cfg.Usage, s.metadata, s.cfg.Clock).Resources()...)
	}
	return all
}

// metadata returns that of an object of the core group as the cache has it; nil where there is none.
func (s *Server) metadata(resource, namespace, name string) *metav1.PartialObjectMetadata {
	for _, k := range s.known.Table.Kinds() {
		if k.GVK.Group != "" || k.Resource != resource {
			continue
		}
		if item := s.cache.For(k).Get(k.Key(namespace, name)); item != nil {
			if about, err := item.Metadata(false); err == nil {
				return about
			}
		}
	}
	return nil
}
