package pressure

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
)

// Defaults of the options.
const (
	// DefaultHard are the thresholds that the kubelet has by default, and one for processes.
	DefaultHard = "memory.available<100Mi,nodefs.available<10%,nodefs.inodesFree<5%,imagefs.available<15%,imagefs.inodesFree<5%,pid.available<4%"
	// DefaultTransition is the kubelet's, too.
	DefaultTransition = 5 * time.Minute
)

// Options are those of the kubelet, as text.
type Options struct {
	// Hard and Soft are lists of signal<quantity or signal<percentage%: below Hard pods end at once, below Soft after the signal's SoftGrace
	// (signal=duration,…), with as much time as they want, but at most MaxPodGrace seconds.
	Hard, Soft, SoftGrace string
	MaxPodGrace           int64
	// MinimumReclaim (signal=quantity,… or percentage%) is how much more than the threshold has to be left before a shortage is over.
	MinimumReclaim string
	// Transition is how long a condition of the node stays after the shortage; 0 is DefaultTransition.
	Transition time.Duration
	// MergeDefaults adds of DefaultHard the signals that Hard does not name. Without it they are not looked at.
	MergeDefaults bool
}

// Settings are what options mean.
type Settings struct {
	Thresholds  []Threshold
	MaxPodGrace int64
	Transition  time.Duration
}

// Threshold is a remainder below which the node is short of something.
type Threshold struct {
	Signal  Signal
	Value   Value
	Reclaim Value // how much more has to be left for the shortage to be over
	Hard    bool
	Grace   time.Duration // how long a soft one may be passed
}

// Value is a share of the whole, or a number: of bytes, inodes or processes.
type Value struct {
	Percent float64
	Number  int64
}

// Of is the value of a whole.
func (v Value) Of(whole int64) int64 {
	if v.Percent > 0 {
		return int64(float64(whole) * v.Percent / 100)
	}
	return v.Number
}

// Reserved is what the hard thresholds keep back of a whole from pods.
func (s Settings) Reserved(signal Signal, whole int64) int64 {
	for _, t := range s.Thresholds {
		if t.Hard && t.Signal == signal {
			return t.Value.Of(whole)
		}
	}
	return 0
}

// Parse reads the options and reports all that is wrong with them.
func (o Options) Parse() (Settings, error) {
	hard, err1 := parseValues(o.Hard, "<")
	soft, err2 := parseValues(o.Soft, "<")
	graces, err3 := parse(o.SoftGrace, "=", func(text string) (time.Duration, error) {
		d, err := time.ParseDuration(text)
		if err == nil && d < 0 {
			err = fmt.Errorf("%q is negative", text)
		}
		return d, err
	})
	reclaim, err4 := parseValues(o.MinimumReclaim, "=")
	problems := []error{
		named("eviction thresholds", err1), named("soft eviction thresholds", err2), named("grace periods of soft eviction thresholds", err3),
		named("least that an eviction frees", err4),
	}
	if o.MaxPodGrace < 0 || o.Transition < 0 {
		problems = append(problems, errors.New("eviction: the longest grace of pods and the pressure transition period are not negative"))
	}
	out := Settings{MaxPodGrace: o.MaxPodGrace, Transition: o.Transition}
	if out.Transition == 0 {
		out.Transition = DefaultTransition
	}
	if o.MergeDefaults {
		defaults, err := parseValues(DefaultHard, "<")
		problems = append(problems, err)
		for signal, value := range hard {
			defaults[signal] = value
		}
		hard = defaults
	}
	for _, k := range kinds {
		s := k.signal
		if value, ok := hard[s]; ok && value != (Value{}) {
			out.Thresholds = append(out.Thresholds, Threshold{Signal: s, Value: value, Reclaim: reclaim[s], Hard: true})
			if s == MemoryAvailable {
				out.Thresholds = append(out.Thresholds, Threshold{Signal: AllocatableMemory, Value: value, Reclaim: reclaim[s], Hard: true})
			}
		}
		value, ok := soft[s]
		grace, waits := graces[s]
		if ok && !waits && err3 == nil {
			problems = append(problems, fmt.Errorf("the soft eviction threshold of %s has no grace period", s))
		}
		if ok && value != (Value{}) {
			out.Thresholds = append(out.Thresholds, Threshold{Signal: s, Value: value, Reclaim: reclaim[s], Grace: grace})
		}
	}
	return out, errors.Join(problems...)
}

func named(what string, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%s: %w", what, err)
}

func parseValues(text, sign string) (map[Signal]Value, error) { return parse(text, sign, parseValue) }

// parse reads a list of signal, sign, and value.
func parse[V any](text, sign string, value func(text string) (V, error)) (map[Signal]V, error) {
	out := map[Signal]V{}
	var problems []error
	for _, item := range strings.Split(text, ",") {
		if item == "" {
			continue
		}
		name, rest, found := strings.Cut(item, sign)
		signal := Signal(name)
		switch _, twice := out[signal]; {
		case !found:
			problems = append(problems, fmt.Errorf("%q is not signal%svalue", item, sign))
			continue
		case strings.HasPrefix(name, "containerfs."):
			problems = append(problems, fmt.Errorf("%s cannot be set: what containers write counts where it lies, in nodefs or in imagefs", name))
			continue
		case signal.order() < 0 || signal == AllocatableMemory:
			problems = append(problems, fmt.Errorf("unsupported signal %q: one of %s", name, names()))
			continue
		case twice:
			problems = append(problems, fmt.Errorf("signal %q is there twice", name))
			continue
		}
		v, err := value(rest)
		if err != nil {
			problems = append(problems, fmt.Errorf("%s: %w", name, err))
		}
		out[signal] = v
	}
	return out, errors.Join(problems...)
}

func names() string {
	var out []string
	for _, k := range kinds {
		if k.signal != AllocatableMemory {
			out = append(out, string(k.signal))
		}
	}
	return strings.Join(out, ", ")
}

// parseValue reads a quantity or a percentage. 0 %, and, as Kubernetes has it, 100 % switch a threshold off.
func parseValue(text string) (Value, error) {
	if number, ok := strings.CutSuffix(text, "%"); ok {
		percent, err := strconv.ParseFloat(number, 64)
		if err != nil || !(percent >= 0 && percent <= 100) {
			return Value{}, fmt.Errorf("%q is not a percentage from 0 to 100", text)
		}
		if percent == 100 {
			return Value{}, nil
		}
		return Value{Percent: percent}, nil
	}
	q, err := resource.ParseQuantity(text)
	if err != nil {
		return Value{}, fmt.Errorf("%q: %w", text, err)
	}
	if q.Sign() < 0 {
		return Value{}, fmt.Errorf("%q is negative", text)
	}
	return Value{Number: q.Value()}, nil
}

// quantity writes an amount of a resource.
func quantity(name corev1.ResourceName, n int64) string {
	format := resource.BinarySI
	if name == inodes || name == processes {
		format = resource.DecimalSI
	}
	return resource.NewQuantity(n, format).String()
}
