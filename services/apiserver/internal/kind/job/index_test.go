package job

import (
	"slices"
	"testing"
)

func TestIndexes(t *testing.T) {
	t.Parallel()
	for text, c := range map[string]struct {
		want  []run
		fault string
	}{
		"":        {nil, ""},
		"0":       {[]run{{0, 0}}, ""},
		"0,2-3":   {[]run{{0, 0}, {2, 3}}, ""},
		"1,0":     {[]run{{1, 1}}, "non-increasing order, previous: 1, current: 0"},
		"3-4":     {nil, `too large index: "4"`},
		"9,0":     {[]run{{0, 0}}, `too large index: "9"`},
		"2-1":     {nil, "non-increasing order, previous: 2, current: 1"},
		"x":       {nil, `cannot convert string to integer for index: "x"`},
		"-1":      {nil, `cannot convert string to integer for index: ""`},
		"0,,1":    {[]run{{0, 0}, {1, 1}}, `cannot convert string to integer for index: ""`},
		"0-0":     {nil, "non-increasing order, previous: 0, current: 0"},
		"1-2,2-3": {[]run{{1, 2}}, "non-increasing order, previous: 2, current: 2"},
	} {
		got, err := indexes(text, 4)
		fault := ""
		if err != nil {
			fault = err.Error()
		}
		if !slices.Equal(got, c.want) || fault != c.fault {
			t.Errorf("%q: %v, %q; want %v, %q", text, got, fault, c.want, c.fault)
		}
	}
	if first, both := shared([]run{{0, 1}, {5, 9}}, []run{{2, 4}, {7, 7}}); !both || first != 7 {
		t.Errorf("shared: %d, %v", first, both)
	}
	if _, both := shared([]run{{0, 1}}, []run{{2, 4}}); both || total([]run{{0, 1}, {5, 9}}) != 7 {
		t.Error("ranges apart share an index, or are not counted")
	}
}
