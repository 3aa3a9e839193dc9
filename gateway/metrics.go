package gateway

import (
	"bytes"
	"net/http"
	"strconv"
	"strings"

	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
	"google.golang.org/grpc/metadata"

	"howdah.dev/gateway/internal/answer"
	"howdah.dev/kit/apistatus"
	apiv1 "howdah.dev/proto/gen/howdah/api/v1"
)

// serveMetrics answers with the metrics of an API server, as Kubernetes' dashboards expect them at this path, and those of the gateway that
// the API server has not got.
func (rt *router) serveMetrics(w http.ResponseWriter, r *http.Request, md metadata.MD) {
	ctx := metadata.NewOutgoingContext(r.Context(), md)
	format := expfmt.NewFormat(expfmt.TypeTextPlain).WithEscapingScheme(model.UnderscoreEscaping)
	resp, err := rt.discovery.Document(ctx, &apiv1.DocumentRequest{Path: r.URL.Path})
	if status := apistatus.Of(apistatus.FromGRPC(err)); err != nil && status.Code != http.StatusNotFound {
		answer.Status(w, r, status)
		return
	}
	families, err := rt.config.Gatherer.Gather()
	if err != nil && len(families) == 0 {
		answer.Error(w, r, err)
		return
	}
	theirs := familiesIn(resp.GetObject())
	text := bytes.NewBuffer(resp.GetObject())
	encoder := expfmt.NewEncoder(text, format)
	for _, family := range families {
		if theirs[family.GetName()] {
			continue
		}
		if err := encoder.Encode(family); err != nil {
			answer.Error(w, r, err)
			return
		}
	}
	w.Header().Set("Content-Type", string(format))
	w.Header().Set("Process-Start-Time-Unix", strconv.FormatInt(rt.began.Unix(), 10)) // by which scrapers tell that counters begin anew
	_, _ = w.Write(text.Bytes())
}

// familiesIn are the names of the metrics in a text.
func familiesIn(text []byte) map[string]bool {
	names := map[string]bool{}
	for line := range strings.Lines(string(text)) {
		if rest, ok := strings.CutPrefix(line, "# TYPE "); ok {
			name, _, _ := strings.Cut(rest, " ")
			names[name] = true
		}
	}
	return names
}
