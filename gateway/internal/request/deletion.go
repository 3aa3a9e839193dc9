package request

import (
	"encoding/json"
	"net/url"
	"strconv"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// DeleteOptions returns the metav1.DeleteOptions, as JSON, of a deletion whose query says more than its message has fields for:
// preconditions, and options that are there and empty. It returns nil for all others. The body of a deletion, if there is one, says all:
// then this is not asked.
func (i Info) DeleteOptions(query url.Values) ([]byte, error) {
	if i.Verb != Delete && i.Verb != DeleteCollection || !unusual(query) {
		return nil, nil
	}
	o := metav1.DeleteOptions{
		TypeMeta: metav1.TypeMeta{Kind: "DeleteOptions", APIVersion: "v1"}, DryRun: query["dryRun"], Preconditions: preconditions(query),
	}
	if seconds, given := query["gracePeriodSeconds"]; given {
		n, err := strconv.ParseInt(seconds[0], 10, 64)
		if err != nil {
			return nil, apierrors.NewBadRequest(numberError(err).Error())
		}
		o.GracePeriodSeconds = &n
	}
	if policy, given := query["propagationPolicy"]; given {
		p := metav1.DeletionPropagation(policy[0])
		o.PropagationPolicy = &p
	}
	if orphan, given := query["orphanDependents"]; given {
		b := parseBool(orphan)
		o.OrphanDependents = &b
	}
	return json.Marshal(o)
}

func unusual(query url.Values) bool {
	for _, name := range []string{"gracePeriodSeconds", "propagationPolicy"} {
		if query.Has(name) && query.Get(name) == "" {
			return true
		}
	}
	return query.Has("uid") || query.Has("resourceVersion")
}

func preconditions(query url.Values) *metav1.Preconditions {
	var p metav1.Preconditions
	if query.Has("uid") {
		uid := types.UID(query.Get("uid"))
		p.UID = &uid
	}
	if query.Has("resourceVersion") {
		version := query.Get("resourceVersion")
		p.ResourceVersion = &version
	}
	if p == (metav1.Preconditions{}) {
		return nil
	}
	return &p
}
