package transaction

import (
	"encoding/json"
	"fmt"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"howdah.dev/kit/apistatus"
	apiv1 "howdah.dev/proto/gen/howdah/api/v1"
	"howdah.dev/services/apiserver/internal/objects"
)

// told is how many failures the message spells out; the causes have all of them.
const told = 10

// failure is what is wrong with one item.
type failure struct {
	index  int
	write  write
	status metav1.Status
}

type failures []failure

func (f *failures) add(index int, w write, err error) {
	*f = append(*f, failure{index, w, apistatus.Of(err)})
}

// failed returns what the items of a batch failed with, or nil.
func failed(writes []write, results []*apiv1.BatchResult) error {
	var problems, others failures
	for n, r := range results {
		if r.GetCode() < 400 {
			continue
		}
		f := failure{index: n, write: writes[n]}
		if err := json.Unmarshal(r.GetObject(), &f.status); err != nil {
			f.status = metav1.Status{Message: string(r.GetObject()), Code: r.GetCode()}
		}
		if strings.Contains(f.status.Message, objects.OtherFailed) {
			others = append(others, f)
			continue
		}
		problems = append(problems, f)
	}
	if len(problems) == 0 {
		problems = others // which cannot be, but must not pass for success
	}
	if len(problems) == 0 {
		return nil
	}
	return problems.status()
}

// status is the answer to a transaction that was refused: the code and reason of the first item that failed, and a cause for each.
func (f failures) status() error {
	first := f[0]
	s := metav1.Status{
		Status: metav1.StatusFailure, Code: first.status.Code, Reason: first.status.Reason,
		Details: &metav1.StatusDetails{Name: first.write.name},
	}
	if d := first.status.Details; d != nil {
		s.Details.RetryAfterSeconds = d.RetryAfterSeconds
	}
	if r := first.write.resource; r != nil {
		s.Details.Group, s.Details.Kind = r.GVR.Group, r.GVR.Resource
	}
	var lines []string
	for _, one := range f {
		text := fmt.Sprintf("item %d (%s): %s", one.index, one.write, one.status.Message)
		s.Details.Causes = append(s.Details.Causes, metav1.StatusCause{
			Type: metav1.CauseType(one.status.Reason), Message: text, Field: fmt.Sprintf("items[%d]", one.index),
		})
		if len(lines) < told {
			lines = append(lines, text)
		}
	}
	if more := len(f) - len(lines); more > 0 {
		lines = append(lines, fmt.Sprintf("and %d more", more))
	}
	s.Message = "the transaction was refused and nothing was changed: " + strings.Join(lines, "; ")
	return &apierrors.StatusError{ErrStatus: s}
}
