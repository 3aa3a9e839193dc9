package objects

import (
	"context"
	"errors"
	"fmt"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"howdah.dev/services/apiserver/internal/store"
)

// A request that whoever asked takes back is no failure of the database.
func TestErrorsOfRequestsThatAreTakenBack(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		err       error
		code, get int32
	}{
		"taken back":                  {fmt.Errorf("%w: waiting for a commit: %w", store.ErrUnavailable, context.Canceled), 504, 500},
		"out of time":                 {fmt.Errorf("%w: waiting for a commit: %w", store.ErrUnavailable, context.DeadlineExceeded), 503, 503},
		"the database is gone":        {fmt.Errorf("%w: no route", store.ErrUnavailable), 503, 503},
		"the database goes meanwhile": {fmt.Errorf("%w: reset", store.ErrUnknownOutcome), 504, 504},
		"the disk is full":            {fmt.Errorf("%w: 53100", store.ErrFull), 500, 500},
		"the quota is used up":        {store.ErrOverQuota, 500, 500},
		"refused":                     {apierrors.NewTooManyRequests("later", 1), 429, 429},
	} {
		var status apierrors.APIStatus
		if err := storeError(tt.err, schema.GroupResource{Resource: "pods"}, "a", "update"); !errors.As(err, &status) || status.Status().Code != tt.code {
			t.Errorf("%s: %v", name, err)
		}
		if err := readError(tt.err, schema.GroupResource{Resource: "pods"}, "a"); !errors.As(err, &status) || status.Status().Code != tt.get {
			t.Errorf("%s, a get: %v", name, err)
		}
	}
}
