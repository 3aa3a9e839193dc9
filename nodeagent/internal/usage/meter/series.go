package meter

import (
	"slices"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"howdah.dev/nodeagent/internal/cgroup"
	"howdah.dev/nodeagent/internal/usage"
)

// series is one name of a group's metrics, and how its value is read; ok is false where the group has none.
type series struct {
	desc  *prometheus.Desc
	kind  prometheus.ValueType
	extra []string // values of the labels behind the group's
	value func(m *usage.Measured) (_ float64, ok bool)
}

// describe makes a description with a group's labels, and more behind them.
type describe func(name, help string, more ...string) *prometheus.Desc

const gauge, counter = prometheus.GaugeValue, prometheus.CounterValue

// groupSeries are all that is told of a group, but for its disks.
func groupSeries(desc describe) []series {
	return slices.Concat(cpuSeries(desc), memorySeries(desc), taskSeries(desc), pressureSeries(desc))
}

func cpuSeries(desc describe) []series {
	out := []series{{
		desc: desc("container_cpu_usage_seconds_total", "Time of cores used, in seconds.", "cpu"), kind: counter, extra: []string{"total"},
		value: func(m *usage.Measured) (float64, bool) {
			if m.CPU == nil {
				return 0, false
			}
			return m.CPU.Total.Seconds(), true
		},
	}}
	for _, of := range []struct {
		name, help string
		value      func(c *cgroup.CPU) float64
	}{
		{"user_seconds_total", "Time of cores used outside of the kernel.", func(c *cgroup.CPU) float64 { return c.User.Seconds() }},
		{"system_seconds_total", "Time of cores used in the kernel.", func(c *cgroup.CPU) float64 { return c.System.Seconds() }},
		{"cfs_periods_total", "Periods in which a limit was enforced.", func(c *cgroup.CPU) float64 { return float64(c.Periods) }},
		{"cfs_throttled_periods_total", "Periods in which the limit held the group back.", func(c *cgroup.CPU) float64 { return float64(c.Throttled) }},
		{"cfs_throttled_seconds_total", "Time for which the limit held the group back.", func(c *cgroup.CPU) float64 { return c.ThrottledTime.Seconds() }},
	} {
		out = append(out, series{desc: desc("container_cpu_"+of.name, of.help), kind: counter, value: func(m *usage.Measured) (float64, bool) {
			if m.CPU == nil {
				return 0, false
			}
			return of.value(m.CPU), true
		}})
	}
	for _, of := range []struct {
		name, help string
		value      func(c *cgroup.CPU) float64
	}{
		{"period", "Period of the limit on the time of cores, in microseconds.", func(c *cgroup.CPU) float64 { return float64(c.Period / time.Microsecond) }},
		{"quota", "Time of cores that may be used in a period, in microseconds.", func(c *cgroup.CPU) float64 { return float64(c.Quota / time.Microsecond) }},
		{"shares", "Weight beside other groups.", func(c *cgroup.CPU) float64 { return float64(c.Shares) }},
	} {
		out = append(out, series{desc: desc("container_spec_cpu_"+of.name, of.help), kind: gauge, value: func(m *usage.Measured) (float64, bool) {
			if m.CPU == nil || of.value(m.CPU) == 0 {
				return 0, false // there is no limit, or the kernel does not tell
			}
			return of.value(m.CPU), true
		}})
	}
	return out
}

func memorySeries(desc describe) []series {
	var out []series
	for _, of := range []struct {
		name, help string
		kind       prometheus.ValueType
		value      func(m *cgroup.Memory) uint64
	}{
		{"container_memory_usage_bytes", "Memory in use, with what the kernel may drop.", gauge, func(m *cgroup.Memory) uint64 { return m.Usage }},
		{"container_memory_working_set_bytes", "Memory in use, without files' inactive pages.", gauge, func(m *cgroup.Memory) uint64 { return m.WorkingSet }},
		{"container_memory_rss", "Memory of no file.", gauge, func(m *cgroup.Memory) uint64 { return m.RSS }},
		{"container_memory_cache", "Memory of files.", gauge, func(m *cgroup.Memory) uint64 { return m.Cache }},
		{"container_memory_mapped_file", "Memory of files that are mapped.", gauge, func(m *cgroup.Memory) uint64 { return m.Mapped }},
		{"container_memory_kernel_usage", "Memory of the kernel.", gauge, func(m *cgroup.Memory) uint64 { return m.Kernel }},
		{"container_memory_total_active_file_bytes", "Memory of files' active pages.", gauge, func(m *cgroup.Memory) uint64 { return m.ActiveFile }},
		{"container_memory_total_inactive_file_bytes", "Memory of files' inactive pages.", gauge, func(m *cgroup.Memory) uint64 { return m.InactiveFile }},
		{"container_memory_max_usage_bytes", "The most memory that was in use.", gauge, func(m *cgroup.Memory) uint64 { return m.Peak }},
		{"container_memory_failcnt", "How often the limit was hit.", counter, func(m *cgroup.Memory) uint64 { return m.Failures }},
		{"container_oom_events_total", "Processes that were killed for want of memory.", counter, func(m *cgroup.Memory) uint64 { return m.Kills }},
		{"container_spec_memory_limit_bytes", "Memory that may be used; 0 is without a limit.", gauge, func(m *cgroup.Memory) uint64 { return m.Limit }},
		{"container_spec_memory_reservation_limit_bytes", "Memory that is kept for it; 0 is none.", gauge, func(m *cgroup.Memory) uint64 { return m.Reservation }},
	} {
		out = append(out, ofMemory(desc(of.name, of.help), of.kind, of.value))
	}
	faults := desc("container_memory_failures_total", "Page faults.", "failure_type", "scope")
	return append(out,
		ofMemory(faults, counter, func(m *cgroup.Memory) uint64 { return m.Faults }, "pgfault", "hierarchy"),
		ofMemory(faults, counter, func(m *cgroup.Memory) uint64 { return m.MajorFaults }, "pgmajfault", "hierarchy"),
		ofSwap(desc("container_memory_swap", "Swap in use."), func(s *cgroup.Swap) uint64 { return s.Usage }),
		ofSwap(desc("container_spec_memory_swap_limit_bytes", "Swap that may be used; 0 is without a limit."), func(s *cgroup.Swap) uint64 { return s.Limit }))
}

func ofMemory(desc *prometheus.Desc, kind prometheus.ValueType, value func(m *cgroup.Memory) uint64, extra ...string) series {
	return series{desc: desc, kind: kind, extra: extra, value: func(m *usage.Measured) (float64, bool) {
		if m.Memory == nil {
			return 0, false
		}
		return float64(value(m.Memory)), true
	}}
}

func ofSwap(desc *prometheus.Desc, value func(s *cgroup.Swap) uint64) series {
	return series{desc: desc, kind: gauge, value: func(m *usage.Measured) (float64, bool) {
		if m.Swap == nil {
			return 0, false
		}
		return float64(value(m.Swap)), true
	}}
}

func taskSeries(desc describe) []series {
	var out []series
	for _, of := range []struct {
		name, help string
		value      func(t *cgroup.Tasks) uint64
	}{
		{"processes", "Processes.", func(t *cgroup.Tasks) uint64 { return t.Processes }},
		{"threads", "Threads.", func(t *cgroup.Tasks) uint64 { return t.Threads }},
		{"threads_max", "Threads that there may be; 0 is without a limit.", func(t *cgroup.Tasks) uint64 { return t.Limit }},
	} {
		out = append(out, series{desc: desc("container_"+of.name, of.help), kind: gauge, value: func(m *usage.Measured) (float64, bool) {
			if m.Tasks == nil {
				return 0, false
			}
			return float64(of.value(m.Tasks)), true
		}})
	}
	return out
}

// pressureSeries are how long a group has waited for something, some of it and all of it.
func pressureSeries(desc describe) []series {
	var out []series
	for _, of := range []struct {
		name, what string
		read       func(p *cgroup.Pressures) *cgroup.Pressure
	}{
		{"cpu", "CPUs", func(p *cgroup.Pressures) *cgroup.Pressure { return p.CPU }},
		{"memory", "memory", func(p *cgroup.Pressures) *cgroup.Pressure { return p.Memory }},
		{"io", "disks", func(p *cgroup.Pressures) *cgroup.Pressure { return p.IO }},
	} {
		for _, how := range []struct {
			name, help string
			stall      func(p *cgroup.Pressure) cgroup.Stall
		}{
			{"stalled", "Time for which nothing in it went on for want of ", func(p *cgroup.Pressure) cgroup.Stall { return p.Full }},
			{"waiting", "Time for which something in it waited for ", func(p *cgroup.Pressure) cgroup.Stall { return p.Some }},
		} {
			out = append(out, series{
				desc: desc("container_pressure_"+of.name+"_"+how.name+"_seconds_total", how.help+of.what+"."), kind: counter,
				value: func(m *usage.Measured) (float64, bool) {
					p := of.read(&m.Pressures)
					if p == nil {
						return 0, false
					}
					return how.stall(p).Total.Seconds(), true
				},
			})
		}
	}
	return out
}
