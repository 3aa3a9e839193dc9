package pressure

import (
	"fmt"
	"strings"
	"testing"
	"time"
)

// describe writes settings as text.
func describe(s Settings) string {
	var out []string
	for _, t := range s.Thresholds {
		text := fmt.Sprintf("%s<%v", t.Signal, t.Value.Of(1000))
		if !t.Hard {
			text += fmt.Sprintf(" after %v", t.Grace)
		}
		if t.Reclaim != (Value{}) {
			text += fmt.Sprintf(" and %d", t.Reclaim.Of(1000))
		}
		out = append(out, text)
	}
	return strings.Join(out, ", ")
}

func TestOptions(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		options Options
		want    string
	}{
		"none":                {Options{}, ""},
		"a quantity":          {Options{Hard: "memory.available<1Ki"}, "memory.available<1024, allocatableMemory.available<1024"},
		"a share":             {Options{Hard: "nodefs.available<12.5%"}, "nodefs.available<125"},
		"in order":            {Options{Hard: "pid.available<4%,imagefs.inodesFree<1k,memory.available<1"}, "memory.available<1, allocatableMemory.available<1, imagefs.inodesFree<1000, pid.available<40"},
		"off":                 {Options{Hard: "nodefs.available<0%,imagefs.available<100%,nodefs.inodesFree<0"}, ""},
		"soft":                {Options{Soft: "memory.available<200", SoftGrace: "memory.available=90s"}, "memory.available<200 after 1m30s"},
		"both":                {Options{Hard: "memory.available<1", Soft: "memory.available<2", SoftGrace: "memory.available=1s"}, "memory.available<1, allocatableMemory.available<1, memory.available<2 after 1s"},
		"a least":             {Options{Hard: "nodefs.available<10%", MinimumReclaim: "nodefs.available=5%,imagefs.available=2Gi"}, "nodefs.available<100 and 50"},
		"the others' default": {Options{Hard: "memory.available<1,imagefs.inodesFree<0%", MergeDefaults: true}, "memory.available<1, allocatableMemory.available<1, nodefs.available<100, nodefs.inodesFree<50, imagefs.available<150, pid.available<40"},
		"all":                 {Options{Hard: DefaultHard}, "memory.available<104857600, allocatableMemory.available<104857600, nodefs.available<100, nodefs.inodesFree<50, imagefs.available<150, imagefs.inodesFree<50, pid.available<40"},
	} {
		got, err := test.options.Parse()
		if err != nil || describe(got) != test.want || got.Transition != 5*time.Minute {
			t.Errorf("%s: %q, %v, %v", name, describe(got), got.Transition, err)
		}
	}
}

func TestOptionsThatAreWrong(t *testing.T) {
	t.Parallel()
	for want, options := range map[string]Options{
		`eviction thresholds: "memory.available" is not signal<value`:                                            {Hard: "memory.available"},
		`unsupported signal "disk": one of memory.available, nodefs.available`:                                   {Hard: "disk<1%"},
		`unsupported signal "allocatableMemory.available"`:                                                       {Hard: "allocatableMemory.available<1Gi"},
		`containerfs.available cannot be set: what containers write counts where it lies, in nodefs or in image`: {Hard: "containerfs.available<1%"},
		`signal "pid.available" is there twice`:                                                                  {Hard: "pid.available<1%,pid.available<2%"},
		`memory.available: "101%" is not a percentage`:                                                           {Hard: "memory.available<101%"},
		`memory.available: "NaN%" is not a percentage`:                                                           {Hard: "memory.available<NaN%"},
		`nodefs.available: "-1" is negative`:                                                                     {Hard: "nodefs.available<-1"},
		`nodefs.available: "some"`:                                                                               {Hard: "nodefs.available<some"},
		`nodefs.inodesFree: "y"`:                                                                                 {Hard: "memory.available<x%,nodefs.inodesFree<y"},
		`the soft eviction threshold of memory.available has no grace period`:                                    {Soft: "memory.available<1"},
		`grace periods of soft eviction thresholds: memory.available: "-1s" is negative`:                         {Soft: "memory.available<1", SoftGrace: "memory.available=-1s"},
		`grace periods of soft eviction thresholds: memory.available: time:`:                                     {Soft: "memory.available<1", SoftGrace: "memory.available=long"},
		`least that an eviction frees: "nodefs.available<1" is not signal=value`:                                 {MinimumReclaim: "nodefs.available<1"},
		`not negative`: {Transition: -1},
	} {
		_, err := options.Parse()
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%+v: %v", options, err)
		}
	}
}
