package objects

import "testing"

// TestLogOptions has what Kubernetes says of the options of a log, as it is and with one stream to be asked for.
func TestLogOptions(t *testing.T) {
	t.Parallel()
	const invalid = `PodLogOptions "p" is invalid: `
	for query, want := range map[string][2]string{
		"":                           {},
		"tailLines=1&stream=All":     {invalid + "stream: Forbidden: may not be specified", ""},
		"stream=Stdout":              {invalid + "stream: Forbidden: may not be specified", ""},
		"stream=Stderr&limitBytes=1": {invalid + "stream: Forbidden: may not be specified", ""},
		"stream=stdout":              {invalid + "stream: Forbidden: may not be specified", invalid + `stream: Unsupported value: "stdout": supported values: "All", "Stderr", "Stdout"`},
		"stream=Stdout&tailLines=1":  {invalid + "stream: Forbidden: may not be specified", invalid + "[]: Forbidden: `tailLines` and specific `stream` are mutually exclusive for now"},
		"tailLines=x":                {`strconv.ParseInt: parsing "x": invalid syntax`, `strconv.ParseInt: parsing "x": invalid syntax`},
		"tailLines=-1":               {invalid + "tailLines: Invalid value: -1: must be greater than or equal to 0", invalid + "tailLines: Invalid value: -1: must be greater than or equal to 0"},
		"limitBytes=0":               {invalid + "limitBytes: Invalid value: 0: must be greater than 0", invalid + "limitBytes: Invalid value: 0: must be greater than 0"},
		"sinceSeconds=1&sinceTime=2026-01-01T00:00:00Z": {
			invalid + "[]: Forbidden: at most one of `sinceTime` or `sinceSeconds` may be specified", invalid + "[]: Forbidden: at most one of `sinceTime` or `sinceSeconds` may be specified",
		},
	} {
		for i, split := range []bool{false, true} {
			got := ""
			if err := checkLogOptions("p", query, split); err != nil {
				got = err.Error()
			}
			if got != want[i] {
				t.Errorf("%q, %v: %s, want %s", query, split, got, want[i])
			}
		}
	}
}
