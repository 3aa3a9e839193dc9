package main

import "testing"

func TestServiceRanges(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		ranges  []string
		problem string
	}{
		{[]string{"10.96.0.0/16"}, ""},
		{[]string{"fd00::/108"}, ""},
		{[]string{"10.96.0.0/16", " fd00::/108"}, ""},
		{[]string{"fd00::/108", "10.96.0.0/16"}, ""},
		{nil, "a range is required"},
		{[]string{"x"}, `netip.ParsePrefix("x"): no '/'`},
		{[]string{"10.96.0.0/30"}, "10.96.0.0/30: the range must have at least 8 IP addresses"},
		{[]string{"10.96.0.0/16", "10.97.0.0/16"}, "10.96.0.0/16 and 10.97.0.0/16 must be of different IP families"},
		{[]string{"10.96.0.0/16", "fd00::/108", "10.97.0.0/16"}, "must not contain more than two entries"},
	} {
		ranges, err := serviceRanges(test.ranges)
		problem := ""
		if err != nil {
			problem = err.Error()
		}
		if problem != test.problem || err == nil && len(ranges) != len(test.ranges) {
			t.Errorf("%v: %v, %s", test.ranges, ranges, problem)
		}
	}
}
