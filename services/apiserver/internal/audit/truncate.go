package audit

import (
	"encoding/json"
	"errors"

	auditv1 "k8s.io/apiserver/pkg/apis/audit/v1"
)

// truncatedKey marks an event whose bodies were taken out.
const truncatedKey = "audit.k8s.io/truncated"

var errTooLarge = errors.New("event is too large even after truncating")

// truncated returns the event, without request and response where it has more than so many bytes with them.
func truncated(e auditv1.Event, most int64) (auditv1.Event, error) {
	if fits(&e, most) {
		return e, nil
	}
	e.RequestObject, e.ResponseObject = nil, nil
	annotations := map[string]string{truncatedKey: "true"} // the event's map is shared
	for key, value := range e.Annotations {
		annotations[key] = value
	}
	e.Annotations = annotations
	if !fits(&e, most) {
		return e, errTooLarge
	}
	return e, nil
}

func fits(e *auditv1.Event, most int64) bool {
	body, err := json.Marshal(e)
	return err == nil && int64(len(body)+1) <= most
}
