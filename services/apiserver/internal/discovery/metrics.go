package discovery

import (
	"bytes"
	"fmt"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
)

// metricsOf writes metrics in Prometheus' text format.
func metricsOf(g prometheus.Gatherer) (*document, error) {
	if g == nil {
		return nil, notFound()
	}
	families, err := g.Gather()
	if err != nil && len(families) == 0 {
		return nil, fmt.Errorf("gather metrics: %w", err)
	}
	format := expfmt.NewFormat(expfmt.TypeTextPlain).WithEscapingScheme(model.UnderscoreEscaping)
	var text bytes.Buffer
	encoder := expfmt.NewEncoder(&text, format)
	for _, family := range families {
		if err := encoder.Encode(family); err != nil {
			return nil, fmt.Errorf("encode metrics: %w", err)
		}
	}
	return &document{body: text.Bytes(), contentType: string(format)}, nil
}
